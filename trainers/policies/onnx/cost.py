"""What it costs to run a model of somebody else, by the shapes of its values: known before it is loaded.

A file of a few hundred bytes may ask for any memory and time (`ConstantOfShape` of 30,000 x 30,000), already
while onnxruntime loads it and computes what is constant. So only operators whose cost follows from shapes are
run, and only where ONNX's shape inference finds all shapes for the given inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    shape_inference,
)

from ...utils.text import harmless

MOST_VALUES = 20_000
"""The most values that the nodes of a model read and make; Unity's largest have 500, in 150 nodes."""
_SHOWN = 60
"""The most letters of a name in a message."""
_EXPORT = "Export the policy so that all sizes but the number of agents are fixed, as Unity wants them too"
"""What to do where a size is not known."""
_LARGEST_SIZES = 64
"""The most numbers of a constant that may be sizes: of larger ones the inference is given the shape alone."""
_SCALAR = 16
"""How much longer than in a matrix product a multiplication takes in operators that go number by number."""
_SCALING = 1000
"""Multiplications in the time that each number of a scaled image takes, by cubic interpolation."""

Shape = tuple[int, ...]

# fmt: off
_LINEAR = frozenset((
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "BatchNormalization", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast",
    "CastLike", "Ceil", "Celu", "Clip", "Concat", "Constant", "ConstantOfShape", "Cos", "Cosh", "CumSum",
    "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "DynamicQuantizeLinear", "Elu", "Equal", "Erf",
    "Exp", "Expand", "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "GroupNormalization",
    "HardSigmoid", "HardSwish", "Hardmax", "Identity", "If", "InstanceNormalization", "IsInf", "IsNaN",
    "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax", "LpNormalization", "Max",
    "Mean", "MeanVarianceNormalization", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "OneHot", "Or", "PRelu",
    "Pad", "Pow", "QuantizeLinear", "RMSNormalization", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike", "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape",
    "Round", "Scatter", "ScatterElements", "ScatterND", "Selu", "Shape", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Size", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt", "Squeeze",
    "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK", "Transpose", "Trilu",
    "Unsqueeze", "Where", "Xor",
))
"""Operators that take a time in proportion to the numbers of their inputs and outputs."""
_COSTLY = frozenset((
    "AveragePool", "Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LRN", "LSTM", "LpPool", "MatMul",
    "MaxPool", "Multinomial", "RNN", "Resize", "Upsample",
))
"""The others that are run; `_products` says how much they multiply."""
# fmt: on
_AS_LARGE = frozenset(("Cast", "Concat", "Flatten", "Identity", "Squeeze", "Transpose", "Unsqueeze"))
"""Operators whose output has as many numbers as their inputs, also where its shape is not inferred: that of
`Concat` before version 11 is not if the axis counts from the end, as in Unity's files."""
_FIRST_SIZE = {
    **dict.fromkeys(("ConstantOfShape", "Range"), 0),
    **dict.fromkeys(("Expand", "OneHot", "Pad", "Reshape", "Resize", "Slice", "Split"), 1),
    **dict.fromkeys(("Squeeze", "Tile", "TopK", "Unsqueeze", "Upsample"), 1),
    **dict.fromkeys((name for name in _LINEAR if name.startswith("Reduce")), 1),
}
"""Operators whose inputs, from this one on, say how large the output is."""
_EXACT = frozenset(
    ("Add", "Concat", "Constant", "Gather", "Mul", "Shape", "Size", "Slice", "Squeeze", "Sub", "Unsqueeze")
)
"""Operators that compute sizes as the inference does: it takes all whole numbers for some of 64 bits."""
_WIDE = frozenset((TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE))


class CostError(Exception):
    """A model that is not run, for its cost or since that is not known; the message says why, as a clause."""


def most_numbers(agents: int) -> int:
    """How many numbers the values of one decision may have together.

    A residual network makes 65 million for an image of 1024 x 1024; a thousand agents with images of 84 x 84
    make 430 million.
    """
    return min((1 << 26) + (agents << 24), 1 << 30)


def most_products(agents: int) -> int:
    """How many multiplications one decision may take: some seconds of a processor core."""
    return min((1 << 34) + (agents << 32), 1 << 38)


class ModelCost:
    """Refuses a model whose cost is too high, or is not known, for inputs of some shapes."""

    def __init__(self, model: ModelProto) -> None:
        """Check what does not depend on the inputs' shapes. The model is changed.

        Raises:
            CostError: it has parts whose cost does not follow from shapes.
        """
        _require_known_parts(model)
        names = {tensor.name for tensor in model.graph.initializer}
        self.inputs = {one.name: _declared(one) for one in model.graph.input if one.name not in names}
        """The shapes that are declared: name -> sizes (None: any)."""
        self._model = model
        for graph in _graphs_in(model.graph):
            _drop_types(graph)
        _hide_weights(model.graph)

    def require(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Refuse what costs too much with inputs of these shapes; their first axis is that of the agents.

        Raises:
            CostError: it does, or the shape of a value depends on more than shapes.
        """
        for value in self._model.graph.input:
            if value.name in shapes:
                kind = value.type.tensor_type.elem_type or TensorProto.FLOAT
                value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
        try:
            inferred = shape_inference.infer_shapes(self._model, strict_mode=True, data_prop=True)
        except Exception as error:  # onnx has types of its own, which differ from version to version
            raise CostError(f"its shapes do not fit together: {_short(str(error), 300)}") from error
        agents = max((shape[0] for shape in shapes.values() if shape), default=1)
        _Meter(most_numbers(agents), most_products(agents)).add_graph(inferred.graph, {})


class _Meter:
    """Adds up what the nodes of a graph make and multiply."""

    def __init__(self, most_numbers: int, most_products: int) -> None:
        self._numbers, self._most_numbers = 0, most_numbers
        self._products, self._most_products = 0, most_products

    def add_graph(self, graph: GraphProto, outer: Mapping[str, Shape | None]) -> None:
        """Add a graph; its nodes may read values of the graph around it, whose shapes are given by name.

        Raises:
            CostError: it is too much, or a shape is not known.
        """
        shapes = {**outer}
        shapes.update((tensor.name, _shape(tensor.dims)) for tensor in graph.initializer)
        for value in (*graph.input, *graph.value_info, *graph.output):
            inferred = _inferred(value)
            shapes[value.name] = shapes.get(value.name) if inferred is None else inferred
        for node in graph.node:
            given = [shapes.get(name) for name in node.input if name]
            made = [shapes.get(name) for name in node.output if name]
            if made == [None] and node.op_type in _AS_LARGE:
                made = [(sum(_count(shape) for shape in given if shape is not None),)]
                shapes[node.output[0]] = made[0]
            self._add(node, given, made)
            for attribute in node.attribute:
                for inner in _inner_graphs(attribute):
                    self.add_graph(inner, shapes)

    def _add(self, node: NodeProto, given: Sequence[Shape | None], made: Sequence[Shape | None]) -> None:
        inputs = [shape for shape in given if shape is not None]
        outputs = [shape for shape in made if shape is not None]
        if len(inputs) < len(given) or len(outputs) < len(made):
            raise CostError(f"how many numbers {_shown(node)} gives is not known before it is run. {_EXPORT}")
        self._numbers += sum(map(_count, outputs))
        self._products += sum(map(_count, (*inputs, *outputs))) + _products(node, inputs, outputs)
        for found, most, what in (
            (self._numbers, self._most_numbers, "numbers in memory"),
            (self._products, self._most_products, "multiplications"),
        ):
            if found > most:
                raise CostError(
                    f"one decision would take {found:.1e} {what} up to {_shown(node)}, and at most "
                    f"{most:.1e} are accepted. If it is your policy, let fewer agents decide at once, or "
                    "give them smaller images"
                )


def _products(node: NodeProto, inputs: list[Shape], outputs: list[Shape]) -> int:
    """How much a node multiplies, at most, if its operator is not linear.

    Raises:
        CostError: its inputs are none that the operator takes.
    """
    made, kind = sum(map(_count, outputs)), node.op_type
    attributes: dict[str, Any] = {one.name: list(one.ints) or one.i for one in node.attribute}
    try:
        if kind in ("Gemm", "MatMul"):
            return made * inputs[0][0 if attributes.get("transA") else -1]
        if kind == "Conv":
            return made * _count(inputs[1][1:])
        if kind == "ConvTranspose":
            return _count(inputs[0]) * _count(inputs[1][1:])
        if kind == "Einsum":
            return _einsum_products(node, inputs)
        if kind in ("AveragePool", "LpPool", "MaxPool"):
            return made * _count(attributes["kernel_shape"]) * _SCALAR
        if kind in ("GRU", "LSTM", "RNN"):
            return _count(inputs[0][:-1]) * (_count(inputs[1]) + _count(inputs[2]))
        if kind == "Multinomial":
            return made * inputs[0][-1] * _SCALAR
        if kind in ("Resize", "Upsample"):
            return made * _SCALING
        return made * attributes["size"] * _SCALAR if kind == "LRN" else 0
    except (LookupError, TypeError) as error:
        raise CostError(f"{_shown(node)} lacks what its operator needs") from error


def _einsum_products(node: NodeProto, inputs: Sequence[Shape]) -> int:
    """How much a product by indices multiplies: the sizes of all indices.

    Raises:
        CostError: it has more than two inputs, whose products between them could be larger.
        LookupError: its indices are not those of its inputs; `...` for some is not counted.
    """
    if len(inputs) > 2:
        raise CostError(f"{_shown(node)} multiplies more than two values at once. Let it multiply two")
    equation = b"".join(one.s for one in node.attribute if one.name == "equation").decode(errors="replace")
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if [len(term) for term in terms] != [len(shape) for shape in inputs]:
        raise LookupError(equation)
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, inputs):
        for index, size in zip(term, shape):
            sizes[index] = max(size, sizes.get(index, 0))
    return _count(list(sizes.values()))


def _require_known_parts(model: ModelProto) -> None:
    if model.functions:
        raise CostError("it has functions of its own, which Unity does not import; export it without them")
    graphs = list(_graphs_in(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    values = sum(len(node.input) + len(node.output) for node in nodes)
    if values > MOST_VALUES:
        raise CostError(
            f"its nodes read and make {values:,} values, and at most {MOST_VALUES:,} are accepted"
        )
    unknown = {_operator(node) for node in nodes} - _LINEAR - _COSTLY
    if unknown:
        raise CostError(
            f"it has the operator {' and '.join(map(_short, sorted(unknown)[:3]))}, whose cost is not known "
            "before it is run, as that of a loop, which may be without an end. Export the policy without it"
        )
    attributes = [attribute for node in nodes for attribute in node.attribute]
    if any(graph.sparse_initializer for graph in graphs) or any(
        attribute.HasField("sparse_tensor") for attribute in attributes
    ):
        raise CostError("it has sparse weights, which Unity does not import; export it with dense ones")
    _require_own_weights([tensor for graph in graphs for tensor in graph.initializer])
    for one in attributes:
        _require_own_weights([*((one.t,) if one.HasField("t") else ()), *one.tensors])
    for graph in graphs:
        _require_single_names(graph)
    _require_exact_sizes(graphs)


def _require_own_weights(tensors: Sequence[TensorProto]) -> None:
    """Refuse weights that lie elsewhere: onnxruntime would read a file there, some versions of it memory."""
    for tensor in tensors:
        if tensor.external_data or tensor.data_location == TensorProto.EXTERNAL:
            place = "".join(entry.value for entry in tensor.external_data if entry.key == "location")
            raise CostError(
                f"its weights {_short(tensor.name)} lie in another file ({_short(place)}), which is not "
                "read. Export the policy as one file"
            )


def _operator(node: NodeProto) -> str:
    """The name of a node's operator, with its domain if that is not ONNX's own."""
    if node.op_type == "Cast" and any(
        one.name == "to" and one.i == TensorProto.STRING for one in node.attribute
    ):
        return "Cast to text"
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _require_single_names(graph: GraphProto) -> None:
    """Refuse values of one name, of which the inference and onnxruntime could take different ones."""
    names = [tensor.name for tensor in graph.initializer]
    names += [name for node in graph.node for name in node.output if name]
    if len(names) > len(set(names)):
        raise CostError("two of its values have the same name")


def _require_exact_sizes(graphs: Sequence[GraphProto]) -> None:
    """Refuse sizes that are computed otherwise than the inference does."""
    makers: dict[str, list[NodeProto]] = {}
    for node in (node for graph in graphs for node in graph.node):
        for name in node.output:
            makers.setdefault(name, []).append(node)
    narrow = {
        tensor.name for graph in graphs for tensor in graph.initializer if tensor.data_type not in _WIDE
    }
    wanted = [
        name
        for nodes in makers.values()
        for node in nodes
        if node.op_type in _FIRST_SIZE
        for name in node.input[_FIRST_SIZE[node.op_type] :]
    ]
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in makers.get(name, ()):
            if not _is_exact(node):
                raise CostError(
                    f"{_shown(node)} computes a size, which is therefore not known before it is run. "
                    f"{_EXPORT}"
                )
            wanted += () if node.op_type in ("Shape", "Size") else node.input
    if seen & narrow:
        raise CostError(f"{_short(min(seen & narrow))!r} is a size, and not of 64 bits")


def _is_exact(node: NodeProto) -> bool:
    if node.op_type in ("Cast", "Constant"):
        kinds = [one.t.data_type for one in node.attribute if one.HasField("t")]
        return {*kinds, *(one.i for one in node.attribute if one.name == "to")} <= _WIDE
    return node.op_type in _EXACT


def _hide_weights(graph: GraphProto) -> None:
    """Leave the inference nothing but the shapes of large constants: it reads all for each new shape."""
    constants = [*graph.initializer]
    names = {tensor.name for tensor in constants}
    inputs = [value for value in graph.input if value.name not in names]
    inputs += [
        helper.make_tensor_value_info(tensor.name, tensor.data_type, shape)
        for tensor in constants
        if (shape := _shape(tensor.dims)) is not None and _count(shape) > _LARGEST_SIZES
    ]
    hidden = {value.name for value in inputs}
    kept = [tensor for tensor in constants if tensor.name not in hidden]
    del graph.input[:], graph.initializer[:]
    graph.input.extend(inputs)
    graph.initializer.extend(kept)


def _drop_types(graph: GraphProto) -> None:
    """Remove what the file says of its values' shapes, which need not be true."""
    del graph.value_info[:]
    for value in graph.output:
        value.ClearField("type")


def _graphs_in(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph, and those within it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in _inner_graphs(attribute):
                yield from _graphs_in(inner)


def _inner_graphs(attribute: AttributeProto) -> list[GraphProto]:
    return [*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs]


def _declared(value: ValueInfoProto) -> list[int | None]:
    sizes = value.type.tensor_type.shape.dim
    return [one.dim_value if one.HasField("dim_value") else None for one in sizes]


def _inferred(value: ValueInfoProto) -> Shape | None:
    """The shape of a value; None if it is not wholly known."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    return _shape([-1 if size is None else size for size in _declared(value)])


def _shape(sizes: Sequence[int]) -> Shape | None:
    return None if any(size < 0 for size in sizes) else tuple(sizes)


def _count(shape: Sequence[int]) -> int:
    return math.prod(shape)


def _shown(node: NodeProto) -> str:
    name = node.name or next((name for name in node.output if name), "")
    return f"its node {_short(name)!r} ({_short(node.op_type)})"


def _short(text: str, most: int = _SHOWN) -> str:
    """The beginning of a text of the file, as one harmless line."""
    return harmless(" ".join(text[: 2 * most].split())[:most])
