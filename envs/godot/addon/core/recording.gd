extends RefCounted
## An agent that is played by hand, and whose episodes become demonstrations.

const AgentState := preload("agent_state.gd")
const Behavior := preload("behavior.gd")
const DemonstrationsFile := preload("demonstrations_file.gd")

var _file: DemonstrationsFile
var _numbers := PackedFloat32Array()
var _choices := PackedInt32Array()


func _init(state: AgentState, file: DemonstrationsFile) -> void:
	_file = file
	state.behavior = Behavior.new(state.node)
	_file.describe(state)


## Let the agent do what the player wants, and keep what it observed and did.
func decide(state: AgentState) -> void:
	end(state.take_ending())
	if state.awaits_reset():
		return
	if state.id == 0:
		state.begin(_file.new_id())
	var reward := state.take_reward()
	var group_reward := state.take_group_reward()
	state.behavior.add_decision(state, state.observe(), reward, group_reward)
	_act(state.node, state.behavior)


## Write the episode that has ended, if there is one.
func end(ending: AgentState.Ending) -> void:
	if ending == null:
		return
	var behavior: Behavior = ending.behavior
	behavior.add_terminal(ending)
	var actions := {"ids": Behavior.Steps.encode(behavior.decision.ids)}
	if not _numbers.is_empty():
		actions["continuous"] = Behavior.Steps.encode(_numbers)
	if not _choices.is_empty():
		actions["discrete"] = Behavior.Steps.encode(_choices)
	_file.add_episode(behavior, actions)
	behavior.clear()
	_numbers.clear()
	_choices.clear()


## What the player wants now, which the agent does until the next decision: a Dictionary as set_action() takes it, or the
## list of godot_rl_agents, whose set_action() reads the controls itself if it is given nothing.
func _act(agent: Node, behavior: Behavior) -> void:
	var action: Variant = agent.get_action()
	if action is Array:
		agent.set_action()
		behavior.append_action(agent.get_action(), agent, _numbers, _choices)
	elif behavior.append_action(action, agent, _numbers, _choices):
		agent.set_action(action)
