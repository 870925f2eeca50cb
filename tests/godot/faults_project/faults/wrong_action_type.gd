extends Walker


func get_action_space() -> Dictionary:
	return {"move": {"size": 1, "action_type": "float"}}
