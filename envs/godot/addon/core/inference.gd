extends RefCounted
## An agent that acts on a trained brain, without a trainer.

const AgentState := preload("agent_state.gd")
const Behavior := preload("behavior.gd")

var _brain: LanistaBrain
var _behavior: Behavior
var _memory: RefCounted
var _deterministic: bool
var _fits: bool


func _init(agent: Node, brain: LanistaBrain, deterministic: bool) -> void:
	_brain = brain
	_behavior = Behavior.new(agent)
	_memory = brain.new_memory()
	_deterministic = deterministic
	_fits = brain.prepare() and _matches(agent)


## Let the agent act on what it observes.
func decide(state: AgentState) -> void:
	if not _fits or state.awaits_reset():
		return
	state.settle()
	if state.take_end() and _memory != null:
		_memory.reset()
	var given: Dictionary = state.node.get_obs()
	var observations := []
	for observed: Dictionary in _brain.observations:
		observations.append(_behavior.read(observed["name"], state.node, given))
	var masks := _behavior.masks_of(state.node)
	var action := _brain.decide(observations, masks, _memory, _deterministic)
	_fits = not action.is_empty()
	if _fits:
		state.node.set_action(action)


## Whether the agent observes and does what the brain was trained for.
func _matches(agent: Node) -> bool:
	for observed: Dictionary in _brain.observations:
		if observed["name"] not in _behavior.observation_names:
			var text := "Lanista: the brain of %s observes '%s', which its get_obs_space() lacks"
			push_error(text % [agent.get_path(), observed["name"]])
			return false
	var expected := {}
	for action: Dictionary in _brain.actions:
		expected[action["name"]] = [int(action["size"]), action["action_type"]]
	var found := {}
	for name: String in _behavior.action_spaces:
		var space: Dictionary = _behavior.action_spaces[name]
		found[name] = [int(space["size"]), space["action_type"]]
	if found == expected:
		return true
	var differ := "Lanista: the brain of %s has the actions %s, its get_action_space() %s"
	push_error(differ % [agent.get_path(), expected, found])
	return false
