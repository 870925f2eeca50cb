extends RefCounted
## The messages of godot_rl_agents 0.8: a fixed number of agents, all of which decide in every message.

const AgentState := preload("agent_state.gd")
const Behavior := preload("behavior.gd")
const Failure := preload("failure.gd")

var _agents: Array[AgentState] = []
var _announced := false


func env_info() -> Dictionary:
	_announced = true
	_agents = AgentState.all.filter(func(state: AgentState) -> bool: return state.trained)
	return {
		"type": "env_info",
		"observation_space": _agents.map(func(state: AgentState) -> Dictionary: return state.behavior.observation_spaces),
		"action_space": _agents.map(func(state: AgentState) -> Dictionary: return state.behavior.action_spaces),
		"n_agents": _agents.size(),
		"agent_policy_names": _agents.map(func(state: AgentState) -> String: return state.node.policy_name),
	}


## An agent has entered the scene tree.
func add(state: AgentState) -> void:
	state.behavior = Behavior.new(state.node)
	if _announced:
		var text := "%s came after the start. This trainer knows the agents of the start only: train with Lanista"
		Failure.stop(text % state.node.get_path())


## What has happened since the last message. A reset forgets it.
func steps(type: String) -> Dictionary:
	if not AgentState.departed.is_empty():
		var text := "%s has left the scene. This trainer expects all agents of the start: train with Lanista"
		Failure.stop(text % AgentState.departed[0].path)
		return {}
	var observations := []
	var rewards := []
	var dones := []
	var infos := []
	for state in _agents:
		var info: Dictionary = state.node.get_info().duplicate()
		var ending := state.take_ending()
		if ending != null:
			info["TimeLimit.truncated"] = ending.truncated
			info["terminal_observation"] = state.behavior.to_json(ending.observations, state.node)
		rewards.append(ending.reward if ending != null else state.take_reward())
		dones.append(ending != null)
		infos.append(info)
		if state.id == 0:
			state.begin(1)
		observations.append(state.behavior.to_json(state.observe(), state.node))
	if type == "reset":
		return {"type": type, "obs": observations, "info": infos}
	return {"type": type, "obs": observations, "reward": rewards, "done": dones, "info": infos}


## Apply the actions of a message: those of the first agents, if they are fewer.
func act(message: Dictionary) -> void:
	var actions: Array = message.get("action", [])
	for index in mini(actions.size(), _agents.size()):
		var behavior: Behavior = _agents[index].behavior
		var action: Dictionary = actions[index]
		for name in behavior.branches:
			if action.has(name):
				action[name] = int(action[name])
		_agents[index].node.set_action(action)
