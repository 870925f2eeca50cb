extends LanistaAgent2D
## Observes by its sensors alone, and does nothing.


func get_action_space() -> Dictionary:
	return {"nothing": {"size": 2, "action_type": "discrete"}}


func set_action(_action) -> void:
	pass
