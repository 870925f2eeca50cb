extends Walker


func get_action_space() -> Dictionary:
	return {"move": {"size": 3, "action_type": "discrete"}}


func set_action(action) -> void:
	speed = action["move"] - 1.0


func get_disabled_actions() -> Dictionary:
	return {"move": [get_parent().wall]}
