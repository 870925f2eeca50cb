"""Writes ONNX graphs, independently of torch's exporters, which change from release to release.

Custom networks may use the functions of this module to write their own nodes, see docs/extending.md. Only
operators of `IMPORTABLE` are used, in the forms that Unity's importers know from ML-Agents' files: Gemm with
the weight transposed, Swish as Sigmoid and Mul, 1 - x as -1 * x + 1.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from torch import Tensor

from ...networks.modules.attention import LAYER_NORM_EPS
from ...networks.modules.layers import GELU_CUBE, GELU_SCALE, LEAK
from ...settings.models.networks import Activation

OPSET = 9
"""The version that every Unity package since Barracuda imports."""
IR_VERSION = 4
FLOAT = int(TensorProto.FLOAT)
INT64 = int(TensorProto.INT64)
BATCH = "batch"
"""The symbolic name of the first axis of all values with one row per agent."""


class GraphBuilder:
    """Collects the nodes of one graph. Values are identified by name, as in ONNX itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[NodeProto] = []
        self._initializers: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []

    def input(self, name: str, *row: int) -> str:
        """Declare a float32 input [batch, *row], in the order of these calls."""
        self._inputs.append(helper.make_tensor_value_info(name, FLOAT, [BATCH, *row]))
        return name

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """Store an array and return its name: `name`, or `name`.2 and so on if that is taken.

        float64 becomes float32.
        """
        taken, base = {tensor.name for tensor in self._initializers}, name
        for number in itertools.count(2):
            if name not in taken:
                break
            name = f"{base}.{number}"
        stored = np.ascontiguousarray(value, dtype=np.float32 if value.dtype == np.float64 else value.dtype)
        self._initializers.append(numpy_helper.from_array(stored, name))
        return name

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """Append a node with one output, and return that output's name (`name`, or a generated one)."""
        output = name or f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(operator, list(inputs), [output], name=f"node_{output}", **attributes)
        )
        return output

    def add_many(self, operator: str, *inputs: str, outputs: Sequence[str], **attributes: Any) -> None:
        """Append a node with several outputs. An input of "" is an optional one that is not given."""
        self._nodes.append(
            helper.make_node(operator, list(inputs), list(outputs), name=f"node_{outputs[0]}", **attributes)
        )

    def shape(self, sizes: Sequence[int]) -> str:
        """A constant for Reshape; -1 stands for the remaining size."""
        tensor = numpy_helper.from_array(np.array(sizes, np.int64))
        return self.add("Constant", value=tensor)

    def scalar(self, value: float) -> str:
        """A float32 constant without dimensions."""
        tensor = numpy_helper.from_array(np.array(value, np.float32))
        return self.add("Constant", value=tensor)

    def output(self, value: str, shape: Sequence[int | str], dtype: int = FLOAT) -> None:
        """Declare `value` an output of the graph, in the order of these calls."""
        self._outputs.append(helper.make_tensor_value_info(value, dtype, list(shape)))

    def constant_output(self, name: str, value: NDArray[np.float32]) -> None:
        """A stored array as an output, which engines read without running the graph."""
        self.add("Identity", self.constant(f"{name}.value", value), name=name)
        self.output(name, value.shape)

    def build(self, producer: str, version: str, metadata: Mapping[str, str]) -> ModelProto:
        """The finished model."""
        graph = helper.make_graph(
            self._nodes,
            self.name,
            self._inputs,
            self._outputs,
            self._initializers,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name=producer,
            producer_version=version,
        )
        model.ir_version = IR_VERSION
        helper.set_model_props(model, dict(metadata))
        return model


def array(tensor: Tensor) -> NDArray[np.float32]:
    """A tensor's values, to be stored."""
    return np.asarray(tensor.detach().cpu().numpy(), np.float32)


def dense(graph: GraphBuilder, name: str, weight: Tensor, bias: Tensor, value: str) -> str:
    """A dense layer [batch, in] -> [batch, out]; `weight` [in, out] is stored as [out, in], `name`.weight."""
    return graph.add(
        "Gemm",
        value,
        graph.constant(f"{name}.weight", array(weight).T),
        graph.constant(f"{name}.bias", array(bias)),
        alpha=1.0,
        beta=1.0,
        transB=1,
    )


def dense_over_sets(graph: GraphBuilder, name: str, weight: Tensor, bias: Tensor, value: str) -> str:
    """A dense layer [batch, n, in] -> [batch, n, out]; `weight` is [in, out]."""
    product = graph.add("MatMul", value, graph.constant(f"{name}.weight", array(weight)))
    return graph.add("Add", product, graph.constant(f"{name}.bias", array(bias)))


def activation(graph: GraphBuilder, kind: Activation, value: str) -> str:
    """Apply an activation as `networks.modules.layers.activate` does."""
    if kind is Activation.SWISH:
        return graph.add("Mul", value, graph.add("Sigmoid", value))
    if kind is Activation.GELU:
        squared = graph.add("Mul", value, value)
        factor = graph.add("Add", graph.add("Mul", squared, graph.scalar(GELU_CUBE)), graph.scalar(1.0))
        inner = graph.add("Mul", graph.add("Mul", value, graph.scalar(GELU_SCALE)), factor)
        return graph.add("Mul", value, graph.add("Sigmoid", inner))
    if kind is Activation.LEAKY_RELU:
        return graph.add("LeakyRelu", value, alpha=LEAK)
    return graph.add({"relu": "Relu", "elu": "Elu", "tanh": "Tanh"}[kind.value], value)


def layer_norm(graph: GraphBuilder, value: str, axis: int) -> str:
    """Normalize to mean 0 and standard deviation 1 along the last axis, whose index is `axis`."""
    centred = graph.add("Sub", value, graph.add("ReduceMean", value, axes=[axis], keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=[axis], keepdims=1)
    deviation = graph.add("Sqrt", graph.add("Add", variance, graph.scalar(LAYER_NORM_EPS)))
    return graph.add("Div", centred, deviation)


def reshape(graph: GraphBuilder, value: str, shape: Sequence[int], name: str | None = None) -> str:
    """Reshape a value; -1 in `shape` stands for the remaining size."""
    return graph.add("Reshape", value, graph.shape(shape), name=name)


def transpose(graph: GraphBuilder, value: str, axes: Sequence[int], name: str | None = None) -> str:
    """Permute the axes."""
    return graph.add("Transpose", value, perm=list(axes), name=name)


def concat(graph: GraphBuilder, values: Sequence[str], axis: int = 1) -> str:
    """Concatenate along `axis`."""
    return values[0] if len(values) == 1 else graph.add("Concat", *values, axis=axis)


def slice_axis(graph: GraphBuilder, value: str, axis: int, start: int, end: int) -> str:
    """Slice a value from `start` to before `end` along an axis."""
    return graph.add("Slice", value, axes=[axis], starts=[start], ends=[end])


def one_minus(graph: GraphBuilder, value: str) -> str:
    """1 - value, in the form that all importers know."""
    return graph.add("Add", graph.add("Mul", value, graph.scalar(-1.0)), graph.scalar(1.0))


# Barracuda 2.0's list. All but ImageScaler, which is omitted here, are also imported by Sentis 2.1 and
# Inference Engine 2.4, so a brain of these runs in every Unity project that ML-Agents' packages support.
# fmt: off
IMPORTABLE = frozenset((
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "AveragePool", "BatchNormalization", "Cast", "Ceil", "Clip", "Concat", "Constant", "ConstantOfShape",
    "Conv", "ConvTranspose", "Cos", "Cosh", "DepthToSpace", "Div", "Dropout", "Elu", "Equal", "Exp",
    "Expand", "Flatten", "Floor", "Gather", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Greater",
    "Identity", "InstanceNormalization", "LRN", "LSTM", "LeakyRelu", "Less", "LessOrEqual", "Log",
    "LogSoftmax", "MatMul", "Max", "MaxPool", "Mean", "Min", "Mul", "Multinomial", "Neg",
    "NonMaxSuppression", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pad", "Pow", "RandomNormal",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Reciprocal", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape", "Resize", "Round", "Selu", "Shape",
    "Sigmoid", "Sin", "Sinh", "Slice", "Softmax", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum",
    "Tan", "Tanh", "Tile", "TopK", "Transpose", "Unsqueeze", "Upsample", "Where", "Xor",
))
# fmt: on


def not_importable(model: ModelProto) -> Counter[str]:
    """The operators of `model` that not every Unity package imports, each with the number of its nodes."""
    return Counter(
        f"{node.domain}.{node.op_type}".lstrip(".")
        for node in model.graph.node
        if node.domain or node.op_type not in IMPORTABLE
    )


class BrainVerificationError(Exception):
    """A brain that must not be written; the message says why."""
