extends LanistaAgent2D
## Walks in one of four directions at a speed of its own; at a wall the way through it is masked.

const WAYS: Array[Vector2] = [Vector2.LEFT, Vector2.RIGHT, Vector2.UP, Vector2.DOWN]

var _step := Vector2.ZERO


func _ready() -> void:
	position = _player.somewhere()
	reset_requested.connect(func() -> void: position = _player.somewhere())


func _physics_process(delta: float) -> void:
	super(delta)
	var edge: Vector2 = Vector2.ONE * _player.HALF
	position = (position + _step).clamp(-edge, edge)


func get_obs() -> Dictionary:
	var half: float = _player.HALF
	var seen := [position, _player.fruit - position, _player.thorn - position]
	return {"places": seen.map(func(at: Vector2) -> Array: return [at.x / half, at.y / half])}


func get_obs_space():
	return {"places": {"size": [3, 2], "space": "box"}}


func get_action_space() -> Dictionary:
	return {"way": {"size": 4, "action_type": "discrete"}, "speed": {"size": 1, "action_type": "continuous"}}


func set_action(action) -> void:
	_step = WAYS[action["way"]] * (2.0 + 2.0 * action["speed"][0])


func get_disabled_actions() -> Dictionary:
	var walls := []
	for way in WAYS.size():
		if (WAYS[way] * position).length() >= _player.HALF and WAYS[way].dot(position) > 0.0:
			walls.append(way)
	return {"way": walls}
