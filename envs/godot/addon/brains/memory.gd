extends RefCounted
## Recurrent layers, and what an agent carries from one decision to the next.

const Vectors := preload("vectors.gd")
const Weights := preload("weights.gd")
const Layers := preload("layers.gd")


## One agent's recurrent state: `LanistaBrain.new_memory` makes it, `reset` clears it when an episode begins.
class AgentMemory:
	extends RefCounted

	var hidden: PackedVector4Array
	var cell: PackedVector4Array

	var _size: int
	var _before: Array[PackedVector4Array] = []

	func _init(size: int) -> void:
		_size = size
		reset()

	func reset() -> void:
		hidden = Vectors.zeros(_size)
		cell = Vectors.zeros(_size)

	## Replace the state; [method undo] brings back the one before.
	func advance(new_hidden: PackedVector4Array, new_cell: PackedVector4Array) -> void:
		_before = [hidden, cell]
		hidden = new_hidden
		cell = new_cell

	func undo() -> void:
		hidden = _before[0]
		cell = _before[1]


class Recurrent:
	var size: int

	func run(row: PackedVector4Array, _memory: AgentMemory) -> PackedVector4Array:
		return row


## c' = f c + i g, h' = o tanh(c'); the gates read the input and h.
class Lstm:
	extends Recurrent

	var _gates: Array[Layers.Dense] = []

	func _init(weights: Weights, inputs: int, outputs: int) -> void:
		size = outputs
		for activation in ["sigmoid", "sigmoid", "tanh", "sigmoid"]:
			_gates.append(Layers.Dense.new(weights, [inputs, size], size, activation))

	func run(row: PackedVector4Array, memory: AgentMemory) -> PackedVector4Array:
		var read := row.duplicate()
		read.append_array(memory.hidden)
		var into := _gates[0].run(read)
		var forget := _gates[1].run(read)
		var candidate := _gates[2].run(read)
		var out := _gates[3].run(read)
		var hidden := memory.cell.duplicate()
		for i in hidden.size():
			hidden[i] = forget[i] * hidden[i] + into[i] * candidate[i]
		var cell := hidden.duplicate()
		Vectors.activate(hidden, "tanh")
		for i in hidden.size():
			hidden[i] *= out[i]
		memory.advance(hidden, cell)
		return hidden


## n = tanh(W x + b + r (U h + c)), h' = n + z (h - n).
class Gru:
	extends Recurrent

	var _reset: Layers.Dense
	var _update: Layers.Dense
	var _of_input: Layers.Dense
	var _of_state: Layers.Dense

	func _init(weights: Weights, inputs: int, outputs: int) -> void:
		size = outputs
		_reset = Layers.Dense.new(weights, [inputs, size], size, "sigmoid")
		_update = Layers.Dense.new(weights, [inputs, size], size, "sigmoid")
		_of_input = Layers.Dense.new(weights, [inputs], size)
		_of_state = Layers.Dense.new(weights, [size], size)

	func run(row: PackedVector4Array, memory: AgentMemory) -> PackedVector4Array:
		var read := row.duplicate()
		read.append_array(memory.hidden)
		var reset := _reset.run(read)
		var update := _update.run(read)
		var hidden := _of_input.run(row)
		var of_state := _of_state.run(memory.hidden)
		for i in hidden.size():
			hidden[i] += reset[i] * of_state[i]
		Vectors.activate(hidden, "tanh")
		for i in hidden.size():
			hidden[i] += update[i] * (memory.hidden[i] - hidden[i])
		memory.advance(hidden, memory.cell)
		return hidden
