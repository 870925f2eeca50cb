"""Observation encoders as ONNX nodes."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import nn

from ....envs.python.calls import describe_error
from ...networks.custom import reference_of
from ...networks.modules.attention import (
    ABSENT_BELOW,
    ENTITY_SIZE,
    HEADS,
    MASKED_LOGIT,
    POOL_EPS,
    EntityEncoder,
    SelfAttention,
)
from ...networks.modules.normalizer import LIMIT, Normalizer
from ...networks.modules.visual import POOL, POOL_STRIDE, Convolution, VisualEncoder
from ...networks.observation_kinds import ObservationKind
from ...networks.observations import ObservationEncoder
from ...settings.models.networks import Activation, EncoderType
from .graph import (
    FLOAT,
    BrainVerificationError,
    GraphBuilder,
    activation,
    array,
    concat,
    dense,
    dense_over_sets,
    layer_norm,
    one_minus,
    reshape,
    transpose,
)


def encode(graph: GraphBuilder, encoder: ObservationEncoder, observations: list[str]) -> str:
    """The inputs obs_0, obs_1, ... -> the input of the body."""
    values = _prepared(graph, encoder, observations)
    if encoder.whole is not None:
        return _custom(graph, encoder.whole, values)
    encodings, sets = [], []
    for part, value in zip(encoder.read, values, strict=True):
        key = str(part.indices[0])
        if key in encoder.encoders:
            own = encoder.encoders[key]
            if isinstance(own, VisualEncoder):
                encodings.append(visual(graph, own, value, f"visual.{key}"))
            else:
                encodings.append(_custom(graph, own, value))
        elif part.kind is ObservationKind.VECTOR:
            encodings.append(value)
        else:
            sets.append((value, int(encoder.specs[part.index].shape[0])))
    if encoder.entities is not None:
        own_vector = concat(graph, encodings) if encodings else None
        encodings.append(entities(graph, encoder.entities, sets, own_vector))
    return concat(graph, encodings)


@runtime_checkable
class Exportable(Protocol):
    """A custom network that can be part of a brain."""

    def export(self, graph: GraphBuilder, inputs: Any) -> str:
        """Write `forward` as ONNX nodes.

        Args:
            graph: takes nodes and constants.
            inputs: the name of the value [batch, *shape] that an encoder reads, or a body's list of these.

        Returns:
            The name of the value [batch, size].
        """


def _custom(graph: GraphBuilder, network: nn.Module, inputs: str | list[str]) -> str:
    """A custom network as nodes."""
    assert isinstance(network, Exportable)
    try:
        return network.export(graph, inputs)
    except Exception as error:
        raise BrainVerificationError(
            f"The network {reference_of(network)} of '{graph.name}' cannot write itself as ONNX: "
            f"{describe_error(error)}."
        ) from error


def _prepared(graph: GraphBuilder, encoder: ObservationEncoder, observations: list[str]) -> list[str]:
    """One value per part that is read: vectors concat and normalized, all others as they come."""
    values = []
    for part in encoder.read:
        value = concat(graph, [observations[k] for k in part.indices])
        if part.kind is ObservationKind.VECTOR and encoder.normalizers is not None:
            run = encoder.runs.index(part)
            normalizer = encoder.normalizers[run]
            assert isinstance(normalizer, Normalizer)
            value = _normalized(graph, normalizer, value, f"normalizer.{run}")
        values.append(value)
    return values


def _normalized(graph: GraphBuilder, normalizer: Normalizer, value: str, name: str) -> str:
    shifted = graph.add("Sub", value, graph.constant(f"{name}.mean", array(normalizer.mean)))
    scaled = graph.add("Div", shifted, graph.constant(f"{name}.deviation", array(normalizer.deviation())))
    return graph.add("Clip", scaled, min=-LIMIT, max=LIMIT)


def visual(graph: GraphBuilder, encoder: VisualEncoder, value: str, name: str) -> str:
    """[batch, C, H, W] -> [batch, size]."""
    residual = encoder.kind is EncoderType.RESNET
    if residual:
        value = _residual(graph, encoder, value, name)
    else:
        for i, layer in enumerate(encoder.convolutions):
            assert isinstance(layer, Convolution)
            value = _convolved(graph, layer, value, f"{name}.{i}")
            value = activation(graph, Activation.LEAKY_RELU, value)
    flat = reshape(graph, value, [-1, encoder.dense.weight.shape[0]])
    features = dense(graph, f"{name}.dense", encoder.dense.weight, encoder.dense.bias, flat)
    return activation(graph, Activation.RELU if residual else Activation.LEAKY_RELU, features)


def _residual(graph: GraphBuilder, encoder: VisualEncoder, value: str, name: str) -> str:
    for stage, layers in enumerate(encoder.stages()):
        here = f"{name}.{stage}"
        value = _convolved(graph, layers[0], value, f"{here}.0")
        value = graph.add("MaxPool", value, kernel_shape=[POOL] * 2, strides=[POOL_STRIDE] * 2, pads=[0] * 4)
        for k in (1, 3):
            inner = activation(graph, Activation.SWISH, value)
            inner = activation(graph, Activation.SWISH, _convolved(graph, layers[k], inner, f"{here}.{k}"))
            value = graph.add("Add", value, _convolved(graph, layers[k + 1], inner, f"{here}.{k + 1}"))
    return activation(graph, Activation.SWISH, value)


def _convolved(graph: GraphBuilder, layer: Convolution, value: str, name: str) -> str:
    return graph.add(
        "Conv",
        value,
        graph.constant(f"{name}.weight", array(layer.weight)),
        graph.constant(f"{name}.bias", array(layer.bias)),
        dilations=[1, 1],
        group=1,
        kernel_shape=[layer.kernel] * 2,
        pads=[layer.padding] * 4,
        strides=[layer.stride] * 2,
    )


def entities(
    graph: GraphBuilder, encoder: EntityEncoder, sets: list[tuple[str, int]], encodings: str | None
) -> str:
    """Sets [batch, n, features], each with its n, and the other encodings -> [batch, 128]."""
    own = None
    if encoder.own is not None and encodings is not None:
        own = dense(graph, "entities.own", encoder.own.weight, encoder.own.bias, encodings)
        own = activation(graph, Activation.SWISH, own)
    embedded, masks, start = [], [], encoder.own_size
    for i, (value, _) in enumerate(sets):
        layer, name = encoder.embedding(i), f"entities.{i}"
        rows = dense_over_sets(graph, name, layer.weight[start:], layer.bias, value)
        if own is not None:
            of_own = graph.add("MatMul", own, graph.constant(f"{name}.of_own", array(layer.weight[:start])))
            rows = graph.add("Add", rows, graph.add("Unsqueeze", of_own, axes=[1]))
        embedded.append(activation(graph, Activation.SWISH, rows))
        squares = graph.add("ReduceSum", graph.add("Mul", value, value), axes=[2], keepdims=0)
        masks.append(graph.add("Cast", graph.add("Less", squares, graph.scalar(ABSENT_BELOW)), to=FLOAT))
    count = sum(n for _, n in sets)
    return _attention(graph, encoder.attention, concat(graph, embedded), concat(graph, masks), count)


def _attention(graph: GraphBuilder, network: SelfAttention, value: str, absent: str, count: int) -> str:
    """[batch, n, 128] and a mask [batch, n], 1 for absent -> [batch, 128]."""
    x = layer_norm(graph, value, 2)

    def heads(name: str) -> str:
        layer = getattr(network, name)
        rows = dense_over_sets(graph, f"attention.{name}", layer.weight, layer.bias, x)
        split = reshape(graph, rows, [-1, count, HEADS, network.head_size])
        return transpose(graph, split, [0, 2, 1, 3])

    query, key, values = heads("query"), heads("key"), heads("value")
    # The scale keeps importers from merging the two transpositions: Barracuda does not support the result.
    key = transpose(graph, graph.add("Mul", key, graph.scalar(network.scale)), [0, 1, 3, 2])
    there = one_minus(graph, absent)
    penalty = graph.add("Mul", reshape(graph, absent, [-1, 1, 1, count]), graph.scalar(-MASKED_LOGIT))
    logits = graph.add("Mul", graph.add("MatMul", query, key), reshape(graph, there, [-1, 1, 1, count]))
    p = graph.add("Softmax", graph.add("Sub", logits, penalty), axis=3)
    mixed = transpose(graph, graph.add("MatMul", p, values), [0, 2, 1, 3])
    mixed = reshape(graph, mixed, [-1, count, ENTITY_SIZE])
    out = dense_over_sets(graph, "attention.out", network.out.weight, network.out.bias, mixed)
    rows = layer_norm(graph, graph.add("Add", out, x), 2)
    kept = graph.add("Mul", rows, reshape(graph, there, [-1, count, 1]))
    total = graph.add("ReduceSum", kept, axes=[1], keepdims=0)
    number = graph.add("ReduceSum", there, axes=[1], keepdims=1)
    return graph.add("Div", total, graph.add("Add", number, graph.scalar(POOL_EPS)))
