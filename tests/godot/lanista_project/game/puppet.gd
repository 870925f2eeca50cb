extends LanistaAgent2D
## An agent that does as the trainer orders, in the physics frame that it orders: tests script it by its actions.
##
## It observes [its number of resets, physics frames since the last one, the parameter "scale"], and earns 1 a frame.

const ORDERS: Array[StringName] = [
	&"go_on", &"terminate", &"truncate", &"reset_then_done", &"jump", &"ask_for_reset", &"vanish", &"end_and_vanish",
	&"bring_another", &"reward_group", &"end_group", &"vanish_at_once", &"reload", &"misbehave",
]

## Whether the body is placed by reset_requested, or by polling needs_reset.
@export var listens := false
## What is wrong with its observations once it is ordered to misbehave.
@export var mischief := ""

var resets := 0
var age := 0
var misbehaves := false

var _order := &"go_on"
var _at := 0
var _frame := 0


func _ready() -> void:
	if listens:
		reset_requested.connect(place)


func place() -> void:
	resets += 1
	age = 0


func _physics_process(delta: float) -> void:
	super(delta)
	_frame += 1
	if needs_reset and not listens:
		reset()
		place()
		return
	age += 1
	add_reward(1.0)
	if _frame == _at:
		call(_order)


func get_obs() -> Dictionary:
	if not misbehaves:
		return {"obs": [resets, age, LanistaSync.parameter("scale", -1.0)]}
	match mischief:
		"script error":
			var nobody: Node2D = null
			return {"obs": [nobody.position.x, 0.0, 0.0]}
		"nothing":
			return {}
	return {"obs": [1.0, 2.0]}


func get_action_space() -> Dictionary:
	return {"at": {"size": 1, "action_type": "continuous"}, "order": {"size": ORDERS.size(), "action_type": "discrete"}}


## `at`: a sixteenth for each physics frame from the action to the order.
func set_action(action) -> void:
	_order = ORDERS[action["order"]]
	_at = roundi(action["at"][0] * 16.0)
	_frame = 0


func get_disabled_actions() -> Dictionary:
	return {"order": [0, 13]} if resets == 2 else {}


func get_info() -> Dictionary:
	return {"resets": resets}


func go_on() -> void:
	pass


func terminate() -> void:
	done = true
	needs_reset = true
	add_reward(100.0)  # still of this episode


func truncate() -> void:
	end_episode(true)


func reset_then_done() -> void:
	needs_reset = true
	done = true


## Ends and places the body in the same frame, without asking.
func jump() -> void:
	LanistaSync.add_statistic("Puppet/Age", age, LanistaSync.Statistic.SUM)
	done = true
	place()


func ask_for_reset() -> void:
	needs_reset = true


func vanish() -> void:
	queue_free()


func end_and_vanish() -> void:
	end_episode()
	queue_free()


func vanish_at_once() -> void:
	free.call_deferred()


func bring_another() -> void:
	var another: Node = duplicate()
	another.name = "Newcomer"
	another.policy_name = "newcomer"
	another.group = group
	get_parent().add_child(another)


func reward_group() -> void:
	if group != null:
		group.add_reward(5.0)


func end_group() -> void:
	if group != null:
		group.add_reward(7.0)
		group.end_episode()


func reload() -> void:
	get_tree().reload_current_scene.call_deferred()


func misbehave() -> void:
	misbehaves = true
