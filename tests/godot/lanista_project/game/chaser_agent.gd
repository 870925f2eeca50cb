extends LanistaAgent2D


func get_obs() -> Dictionary:
	var body = _player
	return {"obs": [body.position.x / body.half, body.position.y / body.half, body.fruit.x / body.half, body.fruit.y / body.half]}


func get_action_space() -> Dictionary:
	return {"move": {"size": 2, "action_type": "continuous"}}


func set_action(action) -> void:
	_player.target_velocity = Vector2(action["move"][0], action["move"][1])


func get_info() -> Dictionary:
	return {"is_success": _player.eaten >= 3}


func reset():
	super.reset()
	zero_reward()


func hello() -> String:
	return "hello from %s" % name
