extends RefCounted
## Lanista's messages: columns of bytes by behavior, agents with ids that come and go, terminal steps, masks, groups,
## environment parameters and statistics.

const AgentState := preload("agent_state.gd")
const Behavior := preload("behavior.gd")
const Failure := preload("failure.gd")

const VERSION := 1

var action_repeat := 0
var addon_version := ""
var statistics: Array = []

var _behaviors: Dictionary = {}
var _new_behaviors := {}
var _ids := 0


func env_info() -> Dictionary:
	var version := Engine.get_version_info()
	var behaviors := {}
	for key in _behaviors:
		behaviors[key] = _behaviors[key].to_dictionary()
	_new_behaviors.clear()
	return {
		"type": "env_info",
		"lanista": VERSION,
		"engine": "Godot %d.%d.%d" % [version["major"], version["minor"], version["patch"]],
		"addon_version": addon_version,
		"behaviors": behaviors,
		"action_repeat": action_repeat,
	}


## An agent has entered the scene tree.
func add(state: AgentState) -> void:
	if not Behavior.has_valid_name(state.node):
		return
	var key := "%s?team=%d" % [state.node.policy_name, state.node.team_id]
	if not _behaviors.has(key):
		var behavior := Behavior.new(state.node)
		if Failure.happened:
			return
		_behaviors[key] = behavior
		_new_behaviors[key] = _behaviors[key].to_dictionary()
	elif not _behaviors[key].accepts(state.node):
		return
	state.behavior = _behaviors[key]


## What has happened since the last message. A reset forgets it.
func steps(type: String) -> Dictionary:
	for behavior: Behavior in _behaviors.values():
		behavior.clear()
	if type == "step":
		for ending in AgentState.departed:
			if ending.behavior != null:
				ending.behavior.add_terminal(ending)
	AgentState.departed.clear()
	for state in AgentState.all:
		if state.trained:
			_add(state)
	return _message(type)


func _add(state: AgentState) -> void:
	var ending := state.take_ending()
	if ending != null:
		ending.behavior.add_terminal(ending)
	if state.awaits_reset():
		return
	if state.id == 0:
		_ids += 1
		state.begin(_ids)
	var reward := state.take_reward()
	var group_reward := state.take_group_reward()
	state.behavior.add_decision(state, state.observe(), reward, group_reward)


func _message(type: String) -> Dictionary:
	var behaviors := {}
	for key in _behaviors:
		var columns: Dictionary = _behaviors[key].columns()
		if not columns.is_empty():
			behaviors[key] = columns
	var message := {"type": type, "behaviors": behaviors}
	if not statistics.is_empty():
		message["statistics"] = statistics.duplicate()
		statistics.clear()
	if not _new_behaviors.is_empty():
		message["new_behaviors"] = _new_behaviors.duplicate()
		_new_behaviors.clear()
	return message


## Apply the actions of a message.
func act(message: Dictionary) -> void:
	var behaviors: Dictionary = message.get("behaviors", {})
	for key: String in behaviors:
		if not _behaviors.has(key):
			Failure.stop("the trainer acts for the behavior %s, which no agent has" % key)
			return
		_act(_behaviors[key], behaviors[key])


func _act(behavior: Behavior, columns: Dictionary) -> void:
	var ids := _bytes(columns, "ids").to_int32_array()
	var numbers := _bytes(columns, "continuous").to_float32_array()
	var choices := _bytes(columns, "discrete").to_int32_array()
	var width := behavior.width
	var branches := behavior.branches.size()
	if numbers.size() != ids.size() * width or choices.size() != ids.size() * branches:
		var text := "the trainer sends %d numbers and %d choices for %d agents of %s. Expected: %d and %d for each"
		Failure.stop(text % [numbers.size(), choices.size(), ids.size(), behavior.key, width, branches])
		return
	for row in ids.size():
		var state: AgentState = behavior.waiting.get(ids[row])
		if state == null:
			Failure.stop("the trainer acts for the agent %d of %s, which does not wait" % [ids[row], behavior.key])
			return
		var choice := choices.slice(row * branches, (row + 1) * branches)
		state.node.set_action(behavior.to_action(numbers.slice(row * width, (row + 1) * width), choice))


func _bytes(columns: Dictionary, name: String) -> PackedByteArray:
	var text: String = columns.get(name, "")
	return PackedByteArray() if text.is_empty() else Marshalls.base64_to_raw(text)
