"""The hidden layers, the memory and the action outputs of a network as ONNX nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...networks.modules.body import Body, DenseStack
from ...networks.modules.distributions import BLOCKED_LOGIT, LOG_SIGMA_RANGE
from ...networks.modules.heads import VARIANCE_FLOOR, Head
from ...networks.modules.hypernetwork import HyperLayer
from ...networks.modules.memory import Memory
from ...settings.models.networks import Activation, MemoryType
from .graph import (
    BATCH,
    INT64,
    GraphBuilder,
    activation,
    array,
    concat,
    dense,
    layer_norm,
    one_minus,
    reshape,
    slice_axis,
    transpose,
)


def body(graph: GraphBuilder, network: Body, stream: int, value: str) -> str:
    """One stream of a body."""
    encoding = value
    if network.residual:
        value = _layer(graph, network, stream, 0, value)
        for k in range(1, len(network.layers), 2):
            hidden = _layer(graph, network, stream, k, layer_norm(graph, value, 1))
            hidden = activation(graph, network.activation, hidden)
            value = graph.add("Add", value, _layer(graph, network, stream, k + 1, hidden))
        return layer_norm(graph, value, 1)
    for i in range(len(network.layers)):
        value = _after(graph, network, _layer(graph, network, stream, i, value))
    if network.conditioned is None:
        return value
    return _after(graph, network, _conditioned(graph, network.conditioned, stream, value, encoding))


def _layer(graph: GraphBuilder, network: Body, stream: int, index: int, value: str) -> str:
    layer = network.layers[index]
    assert isinstance(layer, DenseStack)
    return dense(graph, f"body.{index}", layer.weight[stream], layer.bias[stream, 0], value)


def _after(graph: GraphBuilder, network: Body, value: str) -> str:
    if network.layer_norm:
        value = layer_norm(graph, value, 1)
    return activation(graph, network.activation, value)


def _conditioned(graph: GraphBuilder, layer: HyperLayer, stream: int, value: str, encoding: str) -> str:
    """The layer whose weights are made from the goals in `encoding`."""
    goals = [slice_axis(graph, encoding, 1, columns.start, columns.stop) for columns in layer.goal_columns]
    hidden = concat(graph, goals)
    for i, inner in enumerate((layer.first, layer.second)):
        hidden = dense(graph, f"goal.{i}", inner.weight[stream], inner.bias[stream, 0], hidden)
        hidden = activation(graph, Activation.SWISH, hidden)
    hidden, last = layer_norm(graph, hidden, 1), layer.weights
    made = dense(graph, "goal.weights", last.weight[stream], last.bias[stream, 0], hidden)
    weights = reshape(graph, made, [-1, layer.in_features, layer.out_features])
    product = graph.add("MatMul", graph.add("Unsqueeze", value, axes=[1]), weights)
    bias = graph.constant("goal.bias", array(layer.bias[stream, 0]))
    return graph.add("Add", graph.add("Squeeze", product, axes=[1]), bias)


_SWAPPED = [1, 0, 2]
"""The permutation that swaps agents and time, the first two axes."""


def memory(graph: GraphBuilder, network: Memory, value: str, states: str) -> tuple[str, str]:
    """One step of a recurrent memory: its outputs [batch, output size], and the new states.

    `states`, before and after, are [batch, 1, size], as engines keep them.
    """
    if network.kind is MemoryType.LSTM:
        return _lstm(graph, network, value, states)
    return _gru(graph, network, value, states)


def _lstm(graph: GraphBuilder, network: Memory, value: str, states: str) -> tuple[str, str]:
    hidden = network.output_size
    sequence = transpose(graph, reshape(graph, value, [-1, 1, network.weight_ih.shape[1]]), _SWAPPED)
    before = transpose(graph, states, _SWAPPED)
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
        slice_axis(graph, before, 2, 0, hidden),
        slice_axis(graph, before, 2, hidden, 2 * hidden),
        outputs=outputs,
        hidden_size=hidden,
    )
    output = transpose(graph, graph.add("Squeeze", outputs[0], axes=[1]), _SWAPPED)
    after = transpose(graph, graph.add("Concat", *outputs[1:], axis=2), _SWAPPED, name="recurrent_out")
    return reshape(graph, output, [-1, hidden]), after


def _onnx_gates(stacked: Tensor) -> NDArray[np.float32]:
    """Bring an LSTM's gates from torch's order (input, forget, cell, output) to ONNX's (i, o, f, c)."""
    i, f, c, o = np.split(array(stacked), 4)
    return np.concatenate([i, o, f, c])


def _gru(graph: GraphBuilder, network: Memory, value: str, states: str) -> tuple[str, str]:
    """One step of a GRU as elementary operations, since engines do not import ONNX's GRU."""
    hidden = network.output_size
    before = reshape(graph, states, [-1, hidden])
    of_input = dense(graph, "memory.input", network.weight_ih.T, network.bias_ih, value)
    of_state = dense(graph, "memory.state", network.weight_hh.T, network.bias_hh, before)

    def gate(columns: str, index: int) -> str:
        return slice_axis(graph, columns, 1, index * hidden, (index + 1) * hidden)

    reset, update = (
        graph.add("Sigmoid", graph.add("Add", gate(of_input, k), gate(of_state, k))) for k in (0, 1)
    )
    new = graph.add("Tanh", graph.add("Add", gate(of_input, 2), graph.add("Mul", reset, gate(of_state, 2))))
    # (1 - update) new + update before
    output = graph.add("Add", new, graph.add("Mul", update, graph.add("Sub", before, new)))
    return output, reshape(graph, output, [-1, 1, hidden], name="recurrent_out")


def actions(graph: GraphBuilder, head: Head, encoding: str, action_masks: str) -> None:
    """All action outputs, sampled and deterministic, in the order of the interface.

    Both kinds are identical for a greedy policy: engines read the sampled ones by default.
    """
    weight, bias = head.acting_layer()
    size = head.continuous_size
    shown = size + sum(head.branches.sizes)
    if size:
        mu = dense(graph, "actions.mu", weight[:, :size], bias[:size], encoding)
        sampled = mu if head.greedy else _sampled(graph, mu, _sigma(graph, head, encoding, shown))
        _continuous(graph, head, mu, sampled)
    if head.branches.sizes:
        logits = dense(graph, "actions.logits", weight[:, size:shown], bias[size:shown], encoding)
        _discrete(graph, _masked(graph, logits, action_masks), head.branches.sizes, greedy=head.greedy)


def _sigma(graph: GraphBuilder, head: Head, encoding: str, shown: int) -> str:
    """The deviations [1, A], or [batch, A] where they depend on the state."""
    if head.exploration is not None:
        return feature_sigma(graph, head, encoding)
    if not head.sigma_of_state:
        return graph.constant("actions.sigma", array(head.log_sigma.exp()).reshape(1, -1))
    raw = dense(graph, "actions.log_sigma", head.weight[:, shown:], head.bias[shown:], encoding)
    return graph.add("Exp", clamp_log_sigma(graph, raw))


def feature_sigma(graph: GraphBuilder, head: Head, encoding: str) -> str:
    """The deviations [batch, A] of a head with `exploration`, from the features."""
    variances = (2.0 * head.log_sigma).exp()
    floor = variances.new_full((head.continuous_size,), VARIANCE_FLOOR)
    squares = graph.add("Mul", encoding, encoding)
    return graph.add("Sqrt", dense(graph, "actions.variance", variances, floor, squares))


def clamp_log_sigma(graph: GraphBuilder, raw: str) -> str:
    """Clamp log sigmas as `networks.modules.distributions.clamp_log_sigma` does."""
    low, high = LOG_SIGMA_RANGE
    return graph.add("Clip", raw, min=low, max=high)


def _sampled(graph: GraphBuilder, mu: str, sigma: str) -> str:
    return graph.add("Add", mu, graph.add("Mul", graph.add("RandomNormalLike", mu, dtype=1), sigma))


def _continuous(graph: GraphBuilder, head: Head, mu: str, sampled: str) -> None:
    size = head.continuous_size
    graph.output(to_engine(graph, head, sampled, "continuous_actions"), [BATCH, size])
    graph.constant_output("continuous_action_output_shape", np.array([size], np.float32))
    graph.output(to_engine(graph, head, mu, "deterministic_continuous_actions"), [BATCH, size])


def to_engine(graph: GraphBuilder, head: Head, value: str, name: str | None = None) -> str:
    """Means or samples [batch, n] as engines take them, -1 to 1."""
    if head.squashed:
        return graph.add("Tanh", value, name=name)
    clipped = graph.add("Clip", value, min=-head.action_range, max=head.action_range)
    return graph.add("Div", clipped, graph.scalar(head.action_range), name=name)


def _masked(graph: GraphBuilder, logits: str, action_masks: str) -> str:
    penalty = graph.add("Mul", one_minus(graph, action_masks), graph.scalar(-BLOCKED_LOGIT))
    return graph.add("Sub", graph.add("Mul", logits, action_masks), penalty)


def _discrete(graph: GraphBuilder, masked: str, sizes: tuple[int, ...], *, greedy: bool) -> None:
    chosen, likeliest, start = [], [], 0
    for size in sizes:
        branch = slice_axis(graph, masked, 1, start, start + size)
        # Action values are compared directly: a softmax would round close ones to equal ones.
        weights = branch if greedy else graph.add("Softmax", branch, axis=1)
        chosen.append(_best(graph, weights) if greedy else _sample(graph, weights))
        likeliest.append(_best(graph, weights))
        start += size
    graph.add("Concat", *chosen, axis=1, name="discrete_actions")
    graph.output("discrete_actions", [BATCH, len(sizes)], INT64)
    graph.constant_output("discrete_action_output_shape", np.array([sizes], np.float32))
    graph.add("Concat", *likeliest, axis=1, name="deterministic_discrete_actions")
    graph.output("deterministic_discrete_actions", [BATCH, len(sizes)], INT64)


def _sample(graph: GraphBuilder, probabilities: str) -> str:
    return graph.add("Multinomial", graph.add("Log", probabilities), dtype=INT64, sample_size=1)


def _best(graph: GraphBuilder, weights: str) -> str:
    return graph.add("ArgMax", weights, axis=1, keepdims=1)
