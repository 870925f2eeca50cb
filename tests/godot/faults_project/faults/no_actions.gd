extends Walker


func get_action_space() -> Dictionary:
	return {}
