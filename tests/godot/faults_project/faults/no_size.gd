extends Walker


func get_action_space() -> Dictionary:
	return {"move": {"sise": 1, "action_type": "continuous"}}
