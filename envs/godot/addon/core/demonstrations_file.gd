extends RefCounted
## A file of demonstrations, which `lanista demo convert` reads: a line of JSON for each episode, written when it ends.

const AgentState := preload("agent_state.gd")
const Behavior := preload("behavior.gd")
const Failure := preload("failure.gd")

const VERSION := 1

var _path: String
var _file: FileAccess
var _behaviors := {}
var _new_behaviors := {}
var _ids := 0
## Episodes, without those that were removed.
var _count := 0


## Nothing is overwritten: if there is such a file, the new one gets a number.
func _init(path: String, action_repeat: int, addon_version: String) -> void:
	_path = path
	var number := 0
	while FileAccess.file_exists(_path):
		number += 1
		_path = "%s_%d.%s" % [path.get_basename(), number, path.get_extension()]
	DirAccess.make_dir_recursive_absolute(ProjectSettings.globalize_path(_path.get_base_dir()))
	_file = FileAccess.open(_path, FileAccess.WRITE)
	if _file == null:
		var reason := error_string(FileAccess.get_open_error())
		Failure.stop("demonstrations cannot be written to '%s' (%s): change demonstrations_path" % [_path, reason])
		return
	print("Lanista: episodes are recorded in ", _file.get_path_absolute())
	_write({"type": "demonstrations", "lanista": VERSION, "addon_version": addon_version, "action_repeat": action_repeat})


func new_id() -> int:
	_ids += 1
	return _ids


## An agent is to be recorded.
func describe(state: AgentState) -> void:
	var behavior: Behavior = state.behavior
	if not Behavior.has_valid_name(state.node):
		return
	if _behaviors.has(behavior.key):
		_behaviors[behavior.key].accepts(state.node)
	else:
		_behaviors[behavior.key] = behavior
		_new_behaviors[behavior.key] = behavior.to_dictionary()


func add_episode(behavior: Behavior, actions: Dictionary) -> void:
	var line := {"type": "episode", "behaviors": {behavior.key: behavior.columns()}, "actions": {behavior.key: actions}}
	if not _new_behaviors.is_empty():
		line["new_behaviors"] = _new_behaviors.duplicate()
		_new_behaviors.clear()
	_write(line)
	_count += 1
	print("Lanista: %d episodes are recorded" % _count)


## Take back the last episode.
func remove_last() -> void:
	if _count == 0:
		return
	_write({"type": "remove_last"})
	_count -= 1
	print("Lanista: the last episode is removed, %d are recorded" % _count)


func _write(line: Dictionary) -> void:
	if _file == null or Failure.happened:
		return
	_file.store_line(JSON.stringify(line, "", false))
	_file.flush()
	if _file.get_error() != OK:
		Failure.stop("demonstrations cannot be written to '%s' (%s)" % [_path, error_string(_file.get_error())])
