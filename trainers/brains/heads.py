"""The action outputs as ONNX nodes."""

from __future__ import annotations

import numpy as np

from ..distributions import BLOCKED_LOGIT, ENGINE_RANGE, LOG_SIGMA_RANGE
from ..networks.heads import ActionHead
from .graph import BATCH, INT64, GraphBuilder
from .nodes import array, dense, one_minus, sliced


def actions(graph: GraphBuilder, head: ActionHead, encoding: str, action_masks: str) -> None:
    """All action outputs, sampled and deterministic, in the order of the contract."""
    size = head.continuous_size
    shown = size + sum(head.branches.sizes)
    if size:
        mu = dense(graph, "actions.mu", head.weight[:, :size], head.bias[:size], encoding)
        _continuous(graph, head, mu, _sigma(graph, head, encoding, shown))
    if head.branches.sizes:
        logits = dense(graph, "actions.logits", head.weight[:, size:shown], head.bias[size:shown], encoding)
        _discrete(graph, logits, head.branches.sizes, action_masks)


def _sigma(graph: GraphBuilder, head: ActionHead, encoding: str, shown: int) -> str:
    """[1, A], or [batch, A] where it depends on the state."""
    if not head.sigma_of_state:
        return graph.constant("actions.sigma", array(head.log_sigma.exp()).reshape(1, -1))
    low, high = LOG_SIGMA_RANGE
    raw = dense(graph, "actions.log_sigma", head.weight[:, shown:], head.bias[shown:], encoding)
    return graph.add("Exp", graph.add("Clip", raw, min=low, max=high))


def _continuous(graph: GraphBuilder, head: ActionHead, mu: str, sigma: str) -> None:
    noise = graph.add("RandomNormalLike", mu, dtype=1)
    sampled = graph.add("Add", mu, graph.add("Mul", noise, sigma))
    _to_engine(graph, head, sampled, "continuous_actions")
    size = np.array([head.continuous_size], np.float32)
    graph.constant_output("continuous_action_output_shape", size)
    _to_engine(graph, head, mu, "deterministic_continuous_actions")


def _to_engine(graph: GraphBuilder, head: ActionHead, value: str, name: str) -> None:
    if head.squashed:
        graph.add("Tanh", value, name=name)
    else:
        clipped = graph.add("Clip", value, min=-ENGINE_RANGE, max=ENGINE_RANGE)
        graph.add("Div", clipped, graph.scalar(ENGINE_RANGE), name=name)
    graph.output(name, [BATCH, head.continuous_size])


def _discrete(graph: GraphBuilder, logits: str, sizes: tuple[int, ...], action_masks: str) -> None:
    penalty = graph.add("Mul", one_minus(graph, action_masks), graph.scalar(-BLOCKED_LOGIT))
    masked = graph.add("Sub", graph.add("Mul", logits, action_masks), penalty)
    sampled, likeliest, start = [], [], 0
    for size in sizes:
        branch = sliced(graph, masked, 1, start, start + size)
        probabilities = graph.add("Softmax", branch, axis=1)
        sampled.append(graph.add("Multinomial", graph.add("Log", probabilities), dtype=INT64, sample_size=1))
        likeliest.append(graph.add("ArgMax", probabilities, axis=1, keepdims=1))
        start += size
    graph.add("Concat", *sampled, axis=1, name="discrete_actions")
    graph.output("discrete_actions", [BATCH, len(sizes)], INT64)
    graph.constant_output("discrete_action_output_shape", np.array([sizes], np.float32))
    graph.add("Concat", *likeliest, axis=1, name="deterministic_discrete_actions")
    graph.output("deterministic_discrete_actions", [BATCH, len(sizes)], INT64)
