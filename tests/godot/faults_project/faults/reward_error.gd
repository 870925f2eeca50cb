extends Walker


func get_reward() -> float:
	return reward + get_parent().bonus
