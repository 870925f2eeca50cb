extends RefCounted
## The layers of a network: each maps a row in blocks of four to another.

const Vectors := preload("vectors.gd")
const Weights := preload("weights.gd")


class Layer:
	func run(row: PackedVector4Array) -> PackedVector4Array:
		return row


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
