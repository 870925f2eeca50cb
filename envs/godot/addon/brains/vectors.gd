extends RefCounted
## Rows of numbers in blocks of four, the last one filled up with zeros: a Projection times a Vector4 is 16
## products in one instruction of GDScript, where a loop over floats takes several instructions for each product.

const ENGINE_RANGE := 3.0
const LAYER_NORM_EPSILON := 1e-5
const LEAK := 0.01
const GELU_SCALE := 1.5957691216057308
const GELU_CUBE := 0.044715


## The number of blocks for so many numbers.
static func blocks(size: int) -> int:
	return (size + 3) >> 2


## How often a kernel fits along a side of an image.
static func windows(side: int, kernel: int, stride: int) -> int:
	@warning_ignore("integer_division")
	return (side - kernel) / stride + 1


static func zeros(size: int) -> PackedVector4Array:
	var row := PackedVector4Array()
	row.resize(blocks(size))
	return row


## Fills up `floats` itself, which the caller must not need afterwards.
static func from_floats(floats: PackedFloat32Array) -> PackedVector4Array:
	var count := blocks(floats.size())
	floats.resize(4 * count)
	var row := PackedVector4Array()
	row.resize(count)
	var k := 0
	for i in count:
		row[i] = Vector4(floats[k], floats[k + 1], floats[k + 2], floats[k + 3])
		k += 4
	return row


## The pixels of an image, 0 to 1, each filled up to blocks of four: from a byte for each channel of each pixel.
static func from_pixels(bytes: PackedByteArray, channels: int) -> PackedVector4Array:
	var row := PackedVector4Array()
	@warning_ignore("integer_division")
	row.resize(bytes.size() / channels * blocks(channels))
	if channels == 3:
		for i in row.size():
			var start := 3 * i
			row[i] = Vector4(bytes[start], bytes[start + 1], bytes[start + 2], 0.0) / 255.0
		return row
	var i := 0
	for start in range(0, bytes.size(), channels):
		for first in range(start, start + channels, 4):
			var block := Vector4.ZERO
			for k in mini(4, start + channels - first):
				block[k] = bytes[first + k] / 255.0
			row[i] = block
			i += 1
	return row


## The pixels of an image from its numbers, channel by channel.
static func from_planes(floats: PackedFloat32Array, channels: int) -> PackedVector4Array:
	var row := PackedVector4Array()
	@warning_ignore("integer_division")
	var area := floats.size() / channels
	var depth := blocks(channels)
	row.resize(area * depth)
	for i in row.size():
		@warning_ignore("integer_division")
		var pixel := i / depth
		var first := i % depth * 4
		var block := Vector4.ZERO
		for k in mini(4, channels - first):
			block[k] = floats[(first + k) * area + pixel]
		row[i] = block
	return row


static func to_floats(row: PackedVector4Array) -> PackedFloat32Array:
	var floats := PackedFloat32Array()
	floats.resize(4 * row.size())
	var k := 0
	for block in row:
		floats[k] = block.x
		floats[k + 1] = block.y
		floats[k + 2] = block.z
		floats[k + 3] = block.w
		k += 4
	return floats


## Mean 0 and standard deviation 1 over the first `size` numbers; the others have to be 0, and stay so.
static func layer_norm(row: PackedVector4Array, size: int) -> void:
	var last := row.size() - 1
	var inside := Vector4.ONE
	for k in range(size - 4 * last, 4):
		inside[k] = 0.0
	var sum := Vector4.ZERO
	for block in row:
		sum += block
	var mean := Vector4.ONE * ((sum.x + sum.y + sum.z + sum.w) / size)
	var squares := Vector4.ZERO
	for i in row.size():
		var centered := row[i] - mean
		if i == last:
			centered *= inside
		row[i] = centered
		squares += centered * centered
	var variance := (squares.x + squares.y + squares.z + squares.w) / size
	var scale := 1.0 / sqrt(variance + LAYER_NORM_EPSILON)
	for i in row.size():
		row[i] *= scale


## Apply an activation in place. All of them leave 0 at 0, but for the sigmoid.
static func activate(row: PackedVector4Array, kind: String) -> void:
	match kind:
		"swish":
			_swish(row)
		"sigmoid":
			_sigmoid(row)
		"tanh":
			_tanh(row)
		"relu":
			for i in row.size():
				row[i] = row[i].max(Vector4.ZERO)
		"leaky_relu":
			for i in row.size():
				row[i] = row[i].max(row[i] * LEAK)
		"elu":
			for i in row.size():
				var x := row[i]
				row[i] = Vector4(_elu(x.x), _elu(x.y), _elu(x.z), _elu(x.w))
		"gelu":
			for i in row.size():
				var x := row[i]
				var t := (x + x * x * x * GELU_CUBE) * -GELU_SCALE
				row[i] = Vector4(
					x.x / (1.0 + exp(t.x)),
					x.y / (1.0 + exp(t.y)),
					x.z / (1.0 + exp(t.z)),
					x.w / (1.0 + exp(t.w)),
				)


static func _swish(row: PackedVector4Array) -> void:
	for i in row.size():
		var x := row[i]
		row[i] = Vector4(
			x.x / (1.0 + exp(-x.x)),
			x.y / (1.0 + exp(-x.y)),
			x.z / (1.0 + exp(-x.z)),
			x.w / (1.0 + exp(-x.w)),
		)


static func _sigmoid(row: PackedVector4Array) -> void:
	for i in row.size():
		var x := row[i]
		row[i] = Vector4(
			1.0 / (1.0 + exp(-x.x)),
			1.0 / (1.0 + exp(-x.y)),
			1.0 / (1.0 + exp(-x.z)),
			1.0 / (1.0 + exp(-x.w)),
		)


static func _tanh(row: PackedVector4Array) -> void:
	for i in row.size():
		var x := row[i]
		row[i] = Vector4(tanh(x.x), tanh(x.y), tanh(x.z), tanh(x.w))


static func _elu(x: float) -> float:
	return x if x > 0.0 else exp(x) - 1.0
