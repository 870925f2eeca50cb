"""Common pieces of graphs. Users' networks may write theirs with these, see docs/extending.md.

Only operators of the lists in `operators.py`. The forms are those that Unity's importers know from ML-Agents'
own files: Gemm with the weight transposed, Swish as Sigmoid and Mul, 1 - x as -1 * x + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..networks.activations import GELU_CUBE, GELU_SCALE, LEAK
from ..networks.attention import LAYER_NORM_EPS
from ..networks.settings import Activation
from .graph import GraphBuilder


def array(tensor: Tensor) -> NDArray[np.float32]:
    """A tensor's numbers, to be stored."""
    return np.asarray(tensor.detach().cpu().numpy(), np.float32)


def dense(graph: GraphBuilder, name: str, weight: Tensor, bias: Tensor, value: str) -> str:
    """[batch, in] -> [batch, out]. `weight` is [in, out]; it is stored as [out, in], under `name`.weight."""
    return graph.add(
        "Gemm",
        value,
        graph.constant(f"{name}.weight", array(weight).T),
        graph.constant(f"{name}.bias", array(bias)),
        alpha=1.0,
        beta=1.0,
        transB=1,
    )


def dense_of_sets(graph: GraphBuilder, name: str, weight: Tensor, bias: Tensor, value: str) -> str:
    """[batch, n, in] -> [batch, n, out]; `weight` is [in, out]."""
    product = graph.add("MatMul", value, graph.constant(f"{name}.weight", array(weight)))
    return graph.add("Add", product, graph.constant(f"{name}.bias", array(bias)))


def activation(graph: GraphBuilder, kind: Activation, value: str) -> str:
    """As `networks.activations.activate`."""
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
    """Mean 0 and deviation 1 along the last axis, whose number is `axis`."""
    centred = graph.add("Sub", value, graph.add("ReduceMean", value, axes=[axis], keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=[axis], keepdims=1)
    deviation = graph.add("Sqrt", graph.add("Add", variance, graph.scalar(LAYER_NORM_EPS)))
    return graph.add("Div", centred, deviation)


def reshaped(graph: GraphBuilder, value: str, shape: Sequence[int], name: str | None = None) -> str:
    """-1 stands for what is left."""
    return graph.add("Reshape", value, graph.shape(shape), name=name)


def turned(graph: GraphBuilder, value: str, axes: Sequence[int], name: str | None = None) -> str:
    """The axes in another order."""
    return graph.add("Transpose", value, perm=list(axes), name=name)


def joined(graph: GraphBuilder, values: Sequence[str], axis: int = 1) -> str:
    """Side by side."""
    return values[0] if len(values) == 1 else graph.add("Concat", *values, axis=axis)


def sliced(graph: GraphBuilder, value: str, axis: int, start: int, end: int) -> str:
    """Some of an axis."""
    return graph.add("Slice", value, axes=[axis], starts=[start], ends=[end])


def one_minus(graph: GraphBuilder, value: str) -> str:
    """1 - value, in the form that all importers know."""
    return graph.add("Add", graph.add("Mul", value, graph.scalar(-1.0)), graph.scalar(1.0))
