extends LanistaAgent3D
## Observes numbers, a choice, a table and pictures of several forms; acts by two continuous and two discrete actions.

const SIDE := 40

## What set_action was given last, as get_obs shows it.
var heard := [0.0, 0.0, 0.0, 0.0, 0.0]


func get_obs() -> Dictionary:
	var image := Image.create(SIDE, SIDE - 2, false, Image.FORMAT_RGBA8)
	for x in SIDE:
		for y in SIDE - 2:
			image.set_pixel(x, y, Color8(x, y, 200, 9))
	var gray := PackedByteArray()
	gray.resize(6)
	gray[5] = 77
	return {
		"heard": heard,
		"gear": 2,
		"table": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
		"camera_2d": image,
		"gray_2d": gray,
		"hex_2d": "010203040506",
	}


func get_obs_space():
	return {
		"heard": {"size": [5], "space": "box"},
		"gear": {"size": 4, "space": "discrete"},
		"table": {"size": [2, 3], "space": "box"},
		"camera_2d": {"size": [3, SIDE - 2, SIDE], "space": "box"},
		"gray_2d": {"size": [1, 2, 3], "space": "box"},
		"hex_2d": {"size": [3, 1, 2], "space": "box"},
	}


func get_action_space() -> Dictionary:
	return {
		"color": {"size": 3, "action_type": "discrete"},
		"stroke": {"size": 2, "action_type": "continuous"},
		"lift": {"size": 2, "action_type": "discrete"},
		"pressure": {"size": 1, "action_type": "continuous"},
	}


func set_action(action) -> void:
	assert(action["color"] is int and action["lift"] is int)
	heard = [action["color"], action["stroke"][0], action["stroke"][1], action["lift"], action["pressure"][0]]


func get_disabled_actions() -> Dictionary:
	return {"color": [1]}
