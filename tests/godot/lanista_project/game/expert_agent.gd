extends "chaser_agent.gd"
## Demonstrates: a rule in the place of a player's hands goes straight to the fruit.

## As games for godot_rl_agents have it: set_action() reads the controls, and get_action() gives a list.
@export var as_list := false

var wanted := Vector2.ZERO


func get_action():
	if as_list:
		return [wanted.x, wanted.y]
	_read_controls()
	return {"move": [wanted.x, wanted.y]}


func set_action(action = null) -> void:
	if action == null:
		_read_controls()
		action = {"move": [wanted.x, wanted.y]}
	super(action)


func _read_controls() -> void:
	wanted = ((_player.fruit - _player.position) / 60.0).limit_length(1.0)
