extends Walker


func get_obs() -> Dictionary:
	return {"obs": [place_x, goal, 0.0]}
