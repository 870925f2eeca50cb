@tool
@icon("icon.svg")
class_name LanistaSync
extends Node
## Connects the agents of a game with a trainer: one node of this kind in the scene, anywhere.
##
## Agents decide between two physics frames, every [member action_repeat] frames: then they are observed, and the game
## stands still until the trainer has chosen their actions. An ended episode's last observation is taken in the frame in
## which it ends. If that is the last frame before a decision, the decision waits for one more, in which the game may
## place the body (see [member LanistaAgent2D.needs_reset]). An agent whose body takes longer sits out, for at most
## [member action_repeat] frames.[br]
## A game that a trainer starts gets arguments that replace the settings here: [code]--host[/code], [code]--port[/code],
## [code]--env_seed[/code], [code]--speedup[/code], [code]--action_repeat[/code]. It ends with the trainer.

## The trainer asks all agents to begin anew, for a new lesson, say. Emitted before their own reset_requested.
signal environment_reset

## Who decides for the agents that inherit their mode from here.
enum ControlModes {
	HUMAN, ## The game itself
	TRAINING, ## A trainer; the game itself where none listens
	INFERENCE, ## A trained brain
	RECORDING, ## A player, who demonstrates
}

## How values of a statistic between two summaries become one.
enum Statistic {
	AVERAGE,
	MOST_RECENT,
	SUM,
	HISTOGRAM,
}

const AgentState := preload("core/agent_state.gd")
const DemonstrationsFile := preload("core/demonstrations_file.gd")
const Failure := preload("core/failure.gd")
const Inference := preload("core/inference.gd")
const Placement := preload("core/placement.gd")
const Recording := preload("core/recording.gd")
const SceneCheck := preload("core/scene_check.gd")
const Session := preload("core/session.gd")

const VERSION := "1.1.0"

## How long a game that a trainer has started tries to connect, and one that was started by hand, in milliseconds.
const PATIENCE := 5_000
const PATIENCE_BY_HAND := 1_000

## How long the scene tree may be paused while a trainer waits before that is told, in milliseconds.
const PAUSE := 2_000

## After all scripts of the game.
const LAST := 1 << 30

static var _session: Session
static var _current: LanistaSync
## Of agents that are recorded, once there is one; kept when the scene changes.
static var _demonstrations: DemonstrationsFile
## Names of statistics that were told not to be finite.
static var _not_finite := {}
## As the project has them.
static var _ticks := Engine.physics_ticks_per_second
static var _most_steps := Engine.max_physics_steps_per_frame

## Who decides for the agents.
@export var control_mode := ControlModes.TRAINING
## The machine on which the trainer listens.
@export var host := "127.0.0.1"
## The port on which the trainer listens.
@export_range(1, 65535) var port := 11008
## Physics frames from one decision to the next.
@export_range(1, 10, 1, "or_greater") var action_repeat := 8
## How many times faster than real time the game runs, as far as the machine allows.
@export_range(0.1, 10, 0.1, "or_greater") var speed_up := 1.0
## In inference, the brain of agents that have none of their own.
@export var brain: LanistaBrain
## In inference, take the likeliest action instead of one sampled as in training.
@export var deterministic_inference := true
@export_group("Recording")
## The file into which finished episodes are written; if there is such a file, one with a number.
@export var demonstrations_path := "user://demonstrations.jsonl"
## Takes back the last finished episode.
@export var remove_last_episode_key: InputEvent

var _arguments: Dictionary = {}
var _started := false
## Physics frames since the last decision.
var _frames := 0
## When the LanistaSync was first found unable to process, in milliseconds; 0: it can.
var _paused_at := 0
var _told_pause := false

## The value that the trainer has given to an environment parameter, such as a lesson of a curriculum. New values arrive
## before the bodies are placed.
static func parameter(key: String, default: float) -> float:
	return default if _session == null else float(_session.parameters.get(key, default))


## Report a value to the trainer's curves. Does nothing without a trainer that knows statistics.
static func add_statistic(key: String, value: float, method := Statistic.AVERAGE) -> void:
	if not is_finite(value):
		if not _not_finite.has(key):
			_not_finite[key] = true
			push_error("Lanista: the statistic '%s' is %s" % [key, value])
	elif _session != null:
		_session.add_statistic(key, value, method)


func _get_configuration_warnings() -> PackedStringArray:
	return SceneCheck.warnings_of(owner if owner != null else self)


## A scene is checked again when it is saved.
func _notification(what: int) -> void:
	if what == NOTIFICATION_EDITOR_PRE_SAVE:
		update_configuration_warnings()


func _enter_tree() -> void:
	if Engine.is_editor_hint():
		return
	if is_instance_valid(_current):
		push_error("Lanista: %s does nothing, since the scene has %s already" % [get_path(), _current.get_path()])
		set_physics_process(false)
		return
	_current = self
	AgentState.has_sync = true
	_arguments = _read_arguments()
	if control_mode == ControlModes.TRAINING and _session == null:
		seed(_argument("env_seed", "1").to_int())  # before the game's own _ready() draws numbers
	process_physics_priority = LAST
	get_tree().physics_frame.connect(_between_frames)


func _exit_tree() -> void:
	if _current == self:
		_current = null
		AgentState.has_sync = false
		get_tree().physics_frame.disconnect(_between_frames)


func _input(event: InputEvent) -> void:
	if Engine.is_editor_hint() or _demonstrations == null or remove_last_episode_key == null or not event.is_pressed() or event.is_echo():
		return
	if event.is_match(remove_last_episode_key):
		_demonstrations.remove_last()


func _physics_process(_delta: float) -> void:
	if Engine.is_editor_hint():
		return
	_frames += 1
	for state in AgentState.all_now():
		state.end_frame()


## Emitted by the tree when all of the last frame has happened: bodies have moved, signals were delivered, nodes freed.
func _between_frames() -> void:
	if not _started:
		_start()
		return  # after one frame rays find bodies, and cameras have a picture
	if Failure.happened or _is_paused():
		return
	if _frames < action_repeat or _waits():
		return
	_frames = 0
	for state in AgentState.all_now():
		if not state.known:
			_adopt(state)
		if not state.trained:
			state.node.done = false
		if state.inference != null:
			state.inference.decide(state)
		if state.recording != null:
			state.recording.decide(state)
	if _session != null:
		_train()
	elif Failure.happened and _demonstrations != null:
		_quit()


func _start() -> void:
	_started = true
	action_repeat = maxi(1, _argument("action_repeat", str(action_repeat)).to_int())
	var speed := _argument("speedup", str(speed_up)).to_float()
	if speed <= 0.0:
		Failure.stop("--speedup=%s is no positive number" % _argument("speedup", str(speed_up)))
		_quit()
		return
	Engine.physics_ticks_per_second = roundi(_ticks * speed)
	Engine.max_physics_steps_per_frame = ceili(_most_steps * maxf(1.0, speed))
	Engine.time_scale = speed
	if control_mode == ControlModes.TRAINING and _session == null:
		_connect()
	_frames = action_repeat
	AgentState.patience = action_repeat
	if AgentState.all.is_empty():
		push_warning("Lanista: the scene has no LanistaAgent2D or LanistaAgent3D so far")
	for node in get_tree().get_nodes_in_group("AGENT"):
		if not (node is LanistaAgent2D or node is LanistaAgent3D):
			push_warning("Lanista: %s is no agent of this addon: let its script extend LanistaAgent2D or 3D" % node.get_path())


func _connect() -> void:
	var address := _argument("host", host)
	var number := _argument("port", str(port)).to_int()
	var session := Session.new(action_repeat, VERSION)
	if session.channel.open(address, number, PATIENCE if _arguments.has("port") else PATIENCE_BY_HAND):
		_session = session
		return
	var text := "no trainer listens on %s:%d" % [address, number]
	if _arguments.has("port"):
		Failure.stop(text)
		_quit()
		return
	push_warning("Lanista: %s, so the game itself decides. Start the trainer first, then the game" % text)
	control_mode = ControlModes.HUMAN


func _adopt(state: AgentState) -> void:
	state.known = true
	var mode: int = state.node.control_mode
	if mode == LanistaAgent2D.ControlModes.INHERIT_FROM_SYNC:
		mode = control_mode + 1  # the agents' modes are the same behind that one
	match mode:
		LanistaAgent2D.ControlModes.TRAINING:
			state.trained = _session != null
		LanistaAgent2D.ControlModes.INFERENCE:
			_play(state)
		LanistaAgent2D.ControlModes.HUMAN:
			pass
		LanistaAgent2D.ControlModes.RECORDING:
			_record(state)
	var played := "human" if state.recording == null else "demo_record"  # as with godot_rl_agents
	state.node.set_heuristic("model" if state.trained or state.inference != null else played)


func _play(state: AgentState) -> void:
	var own: LanistaBrain = state.node.brain if state.node.brain != null else brain
	if own == null:
		push_error("Lanista: %s is to act on a brain, and neither it nor %s has one" % [state.node.get_path(), get_path()])
	else:
		state.inference = Inference.new(state.node, own, deterministic_inference)


func _record(state: AgentState) -> void:
	if _demonstrations == null:
		_demonstrations = DemonstrationsFile.new(demonstrations_path, action_repeat, VERSION)
	state.recording = Recording.new(state, _demonstrations)


func _train() -> void:
	_session.environment_reset = environment_reset
	match _session.exchange():
		Session.Wish.RESET:
			_frames = action_repeat
		Session.Wish.END:
			_quit()


## Whether the next decision has to wait for bodies that are being placed.
func _waits() -> bool:
	if _session != null and _session.is_resetting():
		if _frames < Placement.LONGEST:
			return true
		_session.stop_resetting()
		var text := "Lanista: what environment_reset of %s calls has not returned for %d physics frames, so episodes begin. "
		push_warning(text % [get_path(), _frames] + "What does it await?")
	return AgentState.decision_waits(_session != null and _session.all_decide())


## Whether the game stands still. A trainer that waits for it sees nothing of that, so it is told.
func _is_paused() -> bool:
	if can_process():
		_paused_at = 0
		return false
	var now := Time.get_ticks_msec()
	_paused_at = now if _paused_at == 0 else _paused_at
	if _session != null and not _told_pause and now - _paused_at > PAUSE:
		_told_pause = true
		var why := "the scene tree is paused (get_tree().paused)"
		if not get_tree().paused:
			why = "its process_mode, or that of a node above it, is Disabled"
		var text := "Lanista: %s has stood still for %.0f s, since %s: no agent decides, and the trainer waits. Do not pause in training"
		push_warning(text % [get_path(), (now - _paused_at) / 1000.0, why])
	return true


func _quit() -> void:
	for state in AgentState.all:
		state.id = 0  # nobody is to be told of ends any more
	get_tree().quit(1 if Failure.happened else 0)


func _argument(key: String, default: String) -> String:
	return _arguments.get(key, default)


static func _read_arguments() -> Dictionary:
	var arguments: Dictionary = {}
	for argument in OS.get_cmdline_args() + OS.get_cmdline_user_args():
		var key := argument.trim_prefix("--").get_slice("=", 0)
		arguments[key] = argument.substr(argument.find("=") + 1) if "=" in argument else ""
	return arguments
