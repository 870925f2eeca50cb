extends Walker


func get_action_space() -> Dictionary:
	return {"move": {"size": 2, "action_type": "discrete"}}


func set_action(action) -> void:
	speed = action["move"] - 0.5


func get_disabled_actions() -> Dictionary:
	return {"move": [0, 1]}
