extends RefCounted
## What a network reads of the observations: neighboring vectors together, or one image, with the layers for it.

const Vectors := preload("vectors.gd")
const Weights := preload("weights.gd")
const Layers := preload("layers.gd")

## The length of the row that comes out.
var size: int

var _indices: Array
var _channels := 0
var _sizes := PackedInt32Array()
var _layers: Array[Layers.Layer] = []


## `settings`: an entry of a brain's `encoders`; `observations`: all of the brain's.
func _init(weights: Weights, settings: Dictionary, observations: Array) -> void:
	_indices = settings["observations"]
	size = settings["size"]
	for index: int in _indices:
		var shape: Array = observations[index]["shape"]
		_sizes.append(shape.reduce(func(product: int, length: int) -> int: return product * length, 1))
		if shape.size() == 3:
			_channels = shape[0]
	for layer: Dictionary in settings["layers"]:
		_layers.append(Layers.build(weights, layer))


## Whether the addon knows all of the layers.
func is_known() -> bool:
	return null not in _layers


## Which observation does not fit; empty if all do.
func problem(obs: Array, observations: Array) -> String:
	for k in _indices.size():
		var found: int = obs[_indices[k]].size()
		if found != _sizes[k]:
			var named: String = observations[_indices[k]]["name"]
			return "observation '%s' has %d numbers instead of %d" % [named, found, _sizes[k]]
	return ""


func run(obs: Array) -> PackedVector4Array:
	var row: PackedVector4Array
	if _channels:
		var image: Variant = obs[_indices[0]]
		if image is PackedByteArray:
			row = Vectors.from_pixels(image, _channels)
		else:
			row = Vectors.from_planes(image, _channels)
	else:
		var floats := PackedFloat32Array()
		for index: int in _indices:
			floats.append_array(obs[index])
		row = Vectors.from_floats(floats)
	for layer in _layers:
		row = layer.run(row)
	return row
