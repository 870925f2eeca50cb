extends LanistaAgent2D
## Sees the field as a picture, and names the quarter in which the fruit lies.

const SIDE := 24


func get_obs() -> Dictionary:
	var field: Node2D = get_parent()
	var image := Image.create(SIDE, SIDE, false, Image.FORMAT_RGB8)
	for spot: Array in [[field.fruit, Color.GREEN], [field.thorn, Color.RED]]:
		var at: Vector2 = (spot[0] / field.HALF + Vector2.ONE) / 2.0 * (SIDE - 4)
		image.fill_rect(Rect2i(Vector2i(at), Vector2i(4, 4)), spot[1])
	return {"field_2d": image}


func get_obs_space():
	return {"field_2d": {"size": [3, SIDE, SIDE], "space": "box"}}


func get_action_space() -> Dictionary:
	return {"quarter": {"size": 4, "action_type": "discrete"}}


func set_action(action) -> void:
	var fruit: Vector2 = get_parent().fruit
	add_reward(1.0 if action["quarter"] == int(fruit.x > 0.0) + 2 * int(fruit.y > 0.0) else 0.0)
