class_name LanistaBrain
extends Resource
## A trained policy, played in GDScript alone: no .NET, no library, on every platform of Godot 4.3 and later.
## [code]lanista export CHECKPOINT --godot[/code] writes one as a .tres file. Assign it to a node's
## [code]@export var brain: LanistaBrain[/code], or:
## [codeblock]
## var brain := LanistaBrain.load("res://Chaser.tres")
## var memory := brain.new_memory()  # of one agent; null without a memory
## var action := brain.decide([observation], [], memory)
## move = action["move"]
## [/codeblock]

const FORMAT_VERSION := 1

const Vectors := preload("vectors.gd")
const Weights := preload("weights.gd")
const Layers := preload("layers.gd")
const Encoder := preload("encoder.gd")
const Memory := preload("memory.gd")
const Head := preload("head.gd")

@export_storage var format_version := 0
## The name of the behavior that was trained.
@export var behavior := ""
## For how many agent steps it was trained.
@export var step := 0
## What it observes, in order: [code]{"name": String, "shape": Array}[/code].
@export_storage var observations: Array = []
## What is read of them, and by which layers: [code]{"observations": indices, "layers": Array, "size": int}[/code].
@export_storage var encoders: Array = []
## What it decides: [code]{"name": String, "size": int, "action_type": "continuous" or "discrete"}[/code].
@export_storage var actions: Array = []
@export_storage var layers: Array = []
@export_storage var head: Dictionary = {}
## float32, little-endian: those of the layers in order, then those of the head.
@export_storage var weights := PackedByteArray()

var _encoders: Array[Encoder] = []
var _layers: Array[Layers.Layer] = []
var _recurrent: Memory.Recurrent = null
var _head: Head = null
var _broken := false


## The brain of a file, or null after an error that says what is wrong.
static func load(path: String) -> LanistaBrain:
	var found := ResourceLoader.load(path)
	if not found is LanistaBrain:
		push_error("%s is not a brain; `lanista export CHECKPOINT --godot` writes one." % path)
		return null
	return found if (found as LanistaBrain).prepare() else null


## An empty recurrent state for one agent; null if the brain has no memory.
func new_memory() -> Memory.AgentMemory:
	if not prepare() or _recurrent == null:
		return null
	return Memory.AgentMemory.new(_recurrent.size)


## Decide for one agent.
## [param obs]: for each of [member observations] an array of numbers. An image of shape [channels, height, width]
## is a PackedByteArray, as [method Image.get_data] gives it, or its numbers channel by channel.
## [param mask]: for each discrete action in order an array with an entry for each choice, true or 1 where it
## is forbidden; empty if nothing is. [param memory]: the agent's, which is read and replaced.
## [param deterministic]: the likeliest action, instead of one sampled by [method @GlobalScope.randf].
## Returns the value of each action by its name: a PackedFloat32Array of components in -1 to 1, or the int of
## a choice. After an error that says what does not fit it is empty, and the memory as it was.
func decide(
	obs: Array, mask: Array = [], memory: Memory.AgentMemory = null, deterministic := true
) -> Dictionary:
	if not prepare():
		return {}
	var problem := _problem(obs, mask, memory)
	if problem:
		push_error("%s does not fit the agent: %s." % [_name(), problem])
		return {}
	var columns := Vectors.to_floats(_run(obs, memory))
	for value in columns:
		if not is_finite(value):
			push_error("%s gives a number that is not finite; is one among the observations?" % _name())
			if _recurrent != null:
				memory.undo()
			return {}
	return _head.decide(columns, mask, deterministic)


## Build the layers, once; false after an error that says why they cannot be. [method decide] does it when
## first called, [method load] at once.
func prepare() -> bool:
	if _head != null or _broken:
		return not _broken
	var problem := _build()
	_broken = not problem.is_empty()
	if _broken:
		push_error("%s cannot be played: %s." % [_name(), problem])
	return not _broken


func _run(obs: Array, memory: Memory.AgentMemory) -> PackedVector4Array:
	var row := _read(obs)
	var last := _layers.size() - 1
	for k in last:
		row = _layers[k].run(row)
	if _recurrent != null:
		row = _recurrent.run(row, memory)
	return _layers[last].run(row)


func _read(obs: Array) -> PackedVector4Array:
	if _encoders.size() == 1:
		return _encoders[0].run(obs)
	var floats := PackedFloat32Array()
	for encoder in _encoders:
		floats.append_array(Vectors.to_floats(encoder.run(obs)).slice(0, encoder.size))
	return Vectors.from_floats(floats)


func _problem(obs: Array, mask: Array, memory: Memory.AgentMemory) -> String:
	if obs.size() != observations.size():
		return "it observes %s, and was given %d arrays" % [_observed(), obs.size()]
	for encoder in _encoders:
		var problem: String = encoder.problem(obs, observations)
		if problem:
			return problem
	if _recurrent != null and memory == null:
		return "it has a memory; give each agent one of new_memory()"
	return _head.mask_problem(mask)


func _build() -> String:
	if format_version != FORMAT_VERSION:
		return (
			"its format is version %d, and this addon plays version %d; export it again, or update the addon"
			% [format_version, FORMAT_VERSION]
		)
	var source := Weights.new(weights)
	for encoder: Dictionary in encoders:
		_encoders.append(Encoder.new(source, encoder, observations))
		if not _encoders[-1].is_known():
			return _unknown(encoder["layers"])
	for layer: Dictionary in layers:
		if not _add_layer(source, layer):
			return _unknown([layer])
	var found := Head.new(source, actions, head)
	if source.left() != 0:
		var extent := [weights.size(), 4 * absi(source.left()), "many" if source.left() > 0 else "few"]
		return "its weights are %d bytes, %d too %s" % extent
	_head = found
	return ""


func _add_layer(source: Weights, layer: Dictionary) -> bool:
	match layer["layer"]:
		"lstm":
			_recurrent = Memory.Lstm.new(source, layer["inputs"], layer["outputs"])
		"gru":
			_recurrent = Memory.Gru.new(source, layer["inputs"], layer["outputs"])
		_:
			_layers.append(Layers.build(source, layer))
	return null not in _layers


func _unknown(some: Array) -> String:
	var kinds := some.map(func(layer: Dictionary) -> String: return layer["layer"])
	return "it has layers that this addon does not know: %s" % ", ".join(kinds)


func _name() -> String:
	return "The brain '%s' (%s)" % [behavior, resource_path if resource_path else "not a file"]


func _observed() -> String:
	var found := PackedStringArray()
	for observation: Dictionary in observations:
		found.append("'%s' %s" % [observation["name"], observation["shape"]])
	return ", ".join(found)
