extends RefCounted
## One behavior: what its agents observe and do, and the columns of the message under way.

const AgentState := preload("agent_state.gd")
const Failure := preload("failure.gd")
const Observations := preload("observations.gd")


## Agents of one message, a row each.
class Steps:
	var ids := PackedInt32Array()
	var reward := PackedFloat32Array()
	var group := PackedInt32Array()
	var group_reward := PackedFloat32Array()
	var interrupted := PackedByteArray()
	var observations: Array = []
	var mask: Array[PackedByteArray] = []

	func _init(pictures: Array[bool], branches: int) -> void:
		for picture in pictures:
			if picture:
				observations.append(PackedByteArray())
			else:
				observations.append(PackedFloat32Array())
		for branch in branches:
			mask.append(PackedByteArray())

	func to_dictionary(terminal: bool) -> Dictionary:
		var encoded := {"ids": encode(ids), "reward": encode(reward), "obs": observations.map(encode)}
		if _any(group):
			encoded["group"] = encode(group)
		if _any(group_reward):
			encoded["group_reward"] = encode(group_reward)
		if terminal and _any(interrupted):
			encoded["interrupted"] = encode(interrupted)
		if not terminal and mask.any(_any):
			encoded["mask"] = mask.map(encode)
		return encoded

	static func encode(column: Variant) -> String:
		var bytes: PackedByteArray = column if column is PackedByteArray else column.to_byte_array()
		return "" if bytes.is_empty() else Marshalls.raw_to_base64(bytes)

	static func _any(column: Variant) -> bool:
		return column.size() != column.count(0)


## Name and team as the trainer knows them: "name?team=0".
var key: String
## The agent that declared the behavior.
var path: String
var observation_spaces: Dictionary
var action_spaces: Dictionary

var observation_names: Array[String] = []
var sizes: Array[Array] = []
var pictures: Array[bool] = []
## The number of choices of a discrete observation, 0 for others.
var choices: Array[int] = []
## How many numbers an action has, and the names of its choices.
var width := 0
var branches: Array[String] = []

## The agents that need an action, and those whose episode has ended; null: none.
var decision: Steps
var terminal: Steps
## The agents of the last message that wait for an action, by id.
var waiting: Dictionary = {}

var _counts: Array[int] = []
## The observations of which one was looked at number by number.
var _seen := {}
## The numbers of each action, 0 for a choice.
var _widths := {}


## Whether a trainer can take an agent's policy_name for a behavior's; if not, the session stops.
static func has_valid_name(agent: Node) -> bool:
	var name: String = agent.policy_name
	if "?" in name:
		var remedy := "Set policy_name to '%s', and the team as team_id" % name.get_slice("?", 0)
		Failure.stop("policy_name of %s is '%s', and teams are told by team_id. %s" % [agent.get_path(), name, remedy], agent)
	elif name.strip_edges().is_empty():
		Failure.stop("policy_name of %s is empty. Expected: the name of a behavior" % agent.get_path(), agent)
	return not Failure.happened


func _init(agent: Node) -> void:
	key = "%s?team=%d" % [agent.policy_name, agent.team_id]
	path = str(agent.get_path())
	var spaces: Variant = agent.get_obs_space()
	if spaces is Dictionary and not spaces.is_empty():
		observation_spaces = spaces
	else:
		var function := "get_obs" if spaces is Dictionary else "get_obs_space"
		Failure.stop("%s observes nothing: get_obs_space() gives %s. Is there a script error above?" % [path, spaces], agent, function)
	action_spaces = agent.get_action_space()
	if action_spaces.is_empty():
		Failure.stop("%s has no actions: get_action_space() is empty. Is there a script error above?" % path, agent, "get_action_space")
	for name: String in observation_spaces:
		_add_observation(name, observation_spaces[name])
	for name: String in action_spaces:
		_add_action(name, action_spaces[name])
	clear()


func _add_observation(name: String, space: Dictionary) -> void:
	var size: Variant = space.get("size")
	var is_choice: bool = space.get("space", "box") == "discrete"
	if is_choice and size is Array and size.size() == 1:
		size = size[0]
	if is_choice != (size is int or size is float) or not (is_choice or size is Array):
		var allowed := '{"size": [numbers], "space": "box"} or {"size": choices, "space": "discrete"}'
		Failure.stop("get_obs_space() of %s says of '%s' %s. Allowed: %s" % [path, name, space, allowed], NodePath(path), "get_obs_space")
		size = []
	var picture := not is_choice and Observations.is_picture(name, size)
	if picture and not Observations.FORMATS.has(int(size[0])):
		Failure.stop("the picture '%s' of %s has %s channels. Allowed: 1, 3 or 4" % [name, path, size[0]], NodePath(path), "get_obs_space")
	observation_names.append(name)
	sizes.append([int(size)] if is_choice else size)
	pictures.append(picture)
	choices.append(int(size) if is_choice else 0)
	_counts.append(sizes[-1].reduce(func(product: int, side: Variant) -> int: return product * int(side), 1))


func _add_action(name: String, space: Dictionary) -> void:
	var size: Variant = space.get("size")
	var type: Variant = space.get("action_type")
	if not (size is int or size is float) or int(size) < 1 or type not in ["continuous", "discrete"]:
		var allowed := '{"size": n, "action_type": "continuous" or "discrete"}'
		Failure.stop("get_action_space() of %s says of '%s' %s. Allowed: %s" % [path, name, space, allowed], NodePath(path), "get_action_space")
	elif type == "continuous":
		width += int(size)
		_widths[name] = int(size)
	else:
		branches.append(name)
		_widths[name] = 0


## Whether another agent of the same name has the same observations and actions; if not, the session stops.
func accepts(agent: Node) -> bool:
	if agent.get_obs_space() == observation_spaces and agent.get_action_space() == action_spaces:
		return true
	var text := "%s and %s follow the behavior %s and differ: %s, %s and %s, %s. Give one of them another policy_name"
	var other: Array = [agent.get_obs_space(), agent.get_action_space()]
	Failure.stop(text % ([path, agent.get_path(), key, observation_spaces, action_spaces] + other), agent, "get_obs")
	return false


## The behavior as env_info describes it.
func to_dictionary() -> Dictionary:
	var observations := []
	for index in observation_names.size():
		var type := "image" if pictures[index] else "float"
		observations.append({"name": observation_names[index], "shape": sizes[index], "type": type})
	var actions := []
	for name: String in action_spaces:
		var space: Dictionary = action_spaces[name]
		actions.append({"name": name, "size": int(space["size"]), "action_type": space["action_type"]})
	return {"observations": observations, "actions": actions}


## The rows of the message under way.
func columns() -> Dictionary:
	var rows := {}
	if decision != null:
		rows["decision"] = decision.to_dictionary(false)
	if terminal != null:
		rows["terminal"] = terminal.to_dictionary(true)
	return rows


## Forget the rows of the last message.
func clear() -> void:
	decision = null
	terminal = null
	waiting.clear()


## Add an agent that needs an action.
func add_decision(state: AgentState, observations: Dictionary, reward: float, group_reward: float) -> void:
	if decision == null:
		decision = Steps.new(pictures, branches.size())
	_add(decision, state.node, observations, state.id, reward)
	decision.group.append(state.group_id())
	decision.group_reward.append(group_reward)
	waiting[state.id] = state
	var masks := masks_of(state.node)
	for index in masks.size():
		decision.mask[index].append_array(masks[index])


## Add an episode that has ended.
func add_terminal(ending: AgentState.Ending) -> void:
	if terminal == null:
		terminal = Steps.new(pictures, branches.size())
	_add(terminal, ending.path, ending.observations, ending.id, ending.reward)
	terminal.group.append(ending.group_id)
	terminal.group_reward.append(ending.group_reward)
	terminal.interrupted.append(int(ending.truncated))


## For each discrete action its choices, 1 where the agent must not take them now.
func masks_of(agent: Node) -> Array[PackedByteArray]:
	var masks: Array[PackedByteArray] = []
	if branches.is_empty():
		return masks
	var disabled: Dictionary = agent.get_disabled_actions()
	for name: String in disabled:
		if name not in branches:
			var text := "get_disabled_actions() of %s names '%s', which is no discrete action"
			Failure.stop(text % [agent.get_path(), name], agent, "get_disabled_actions")
	for name in branches:
		var mask := PackedByteArray()
		mask.resize(int(action_spaces[name]["size"]))
		for choice: int in disabled.get(name, []):
			if choice < 0 or choice >= mask.size():
				var text := "get_disabled_actions() of %s names the choice %d of '%s', which has %d"
				Failure.stop(text % [agent.get_path(), choice, name, mask.size()], agent, "get_disabled_actions")
			else:
				mask[choice] = 1
		if mask.count(1) == mask.size():
			Failure.stop("get_disabled_actions() of %s leaves no choice of '%s'" % [agent.get_path(), name], agent, "get_disabled_actions")
		masks.append(mask)
	return masks


## What a brain reads of an observation: numbers, or the bytes of a picture.
func read(name: String, agent: Node, observations: Dictionary) -> Variant:
	var index := observation_names.find(name)
	if pictures[index]:
		return _pixels(index, agent, observations)
	return _numbers(index, agent, observations)


## Observations as the base dialect has them: pictures in hex, the rest as the game gives it.
func to_json(observations: Dictionary, agent: Variant) -> Dictionary:
	var encoded := {}
	for index in observation_names.size():
		var name := observation_names[index]
		if pictures[index]:
			encoded[name] = _pixels(index, agent, observations).hex_encode()
		else:
			_numbers(index, agent, observations)
			encoded[name] = observations.get(name)
	return encoded


## An action by its names, from the numbers of all continuous actions and the choices of all branches.
func to_action(numbers: PackedFloat32Array, choice: PackedInt32Array) -> Dictionary:
	var action := {}
	var start := 0
	var branch := 0
	for name: String in _widths:
		var size: int = _widths[name]
		if size == 0:
			action[name] = choice[branch]
			branch += 1
		else:
			action[name] = Array(numbers.slice(start, start + size))
			start += size
	return action


## Append what a player has chosen to the numbers of all continuous actions and the choices of all branches: a Dictionary
## as set_action() takes it, or a list of all values in the order of the actions. If it is none, the session stops.
func append_action(action: Variant, agent: Node, numbers: PackedFloat32Array, choice: PackedInt32Array) -> bool:
	var start := 0
	for name: String in _widths:
		var size: int = _widths[name]
		var values := PackedFloat32Array()
		if action is Dictionary and Observations.stranger_in(action.get(name)).is_empty():
			values = Observations.to_numbers(action[name])
		elif action is Array and Observations.stranger_in(action).is_empty():
			values = Observations.to_numbers(action).slice(start, start + maxi(1, size))
			start += maxi(1, size)
			if size == 0 and width > 0 and action_spaces[name]["size"] == 2 and not values.is_empty():
				values[0] = float(values[0] > 0.0)  # beside continuous ones godot_rl_agents has numbers in [-1, 1]
		if values.size() != maxi(1, size) or (size == 0 and not _is_choice(name, values[0])):
			var expected := "%d numbers" % size if size > 0 else "a choice of %d" % action_spaces[name]["size"]
			var text := "get_action() of %s gives %s, which says of '%s' %s. Expected: %s"
			Failure.stop(text % [agent.get_path(), action, name, values, expected], agent, "get_action")
			return false
		if size == 0:
			choice.append(int(values[0]))
		else:
			numbers.append_array(values)
	return true


func _is_choice(name: String, value: float) -> bool:
	return value >= 0 and value < int(action_spaces[name]["size"]) and value == int(value)


func _add(steps: Steps, agent: Variant, observations: Dictionary, id: int, reward: float) -> void:
	steps.ids.append(id)
	steps.reward.append(reward)
	for index in observation_names.size():
		if pictures[index]:
			steps.observations[index].append_array(_pixels(index, agent, observations))
		else:
			steps.observations[index].append_array(_numbers(index, agent, observations))


func _pixels(index: int, agent: Variant, observations: Dictionary) -> PackedByteArray:
	var name := observation_names[index]
	var pixels := Observations.to_pixels(observations.get(name), sizes[index])
	if pixels.is_empty():
		var size := sizes[index]
		var expected := "a picture of %d x %d with %d channels" % [size[2], size[1], size[0]]
		Observations.refuse(agent, name, observations, expected)
	return pixels


func _numbers(index: int, agent: Variant, observations: Dictionary) -> PackedFloat32Array:
	var name := observation_names[index]
	var numbers := Observations.to_numbers(observations.get(name))
	if choices[index] > 0:
		var choice := int(numbers[0]) if numbers.size() == 1 else -1
		numbers = PackedFloat32Array()
		if choice >= 0 and choice < choices[index]:
			numbers.resize(choices[index])
			numbers[choice] = 1.0
	var is_wrong := numbers.size() != _counts[index]
	if not _seen.has(index):  # once: the engine makes 0 of a Vector2 in a list
		_seen[index] = true
		is_wrong = is_wrong or not Observations.stranger_in(observations.get(name)).is_empty()
	if is_wrong:
		var expected := "one of %d choices" % choices[index] if choices[index] > 0 else "%d numbers" % _counts[index]
		Observations.refuse(agent, name, observations, expected)
	return numbers
