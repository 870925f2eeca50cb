extends RefCounted
## Hands out a brain's weights in their order.

var _floats: PackedFloat32Array
var _position := 0


func _init(bytes: PackedByteArray) -> void:
	_floats = bytes.to_float32_array()


## The next `count` numbers, or zeros where there are not so many: see `left`.
func take(count: int) -> PackedFloat32Array:
	var taken := _floats.slice(_position, _position + count)
	taken.resize(count)
	_position += count
	return taken


## How many numbers have not been taken; negative if more were taken than there are.
func left() -> int:
	return _floats.size() - _position
