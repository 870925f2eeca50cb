extends RefCounted
## One conversation with a trainer: what it asks for, and the answers. A session outlives the LanistaSync that began
## it, so that a game may change its scene.

## What the trainer wants after its last message.
enum Wish {
	ACTION, ## The game goes on until the next decision
	RESET, ## The game places the bodies, in the next frame or the one after
	END, ## The session is over
}

const AgentState := preload("agent_state.gd")
const BaseDialect := preload("base_dialect.gd")
const Channel := preload("channel.gd")
const Failure := preload("failure.gd")
const LanistaDialect := preload("lanista_dialect.gd")
const Placement := preload("placement.gd")

const MAJOR_VERSION := "0"
const MINOR_VERSION := "7"

var channel := Channel.new()
## Environment parameters that the trainer has set.
var parameters := {}
## To be emitted when the trainer asks all agents to begin anew, before their own reset_requested.
var environment_reset: Signal

var _dialect: RefCounted = BaseDialect.new()
var _lanista := LanistaDialect.new()
## The answer that the trainer waits for: "reset", "step" or none.
var _owed := ""
## What environment_reset calls.
var _placement := Placement.new()


func _init(action_repeat: int, addon_version: String) -> void:
	_lanista.action_repeat = action_repeat
	_lanista.addon_version = addon_version


func add_statistic(key: String, value: float, method: int) -> void:
	if _dialect == _lanista:
		_lanista.statistics.append([key, value, method])


## Whether the next message has to have a decision of every agent.
func all_decide() -> bool:
	return _dialect != _lanista or _owed == "reset"


## Whether what environment_reset calls still awaits.
func is_resetting() -> bool:
	return _placement.is_pending()


## Wait no longer for that.
func stop_resetting() -> void:
	_placement.forget()


## Tell the trainer what has happened, and do what it asks for until the game has to go on.
func exchange() -> Wish:
	while not Failure.happened:
		if not _owed.is_empty():
			_add_newcomers()
			if not Failure.happened:  # an agent that was refused has no behavior
				_send(_dialect.steps(_owed))
			_owed = ""
		var message := {} if Failure.happened else channel.receive()
		if message.is_empty():
			break
		parameters.merge(message.get("parameters", {}), true)
		match message.get("type"):
			"handshake":
				_greet(message)
			"env_info":
				_add_newcomers()
				if not Failure.happened:
					_send(_dialect.env_info())
			"reset":
				_owed = "reset"
				_restart()
				if AgentState.any_unsettled() or is_resetting():
					return Wish.RESET
			"action":
				_owed = "step"
				_dialect.act(message)
				return Wish.END if Failure.happened else Wish.ACTION
			"call":
				_send({"type": "call", "returns": _call(message.get("method", ""))})
			"close":
				break
			var type:
				Failure.stop("the trainer sends a message of the type %s, which this addon does not know" % type)
	channel.close()
	return Wish.END


func _send(message: Dictionary) -> void:
	if not Failure.happened:
		channel.send(message)


func _greet(message: Dictionary) -> void:
	if message.has("lanista"):
		_dialect = _lanista
	elif message.get("major_version") != MAJOR_VERSION or message.get("minor_version") != MINOR_VERSION:
		var found := [message.get("major_version"), message.get("minor_version"), MAJOR_VERSION, MINOR_VERSION]
		push_warning("Lanista: the trainer speaks version %s.%s of the protocol, this addon %s.%s" % found)


func _add_newcomers() -> void:
	for state in AgentState.all:
		if state.trained and state.behavior == null and not Failure.happened:
			_dialect.add(state)


## needs_reset is set before the signal, whose handlers may place bodies and call reset().
func _restart() -> void:
	for state in AgentState.all:
		if state.trained:
			state.restart(environment_reset.has_connections())
	_placement.begin(environment_reset, Callable())
	for state in AgentState.all_now():
		if state.trained:
			state.place()


func _call(method: String) -> Array:
	var returns := []
	for state in AgentState.all:
		if not state.node.has_method(method):
			push_error("Lanista: the trainer calls %s(), which %s does not have" % [method, state.node.get_path()])
		returns.append(state.node.call(method) if state.node.has_method(method) else null)
	return returns
