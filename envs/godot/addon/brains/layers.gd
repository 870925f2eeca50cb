extends RefCounted
## The layers of a network: each maps a row in blocks of four to another.

const Vectors := preload("vectors.gd")
const Weights := preload("weights.gd")


class Layer:
	func run(row: PackedVector4Array) -> PackedVector4Array:
		return row


## The layer of these settings, or null if there is no such kind.
static func build(weights: Weights, settings: Dictionary) -> Layer:
	match settings["layer"]:
		"normalize":
			return Normalizer.new(weights, settings["size"], settings["limit"])
		"dense":
			var normalized: bool = settings["layer_norm"]
			return Dense.new(
				weights, [settings["inputs"]], settings["outputs"], settings["activation"], normalized
			)
		"explored":
			return Explored.new(
				weights, settings["inputs"], settings["outputs"], settings["deviations"]
			)
		"residual":
			return Residual.new(weights, settings["size"], settings["hidden"], settings["activation"])
		"layer_norm":
			return LayerNorm.new(settings["size"])
		"convolution":
			return Convolution.new(weights, settings)
	return null


## (x - mean) / deviation, limited on both sides.
class Normalizer:
	extends Layer

	var _mean: PackedVector4Array
	var _deviation: PackedVector4Array
	var _limit: Vector4

	func _init(weights: Weights, size: int, limit: float) -> void:
		_mean = Vectors.from_floats(weights.take(size))
		var deviation := weights.take(size)
		while deviation.size() % 4 != 0:
			deviation.append(1.0)
		_deviation = Vectors.from_floats(deviation)
		_limit = Vector4.ONE * limit

	func run(row: PackedVector4Array) -> PackedVector4Array:
		for i in row.size():
			row[i] = ((row[i] - _mean[i]) / _deviation[i]).clamp(-_limit, _limit)
		return row


## activation(W x + b), with W [outputs, inputs] in matrices of 4 x 4. The inputs are one row or several side by
## side, each filled up to blocks of four.
class Dense:
	extends Layer

	var _rows: Array[Array] = []
	var _bias: PackedVector4Array
	var _activation: String
	var _norm_size: int

	func _init(
		weights: Weights,
		inputs: PackedInt32Array,
		outputs: int,
		activation := "none",
		normalized := false,
	) -> void:
		var width := 0
		for size in inputs:
			width += size
		var matrix := weights.take(width * outputs)
		for first in range(0, outputs, 4):
			var row: Array[Projection] = []
			var start := 0
			for size in inputs:
				for column in range(start, start + size, 4):
					row.append(_block(matrix, width, outputs, first, column, start + size))
				start += size
			_rows.append(row)
		_bias = Vectors.from_floats(weights.take(outputs))
		_activation = activation
		_norm_size = outputs if normalized else 0

	## Four rows from `first`, four columns from `column` up to before `end`; zeros beyond them.
	static func _block(
		matrix: PackedFloat32Array, width: int, outputs: int, first: int, column: int, end: int
	) -> Projection:
		var block := Projection(Vector4.ZERO, Vector4.ZERO, Vector4.ZERO, Vector4.ZERO)
		for c in mini(4, end - column):
			var values := Vector4.ZERO
			for r in mini(4, outputs - first):
				values[r] = matrix[(first + r) * width + column + c]
			block[c] = values
		return block

	func run(row: PackedVector4Array) -> PackedVector4Array:
		var count := row.size()
		var result := _bias.duplicate()
		var j := 0
		for blocks: Array[Projection] in _rows:
			var sum := result[j]
			for i in count:
				sum += blocks[i] * row[i]
			result[j] = sum
			j += 1
		if _norm_size:
			Vectors.layer_norm(result, _norm_size)
		if _activation != "none":
			Vectors.activate(result, _activation)
		return result


## W x + b, and beside it log deviations: half the logarithm of V x^2 + c.
class Explored:
	extends Layer

	var _shown: Dense
	var _variances: Dense
	var _outputs: int
	var _deviations: int

	func _init(weights: Weights, inputs: int, outputs: int, deviations: int) -> void:
		_shown = Dense.new(weights, [inputs], outputs)
		_variances = Dense.new(weights, [inputs], deviations)
		_outputs = outputs
		_deviations = deviations

	func run(row: PackedVector4Array) -> PackedVector4Array:
		var columns := Vectors.to_floats(_shown.run(row)).slice(0, _outputs)
		var squares := row.duplicate()
		for i in squares.size():
			squares[i] *= row[i]
		var variances := Vectors.to_floats(_variances.run(squares))
		for k in _deviations:
			columns.append(0.5 * log(variances[k]))
		return Vectors.from_floats(columns)


## A Dense layer of every window of an image, `kernel` rows of pixels high and columns wide. The row of an image
## is its pixels row by row, each of them its channels, filled up to blocks of four.
class Convolution:
	extends Layer

	var _dense: Dense
	var _kernel_rows: int
	var _stride: int
	var _pixel: int
	var _line: int
	var _window: int
	var _rows: int
	var _columns: int

	func _init(weights: Weights, settings: Dictionary) -> void:
		var kernel: Array = settings["kernel"]
		_kernel_rows = kernel[0]
		var pixels := PackedInt32Array()
		pixels.resize(_kernel_rows * int(kernel[1]))
		pixels.fill(settings["channels"])
		_dense = Dense.new(weights, pixels, settings["filters"], settings["activation"])
		_stride = settings["stride"]
		_pixel = Vectors.blocks(settings["channels"])
		_line = settings["width"] * _pixel
		_window = kernel[1] * _pixel
		_rows = Vectors.windows(settings["height"], kernel[0], _stride)
		_columns = Vectors.windows(settings["width"], kernel[1], _stride)

	func run(image: PackedVector4Array) -> PackedVector4Array:
		var result := PackedVector4Array()
		for y in _rows:
			for x in _columns:
				var start := _stride * (y * _line + x * _pixel)
				var window := PackedVector4Array()
				for k in _kernel_rows:
					window.append_array(image.slice(start, start + _window))
					start += _line
				result.append_array(_dense.run(window))
		return result


## The normalization alone, without parameters.
class LayerNorm:
	extends Layer

	var _size: int

	func _init(size: int) -> void:
		_size = size

	func run(row: PackedVector4Array) -> PackedVector4Array:
		Vectors.layer_norm(row, _size)
		return row


## x + W2 activation(W1 LN(x) + b1) + b2.
class Residual:
	extends Layer

	var _size: int
	var _inner: Dense
	var _outer: Dense

	func _init(weights: Weights, size: int, hidden: int, activation: String) -> void:
		_size = size
		_inner = Dense.new(weights, [size], hidden, activation)
		_outer = Dense.new(weights, [hidden], size)

	func run(row: PackedVector4Array) -> PackedVector4Array:
		var normalized := row.duplicate()
		Vectors.layer_norm(normalized, _size)
		var result := _outer.run(_inner.run(normalized))
		for i in row.size():
			result[i] += row[i]
		return result
