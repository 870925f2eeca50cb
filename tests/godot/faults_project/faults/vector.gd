extends Walker


func get_obs() -> Dictionary:
	return {"obs": [place_x, Vector2(goal, 0.0)]}
