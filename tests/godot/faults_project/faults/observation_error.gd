extends Walker


func get_obs() -> Dictionary:
	return {"obs": [place_x, get_parent().goal]}
