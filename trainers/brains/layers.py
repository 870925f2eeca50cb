"""The layers of the networks as ONNX nodes, one function for each kind of layer.

Only operators of the lists in `operators.py`. The forms are those that Unity's importers know from ML-Agents'
own files: Gemm with the weight transposed, Swish as Sigmoid and Mul, 1 - x as -1 * x + 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..distributions import BLOCKED_LOGIT, ENGINE_RANGE
from ..networks.body import Body, DenseStack
from ..networks.heads import ActionHead
from ..networks.memory import Memory
from ..networks.observations import ObservationEncoder
from ..networks.settings import MemoryType
from ..normalizer import LIMIT, Normalizer
from .graph import BATCH, INT64, GraphBuilder


def encode(graph: GraphBuilder, encoder: ObservationEncoder, observations: list[str]) -> str:
    """The inputs obs_0, obs_1, ... -> the input of the body."""
    encodings = []
    for i, run in enumerate(encoder.runs):
        value = _joined(graph, [observations[k] for k in run.indices])
        if encoder.normalizers is not None:
            normalizer = encoder.normalizers[i]
            assert isinstance(normalizer, Normalizer)
            value = _normalized(graph, normalizer, value, f"normalizer.{i}")
        encodings.append(value)
    return _joined(graph, encodings)


def body(graph: GraphBuilder, network: Body, stream: int, value: str) -> str:
    """One stream of a dense body."""
    for i, layer in enumerate(network.layers):
        assert isinstance(layer, DenseStack)
        value = _dense(graph, f"body.{i}", layer.weight[stream], layer.bias[stream, 0], value)
        value = graph.add("Mul", value, graph.add("Sigmoid", value))
    return value


def memory(graph: GraphBuilder, network: Memory, value: str, states: str) -> tuple[str, str]:
    """One step of a recurrent memory: what it says, [batch, output size], and the new states.

    `states`, before and after, are [batch, 1, size], as engines keep them.
    """
    if network.kind is MemoryType.LSTM:
        return _lstm(graph, network, value, states)
    return _gru(graph, network, value, states)


def _lstm(graph: GraphBuilder, network: Memory, value: str, states: str) -> tuple[str, str]:
    hidden = network.output_size
    sequence = _turned(graph, _reshaped(graph, value, [-1, 1, network.weight_ih.shape[1]]))
    before = _turned(graph, states)
    outputs = ("memory.outputs", "memory.hidden", "memory.cell")
    graph.add_many(
        "LSTM",
        sequence,
        graph.constant("memory.weight_ih", _onnx_gates(network.weight_ih)[None]),
        graph.constant("memory.weight_hh", _onnx_gates(network.weight_hh)[None]),
        graph.constant(
            "memory.bias", np.concatenate([_onnx_gates(b) for b in (network.bias_ih, network.bias_hh)])[None]
        ),
        "",  # all sequences are of one length
        graph.add("Slice", before, axes=[2], starts=[0], ends=[hidden]),
        graph.add("Slice", before, axes=[2], starts=[hidden], ends=[2 * hidden]),
        outputs=outputs,
        hidden_size=hidden,
    )
    said = _turned(graph, graph.add("Squeeze", outputs[0], axes=[1]))
    after = _turned(graph, graph.add("Concat", *outputs[1:], axis=2), name="recurrent_out")
    return _reshaped(graph, said, [-1, hidden]), after


def _onnx_gates(stacked: Tensor) -> NDArray[np.float32]:
    """From torch's order of an LSTM's gates (input, forget, cell, output) to ONNX's (i, o, f, c)."""
    i, f, c, o = np.split(_array(stacked), 4)
    return np.concatenate([i, o, f, c])


def _gru(graph: GraphBuilder, network: Memory, value: str, states: str) -> tuple[str, str]:
    """Written as its arithmetic, since engines do not import ONNX's GRU."""
    hidden = network.output_size
    before = _reshaped(graph, states, [-1, hidden])
    of_input = _dense(graph, "memory.input", network.weight_ih.T, network.bias_ih, value)
    of_state = _dense(graph, "memory.state", network.weight_hh.T, network.bias_hh, before)

    def gate(columns: str, index: int) -> str:
        return graph.add("Slice", columns, axes=[1], starts=[index * hidden], ends=[(index + 1) * hidden])

    reset, update = (
        graph.add("Sigmoid", graph.add("Add", gate(of_input, k), gate(of_state, k))) for k in (0, 1)
    )
    new = graph.add("Tanh", graph.add("Add", gate(of_input, 2), graph.add("Mul", reset, gate(of_state, 2))))
    # (1 - update) new + update before
    said = graph.add("Add", new, graph.add("Mul", update, graph.add("Sub", before, new)))
    return said, _reshaped(graph, said, [-1, 1, hidden], name="recurrent_out")


def _turned(graph: GraphBuilder, value: str, name: str | None = None) -> str:
    """The first two axes swapped: agents and time."""
    return graph.add("Transpose", value, perm=[1, 0, 2], name=name)


def _reshaped(graph: GraphBuilder, value: str, shape: list[int], name: str | None = None) -> str:
    return graph.add("Reshape", value, graph.shape(shape), name=name)


def actions(graph: GraphBuilder, head: ActionHead, encoding: str, action_masks: str) -> None:
    """All action outputs, sampled and deterministic, in the order of the contract."""
    split = head.continuous_size
    if split:
        mu = _dense(graph, "actions.mu", head.weight[:, :split], head.bias[:split], encoding)
        _continuous(graph, mu, _array(head.log_sigma.exp()))
    if head.branches.sizes:
        logits = _dense(graph, "actions.logits", head.weight[:, split:], head.bias[split:], encoding)
        _discrete(graph, logits, head.branches.sizes, action_masks)


def _continuous(graph: GraphBuilder, mu: str, sigma: NDArray[np.float32]) -> None:
    size = sigma.size
    noise = graph.add("RandomNormalLike", mu, dtype=1)
    spread = graph.add("Mul", noise, graph.constant("actions.sigma", sigma.reshape(1, size)))
    _to_engine(graph, graph.add("Add", mu, spread), "continuous_actions", size)
    graph.constant_output("continuous_action_output_shape", np.array([size], np.float32))
    _to_engine(graph, mu, "deterministic_continuous_actions", size)


def _to_engine(graph: GraphBuilder, value: str, name: str, size: int) -> None:
    clipped = graph.add("Clip", value, min=-ENGINE_RANGE, max=ENGINE_RANGE)
    graph.add("Div", clipped, graph.scalar(ENGINE_RANGE), name=name)
    graph.output(name, [BATCH, size])


def _discrete(graph: GraphBuilder, logits: str, sizes: tuple[int, ...], action_masks: str) -> None:
    blocked = graph.add("Add", graph.add("Mul", action_masks, graph.scalar(-1.0)), graph.scalar(1.0))
    penalty = graph.add("Mul", blocked, graph.scalar(-BLOCKED_LOGIT))
    masked = graph.add("Sub", graph.add("Mul", logits, action_masks), penalty)
    sampled, likeliest, start = [], [], 0
    for size in sizes:
        branch = graph.add("Slice", masked, axes=[1], starts=[start], ends=[start + size])
        probabilities = graph.add("Softmax", branch, axis=1)
        sampled.append(graph.add("Multinomial", graph.add("Log", probabilities), dtype=INT64, sample_size=1))
        likeliest.append(graph.add("ArgMax", probabilities, axis=1, keepdims=1))
        start += size
    graph.add("Concat", *sampled, axis=1, name="discrete_actions")
    graph.output("discrete_actions", [BATCH, len(sizes)], INT64)
    graph.constant_output("discrete_action_output_shape", np.array([sizes], np.float32))
    graph.add("Concat", *likeliest, axis=1, name="deterministic_discrete_actions")
    graph.output("deterministic_discrete_actions", [BATCH, len(sizes)], INT64)


def _dense(graph: GraphBuilder, name: str, weight: Tensor, bias: Tensor, value: str) -> str:
    """`weight` is [in, out]; it is stored as [out, in]."""
    return graph.add(
        "Gemm",
        value,
        graph.constant(f"{name}.weight", _array(weight).T),
        graph.constant(f"{name}.bias", _array(bias)),
        alpha=1.0,
        beta=1.0,
        transB=1,
    )


def _normalized(graph: GraphBuilder, normalizer: Normalizer, value: str, name: str) -> str:
    shifted = graph.add("Sub", value, graph.constant(f"{name}.mean", _array(normalizer.mean)))
    scaled = graph.add("Div", shifted, graph.constant(f"{name}.deviation", _array(normalizer.deviation())))
    return graph.add("Clip", scaled, min=-LIMIT, max=LIMIT)


def _joined(graph: GraphBuilder, values: list[str]) -> str:
    return values[0] if len(values) == 1 else graph.add("Concat", *values, axis=1)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return np.asarray(tensor.detach().cpu().numpy(), np.float32)
