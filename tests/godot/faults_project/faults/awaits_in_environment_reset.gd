extends "awaits.gd"
## No fault: the body is placed half a second after the trainer has asked all agents to begin anew.


func _ready() -> void:
	reset_after = 0
	get_node("../Sync").environment_reset.connect(_begin)


func _begin() -> void:
	await place_body()
	reset()
