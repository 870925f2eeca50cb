extends RefCounted
## Lets the game place bodies by a signal, and knows when that is done: what is connected may await.

const Failure := preload("failure.gd")
const Unawaited := preload("unawaited.gd")

## Physics frames that this may take, 10 s of the game's time.
const LONGEST := 600

## Whether a handler needs arguments, by its class, script, method and bound arguments.
static var _known := {}

var _pending := 0
var _turn := 0
var _is_beginning := false


## Call what is connected to a signal without arguments. Whether all of it has returned: if not, `then` is called once it
## has.
func begin(asked: Signal, then: Callable) -> bool:
	forget()
	var connections := asked.get_connections()
	if asked.get_object().is_blocking_signals() or connections.any(_only_by_emit):
		asked.emit()
		return true
	_is_beginning = true
	for connection: Dictionary in connections:
		var handler: Callable = connection["callable"]
		if not handler.is_valid():
			continue  # another one has freed it
		if _needs_arguments(handler, asked.get_name()):
			continue
		var before := _pending
		_call(handler, _turn, then)
		if _pending == before:
			Unawaited.warn(handler, asked.get_name())
	_is_beginning = false
	return _pending == 0


## Whether something that was called still awaits.
func is_pending() -> bool:
	return _pending > 0


## What still awaits is of no interest any more.
func forget() -> void:
	_pending = 0
	_turn += 1


func _call(handler: Callable, turn: int, then: Callable) -> void:
	_pending += 1
	await handler.call()
	if turn != _turn:
		return
	_pending -= 1
	if _pending == 0 and not _is_beginning and then.is_valid():
		then.call()


## One that is called later, or once, as by `await reset_requested`.
static func _only_by_emit(connection: Dictionary) -> bool:
	return connection["flags"] & (CONNECT_DEFERRED | CONNECT_ONE_SHOT) != 0


## Whether a method cannot be called without more arguments, as a signal that has none calls it: that is told once.
static func _needs_arguments(handler: Callable, asked: StringName) -> bool:
	var object := handler.get_object()
	if object == null:
		return false
	var bound := handler.get_bound_arguments_count()
	var key := [object.get_class(), object.get_script(), handler.get_method(), bound]
	if not _known.has(key):
		_known[key] = false
		for method: Dictionary in object.get_method_list():
			if method["name"] == handler.get_method():
				var needed: int = method["args"].size() - method["default_args"].size() - bound
				_known[key] = needed > 0
				if needed > 0:
					var text := "Lanista: %s() is connected to %s, which gives no arguments, and needs %d: it is not called"
					push_error(text % [handler.get_method(), asked, needed] + Failure.place(object, handler.get_method()))
				break
	return _known[key]
