@icon("icon.svg")
class_name LanistaGroup
extends Node
## Agents that share rewards, for trainers such as POCA. An agent joins by its export [code]group[/code]; members may
## come and go.[br]
## A round ends in this order: [method add_reward] while the members are there, [method end_episode], then
## [code]queue_free()[/code] of members that are not to begin again.

const AgentState := preload("core/agent_state.gd")

static var _count := 0

## The group's number in a session.
var id := _new_id()

var _warned := false


## Reward all members together: those that are in the scene tree now.
func add_reward(amount: float) -> void:
	var members := _members()
	if members.is_empty() and not _warned:
		_warned = true
		var text := "Lanista: add_reward(%s) of %s is lost, since the group has no members now. "
		var remedy := "Reward it before its last member leaves the tree; an agent joins by its export `group`"
		push_warning((text + remedy) % [amount, get_path() if is_inside_tree() else NodePath(name)])
	for state in members:
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
