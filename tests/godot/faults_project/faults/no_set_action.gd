extends LanistaAgent2D


func get_obs() -> Dictionary:
	return {"obs": [1.0]}


func get_action_space() -> Dictionary:
	return {"move": {"size": 1, "action_type": "continuous"}}
