extends RefCounted
## The episodes of one agent: what LanistaAgent2D and LanistaAgent3D share.
##
## An episode has an id from its first decision until it ends. Ids are never used twice in a session.

const AgentState := preload("agent_state.gd")
const Failure := preload("failure.gd")
const Observations := preload("observations.gd")
const Placement := preload("placement.gd")

## Seconds of the game's time after which agents that no LanistaSync connects with a trainer are named.
const SYNC_SECONDS := 2.0


## An episode that has ended and whose terminal step the trainer has not yet received.
class Ending:
	var id: int
	var behavior: RefCounted
	var path: NodePath
	var observations: Dictionary
	var reward: float
	var group_id: int
	var group_reward: float
	var truncated: bool
	## Until the end of the physics frame, rewards and a change of mind still count.
	var is_open := true


## The states of all agents in the scene tree, in the tree's order.
static var all: Array[AgentState] = []
## The last episodes of agents that have left the tree.
static var departed: Array[Ending] = []
## Physics frames that the game has to place a body after it was asked to: the action_repeat of the LanistaSync.
static var patience := 8
## Whether there is a LanistaSync in the scene tree.
static var has_sync := false

static var _looked_for_sync := false
static var _warned := false
## Functions that scripts lack and that were named, as [script, function].
static var _lacking: Array[Array] = []

## The LanistaAgent2D or LanistaAgent3D.
var node: Node
## Whether a trainer decides for this agent.
var trained := false
## What lets the agent act on a brain, an Inference; null: a trainer or the game decides.
var inference: RefCounted
## What keeps the episodes of an agent that is played by hand, a Recording; null: nothing does.
var recording: RefCounted
## Whether LanistaSync has seen this agent since it entered the tree.
var known := false
## The id of the running episode; 0: none, the next decision begins one.
var id := 0
## The agent's behavior in a session of Lanista's dialect, a Behavior.
var behavior: RefCounted
## The episode that has ended since the last message; null: none.
var ending: Ending
## Physics frames since the episode began or `reset` was called.
var frames := 0
## The group's reward since the last message.
var group_reward := 0.0
## What the agent observed at its last decision.
var _observations := {}
## Whether an episode has ended since `take_end` was called.
var _is_over := false
## The node and those above it: if one of them is freed, the agent leaves.
var _line: Array[Node] = []
## The sensors below the agent by the names of their observations, once they were looked for.
var _sensors := {}
var _placement := Placement.new()
## Physics frames for which needs_reset has been set.
var _asked := 0
## Whether the game tells when it has placed the body. One that has not told in time is not waited for again until it does.
var _answers := true
## Whether get_obs() or get_reward() is running. An end that they ask for comes with the next physics frame: an agent is not
## asked for a decision in an episode that is over.
var _is_asked := false
## That end, as `end` takes it; null: none.
var _late_end: Variant = null
## Whether handlers of environment_reset may have placed the body for the next episode.
var _announced := false


func _init(agent: Node) -> void:
	node = agent


## Answer the notifications of the node, which its script passes on.
func notify(what: int) -> void:
	if what == Node.NOTIFICATION_ENTER_TREE:
		node.add_to_group("AGENT")
		all.append(self)
		_line = [node]
		while _line[-1].get_parent() != null:
			_line.append(_line[-1].get_parent())
		if not _looked_for_sync:
			_looked_for_sync = true
			node.get_tree().create_timer(SYNC_SECONDS).timeout.connect(_look_for_sync)
	elif what == Node.NOTIFICATION_EXIT_TREE:
		_end(true, _observations)
		if recording != null:
			recording.end(ending)
		elif ending != null:
			departed.append(ending)
		ending = null
		known = false
		trained = false
		inference = null
		recording = null
		behavior = null
		_sensors = {}
		_asked = 0
		_placement.forget()
		all.erase(self)


## What the sensors below the agent observe, by their names.
func sensor_observations() -> Dictionary:
	var observations := {}
	if _sensors.is_empty():
		_sensors = Observations.sensors_of(node)
	for name: String in _sensors:
		observations[name] = _sensors[name].get_observation()
	if _sensors.is_empty():
		push_error("Lanista: %s observes nothing: override get_obs(), or add sensors below it" % node.get_path())
	return observations


## A space for each observation of `get_obs`.
func default_spaces() -> Dictionary:
	return Observations.default_spaces(node, _get_obs())


## Begin an episode. What has been earned since the last one's end is nobody's.
func begin(new_id: int) -> void:
	id = new_id
	frames = 0
	group_reward = 0.0
	_late_end = null
	settle()
	node.done = false
	node.zero_reward()


## The episode begins where the body is, if the game has not placed it in time.
func settle() -> void:
	if not node.needs_reset:
		return
	node.needs_reset = false
	if not (_warned or _announced):
		_warned = true
		var text := "Lanista: needs_reset of %s stayed set for %d physics frames, so its next episode begins where it is. "
		var remedy := "Connect reset_requested and place the body there, or call reset() where the game places it"
		if _placement.is_pending():
			text = "Lanista: what reset_requested of %s calls has not returned for %d physics frames, so the next episode begins. "
			remedy = "What does it await?"
		push_warning(text % [node.get_path(), _asked] + remedy + Failure.place(node))
	_answers = _placement.is_pending()
	_placement.forget()


## The game says that the body is placed.
func placed() -> void:
	frames = 0
	_asked = 0
	_answers = true


## Say that the agent's script does not override a function that it has to, once for each script.
func lacks(function: String) -> void:
	if _is_first(function):
		push_error("Lanista: %s does not override %s()%s" % [node.get_path(), function, Failure.place(node)])


func _is_first(function: String) -> bool:
	var lacking := [node.get_script(), function]
	if lacking in _lacking:
		return false
	_lacking.append(lacking)
	return true


## Observe for a decision.
func observe() -> Dictionary:
	_observations = _get_obs()
	return _observations


## What get_obs() gives; the session stops if that is no Dictionary.
func _get_obs() -> Dictionary:
	_is_asked = true
	var given: Variant = node.get_obs()
	_is_asked = false
	if given is Dictionary:
		return given
	var text := "get_obs() of %s gives %s. Expected: a Dictionary such as {\"obs\": [0.0, 1.0]}. Is there a script error above?"
	Failure.stop(text % [node.get_path(), given], node, "get_obs")
	return {}


## The reward since the last message. What is no number counts as 0, and is told once for each script.
func take_reward() -> float:
	_is_asked = true
	var given: Variant = node.get_reward()
	_is_asked = false
	node.zero_reward()
	if given is float or given is int or given is bool:
		return given
	if _is_first("get_reward"):
		var text := "Lanista: get_reward() of %s gives %s, which counts as 0. Expected: a number"
		push_error(text % [node.get_path(), given] + Failure.place(node, "get_reward"))
	return 0.0


## The reward of the group since the last message.
func take_group_reward() -> float:
	var reward := group_reward
	group_reward = 0.0
	return reward


## The number of the agent's group; 0: none.
func group_id() -> int:
	return node.group.id if is_instance_valid(node.group) else 0


## The end of the last episode, if the trainer has not yet received it; null otherwise.
func take_ending() -> Ending:
	var taken := ending
	ending = null
	return taken


## End the episode. Observed at once, since the game may move the body right afterwards. In one physics frame the first
## call counts, except that an end that was truncated becomes a termination: `needs_reset` may be set before `done`.
func end(truncated: bool) -> void:
	if _is_asked:
		_late_end = truncated and (_late_end == null or _late_end)
		return
	_is_over = true
	_announced = false
	if ending != null and ending.is_open:
		ending.truncated = ending.truncated and truncated
	elif id != 0:
		_end(truncated, _get_obs())


func _end(truncated: bool, observations: Dictionary) -> void:
	if id == 0:
		return
	ending = Ending.new()
	ending.id = id
	id = 0
	ending.behavior = behavior
	ending.observations = observations.duplicate(true)
	for key: String in observations:
		if observations[key] is Image:  # the game may draw the next picture into it
			ending.observations[key] = observations[key].duplicate()
	ending.reward = take_reward()
	ending.path = node.get_path()
	ending.group_id = group_id()
	ending.group_reward = take_group_reward()
	ending.truncated = truncated
	_late_end = null


## Whether an episode has ended since the last call.
func take_end() -> bool:
	var taken := _is_over
	_is_over = false
	return taken


## Forget the running episode, as the trainer asks with "reset"; `place` follows. `announced`: there are handlers of
## environment_reset, which may place the body themselves.
func restart(announced: bool) -> void:
	id = 0
	ending = null
	_late_end = null
	node.done = false
	node.needs_reset = true
	_asked = 0
	_announced = announced


## To be called at the end of every physics frame.
func end_frame() -> void:
	if not is_instance_valid(node):
		return  # another agent's reset has freed it
	frames += 1
	if frames >= node.reset_after and node.reset_after > 0 and not node.needs_reset:
		node.needs_reset = true
	if _late_end != null:
		end(_late_end)
	_late_end = null
	if ending != null and ending.is_open:
		# What the game adds after `done = true` in the same frame belongs to the episode that ends.
		ending.is_open = false
		ending.reward += node.reward
		ending.group_reward += take_group_reward()
		node.zero_reward()
	if id != 0 and is_leaving():
		end(true)
	if node.needs_reset:
		_asked += 1
		place()
	else:
		_asked = 0


## Whether the agent is freed at the end of this frame.
func is_leaving() -> bool:
	for at in _line:
		if at.is_queued_for_deletion():
			return true
	return false


## Whether a trainer, a brain or a player decides for this agent by the LanistaSync.
func takes_part() -> bool:
	return trained or inference != null or recording != null


## Whether the game has yet to place the body for the next episode, and still has time for it.
func awaits_reset() -> bool:
	if id != 0 or not (takes_part() and node.needs_reset):
		return false
	if _placement.is_pending():
		return _asked < Placement.LONGEST
	return _answers and _asked < patience


## The agents of now, for loops in which scripts of the game may bring or free some.
static func all_now() -> Array[AgentState]:
	return all.duplicate()


## Whether a decision has to wait for bodies that are being placed: for all of them if `all_decide`, else for those whose
## episode has ended in the last frame, which the game may place in the next one. Agents that take longer sit the decision
## out, unless nobody else decides.
static func decision_waits(all_decide: bool) -> bool:
	var waiting := 0
	for state in all:
		if not state.awaits_reset():
			continue
		if all_decide or (state._asked <= 1 and not state._placement.is_pending()):
			return true
		waiting += 1
	return waiting > 0 and all.all(func(state: AgentState) -> bool: return state.known and state._sits_out())


## Whether a frame has to pass until all agents of a new beginning are there, and no others.
static func any_unsettled() -> bool:
	for state in all:
		if state.awaits_reset() or state.is_leaving() or not state.known:
			return true
	return false


## Let the game place the body, if it listens; a game that polls `needs_reset` does so in the next frame.
func place() -> void:
	if not is_instance_valid(node) or not node.needs_reset or _placement.is_pending():
		return
	if node.reset_requested.has_connections() and _placement.begin(node.reset_requested, _after_await):
		node.reset()


func _after_await() -> void:
	if is_instance_valid(node) and node.needs_reset:
		node.reset()


func _sits_out() -> bool:
	return awaits_reset() or not takes_part()


static func _look_for_sync() -> void:
	if not (has_sync or all.is_empty()):
		var text := "Lanista: %s has no LanistaSync in its scene, so that no trainer and no brain decides: add one, anywhere"
		push_warning(text % all[0].node.get_path())
