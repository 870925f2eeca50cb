extends Walker


func get_reward():
	return "good"
