"""The action outputs as ONNX nodes."""

from __future__ import annotations

import numpy as np

from ..distributions import BLOCKED_LOGIT, ENGINE_RANGE, LOG_SIGMA_RANGE
from ..networks.head_kinds import Head
from .graph import BATCH, INT64, GraphBuilder
from .nodes import array, dense, one_minus, sliced


def actions(graph: GraphBuilder, head: Head, encoding: str, action_masks: str) -> None:
    """All action outputs, sampled and deterministic, in the order of the contract.

    Those of a greedy policy are the same: engines read the sampled ones by default.
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
    """[1, A], or [batch, A] where it depends on the state."""
    if not head.sigma_of_state:
        return graph.constant("actions.sigma", array(head.log_sigma.exp()).reshape(1, -1))
    low, high = LOG_SIGMA_RANGE
    raw = dense(graph, "actions.log_sigma", head.weight[:, shown:], head.bias[shown:], encoding)
    return graph.add("Exp", graph.add("Clip", raw, min=low, max=high))


def _sampled(graph: GraphBuilder, mu: str, sigma: str) -> str:
    return graph.add("Add", mu, graph.add("Mul", graph.add("RandomNormalLike", mu, dtype=1), sigma))


def _continuous(graph: GraphBuilder, head: Head, mu: str, sampled: str) -> None:
    _to_engine(graph, head, sampled, "continuous_actions")
    size = np.array([head.continuous_size], np.float32)
    graph.constant_output("continuous_action_output_shape", size)
    _to_engine(graph, head, mu, "deterministic_continuous_actions")


def _to_engine(graph: GraphBuilder, head: Head, value: str, name: str) -> None:
    if head.squashed:
        graph.add("Tanh", value, name=name)
    else:
        clipped = graph.add("Clip", value, min=-ENGINE_RANGE, max=ENGINE_RANGE)
        graph.add("Div", clipped, graph.scalar(ENGINE_RANGE), name=name)
    graph.output(name, [BATCH, head.continuous_size])


def _masked(graph: GraphBuilder, logits: str, action_masks: str) -> str:
    penalty = graph.add("Mul", one_minus(graph, action_masks), graph.scalar(-BLOCKED_LOGIT))
    return graph.add("Sub", graph.add("Mul", logits, action_masks), penalty)


def _discrete(graph: GraphBuilder, masked: str, sizes: tuple[int, ...], *, greedy: bool) -> None:
    chosen, likeliest, start = [], [], 0
    for size in sizes:
        branch = sliced(graph, masked, 1, start, start + size)
        # Values of actions are compared as they are: a softmax would round close ones to equal.
        weighed = branch if greedy else graph.add("Softmax", branch, axis=1)
        chosen.append(_best(graph, weighed) if greedy else _drawn(graph, weighed))
        likeliest.append(_best(graph, weighed))
        start += size
    graph.add("Concat", *chosen, axis=1, name="discrete_actions")
    graph.output("discrete_actions", [BATCH, len(sizes)], INT64)
    graph.constant_output("discrete_action_output_shape", np.array([sizes], np.float32))
    graph.add("Concat", *likeliest, axis=1, name="deterministic_discrete_actions")
    graph.output("deterministic_discrete_actions", [BATCH, len(sizes)], INT64)


def _drawn(graph: GraphBuilder, probabilities: str) -> str:
    return graph.add("Multinomial", graph.add("Log", probabilities), dtype=INT64, sample_size=1)


def _best(graph: GraphBuilder, weighed: str) -> str:
    return graph.add("ArgMax", weighed, axis=1, keepdims=1)
