class_name LanistaGroup
extends Node
## Agents that share rewards, for trainers such as POCA. An agent joins by its export [code]group[/code]; members may
## come and go.

const AgentState := preload("core/agent_state.gd")

static var _count := 0

## The group's number in a session.
var id := _new_id()


## Reward all members together.
func add_reward(amount: float) -> void:
	for state in _members():
		state.group_reward += amount


## End the episode of all members and ask each for a reset.
func end_episode(truncated := false) -> void:
	for state in _members():
		state.node.end_episode(truncated)


## The agents of the group that are in the scene tree.
func get_members() -> Array[Node]:
	var nodes: Array[Node] = []
	for state in _members():
		nodes.append(state.node)
	return nodes


func _members() -> Array[AgentState]:
	return AgentState.all.filter(func(state: AgentState) -> bool: return state.node.group == self)


static func _new_id() -> int:
	_count += 1
	return _count
