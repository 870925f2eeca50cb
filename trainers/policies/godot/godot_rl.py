"""ONNX files for the plugin godot_rl_agents, whose interface is not that of Unity's packages.

The plugin feeds one agent at a time: each observation by its name as [1, n], and `state_ins` [1], a dummy. It
reads `state_outs` and `output` [1, k], whose k has to be in the file: for each action in the order of its
names n logits, or n means and n log deviations. Where all actions are continuous it takes a k of their sizes'
sum for means alone. It samples choices, and takes continuous actions from the means.
"""

from __future__ import annotations

import copy
import json
import math
import os
from dataclasses import asdict

import numpy as np
import torch
from onnx import ModelProto
from torch import Tensor

from ...._version import __version__
from ....envs.named_actions import NamedAction, actions_of
from ...networks.actor import ActingNetwork
from ...networks.modules.distributions import ActionDistribution
from ...networks.modules.heads import Head
from ...networks.observation_kinds import ObservationKind, observation_kind
from ...utils.atomic_files import atomic_write_bytes
from ..onnx import layers
from ..onnx.encoders import encode
from ..onnx.export import require_exportable
from ..onnx.graph import (
    BATCH,
    BrainVerificationError,
    GraphBuilder,
    array,
    concat,
    dense,
    reshape,
    slice_axis,
)
from ..onnx.verify import ABSOLUTE, RELATIVE, load_session, random_observations

ROWS = 64
"""The number of agents whose observations are compared."""
RESERVED = ("state_ins", "state_outs", "output")
GREEDY_SCALE = 2.0**20
"""The factor of a greedy policy's values, so that sampling in proportion to exp(value) takes the greatest."""


@torch.no_grad()
def export_godot_rl(
    network: ActingNetwork, path: str | os.PathLike[str], *, behavior: str, step: int = 0
) -> None:
    """Write the actor of `network` to `path` as ONNX for the plugin; arguments as of `export_brain`.

    Raises:
        BrainVerificationError: the plugin cannot feed such a network, or the file would not act as it does.
        OSError: the file cannot be written.
    """
    snapshot = copy.deepcopy(network).cpu()
    require_exportable(snapshot, behavior)
    model = build_godot_rl(snapshot, behavior=behavior, step=step)
    verify_godot_rl(model, snapshot)
    atomic_write_bytes(path, model.SerializeToString(deterministic=True))


@torch.no_grad()
def build_godot_rl(network: ActingNetwork, *, behavior: str, step: int = 0) -> ModelProto:
    """The model, not yet verified.

    Raises:
        BrainVerificationError: the plugin cannot feed such a network.
    """
    refused = not_fed(network)
    if refused:
        raise BrainVerificationError(
            f"The network of '{behavior}' cannot be played by the plugin godot_rl_agents: "
            f"{'; '.join(refused)}."
        )
    graph = GraphBuilder(behavior)
    observations = []
    for spec in network.spec.observation_specs:
        flat = graph.input(str(spec.name), math.prod(spec.shape))
        observations.append(reshape(graph, flat, [-1, *map(int, spec.shape)]) if spec.shape[1:] else flat)
    state = graph.input("state_ins")
    encoding = layers.body(graph, network.body, 0, encode(graph, network.encoder, observations))
    actions = actions_of(network.spec.action_spec)
    columns = _columns(graph, network.actions, actions, encoding)
    width = sum(action.size * (1 if action.discrete or _means_only(actions) else 2) for action in actions)
    graph.output(graph.add("Identity", columns, name="output"), [BATCH, width])
    graph.output(graph.add("Identity", state, name="state_outs"), [BATCH])
    described = json.dumps([asdict(action) for action in actions])
    metadata = {"behavior": behavior, "step": str(step), "actions": described}
    return graph.build("lanista", __version__, metadata)


def not_fed(network: ActingNetwork) -> list[str]:
    """Why the plugin cannot feed the network; empty if it can."""
    specs = network.spec.observation_specs
    names = [str(spec.name) for spec in specs]
    reasons = [
        f"observation '{spec.name}' is an image, which the plugin does not hand to its ONNX runtime"
        for spec in specs
        if observation_kind(spec, any_shape=True) is ObservationKind.VISUAL
    ]
    if network.memory_size:
        reasons.append("it has a memory, and the plugin keeps no recurrent state (`--godot` does)")
    reasons += [
        f"two observations are called '{name}', and the plugin feeds them by name"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    reasons += [
        f"an observation is called '{name}', a name of the plugin's own" for name in names if name in RESERVED
    ]
    return reasons


def _means_only(actions: tuple[NamedAction, ...]) -> bool:
    return not any(action.discrete for action in actions)


def _columns(graph: GraphBuilder, head: Head, actions: tuple[NamedAction, ...], encoding: str) -> str:
    """The output [batch, k] in the plugin's order."""
    weight, bias = head.acting_layer()
    choices = head.continuous_size
    sigmas = choices + sum(head.branches.sizes)
    component, parts = 0, []
    own_log_sigma = None
    if head.exploration is not None and not _means_only(actions):
        own_log_sigma = graph.add("Log", layers.feature_sigma(graph, head, encoding))

    def product(start: int, size: int) -> str:
        end = start + size
        return dense(graph, "actions", weight[:, start:end], bias[start:end], encoding)

    for action in actions:
        if action.discrete:
            logits = product(choices, action.size)
            parts.append(graph.add("Mul", logits, graph.scalar(GREEDY_SCALE)) if head.greedy else logits)
            choices += action.size
            continue
        mean = product(component, action.size)
        parts.append(layers.to_engine(graph, head, mean))
        if not _means_only(actions):
            end = component + action.size
            if own_log_sigma is not None:
                parts.append(slice_axis(graph, own_log_sigma, 1, component, end))
            else:
                raw = product(sigmas + component, action.size) if head.sigma_of_state else None
                parts.append(_log_sigma(graph, head, slice(component, end), mean, raw))
        component += action.size
    return concat(graph, parts)


def _log_sigma(graph: GraphBuilder, head: Head, components: slice, mean: str, raw: str | None) -> str:
    """The log deviations [batch, n] of these components; `raw` if they depend on the state, not clamped."""
    if raw is not None:
        return layers.clamp_log_sigma(graph, raw)
    zeros = graph.add("Mul", mean, graph.scalar(0.0))
    return graph.add("Add", zeros, graph.constant("actions.log_sigma", array(head.log_sigma[components])))


@torch.no_grad()
def verify_godot_rl(model: ModelProto, network: ActingNetwork) -> None:
    """Check that `model` gives what the plugin reads, fed as the plugin feeds it.

    Raises:
        BrainVerificationError: it does not.
    """
    name, session = model.graph.name, load_session(model)
    obs = random_observations(network, ROWS, np.random.default_rng(0))
    distribution = network.act(network.prepare(list(map(torch.from_numpy, obs))))
    scale = GREEDY_SCALE if network.actions.greedy and network.actions.branches.sizes else 1.0
    expected = _expected(distribution, actions_of(network.spec.action_spec)).numpy()
    names = [str(spec.name) for spec in network.spec.observation_specs]
    ones = np.ones(1, np.float32)
    for row, wanted in enumerate(expected):
        fed = {key: rows[row].reshape(1, -1) for key, rows in zip(names, obs)}
        output, state = session.run(["output", "state_outs"], {**fed, "state_ins": ones})
        wrong = np.abs(output / scale - wanted[None])
        fits = output.shape == (1, len(wanted)) and (wrong <= ABSOLUTE + RELATIVE * np.abs(wanted)).all()
        if not fits or not np.array_equal(state, ones):
            raise BrainVerificationError(
                f"The brain of '{name}' and the network differ by {wrong.max():.3g} in what they give."
            )


def _expected(distribution: ActionDistribution, actions: tuple[NamedAction, ...]) -> Tensor:
    """The output [rows, k] in the plugin's order; the values of a greedy policy unscaled."""
    means = distribution.to_engine(distribution.squash(distribution.mu))
    log_sigma = distribution.log_sigma.expand(len(means), -1)
    component, choice, parts = 0, 0, []
    for action in actions:
        if action.discrete:
            parts.append(distribution.logits[:, choice : choice + action.size])
            choice += action.size
            continue
        components = slice(component, component + action.size)
        parts += (
            [means[:, components]]
            if _means_only(actions)
            else [means[:, components], log_sigma[:, components]]
        )
        component += action.size
    return torch.cat(parts, 1)
