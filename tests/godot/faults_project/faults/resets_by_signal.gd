extends Walker
## No fault: the body is placed when the trainer asks all agents to begin anew, and says so.


func _ready() -> void:
	reset_after = 0
	get_node("../Sync").environment_reset.connect(_begin)


func _begin() -> void:
	place_body()
	reset()
