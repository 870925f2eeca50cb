extends Walker


func get_obs():
	return [place_x, goal]
