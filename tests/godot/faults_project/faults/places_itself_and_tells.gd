extends "places_itself.gd"
## No fault: as its parent, and calls reset().


func _ready() -> void:
	super()
	get_node("../Sync").environment_reset.connect(place_body)


func place_body() -> void:
	super()
	if frames > 0:
		reset()
