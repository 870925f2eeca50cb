"""Exports a network as a brain, an ONNX file."""

from __future__ import annotations

import copy
import os

import numpy as np
import torch
from onnx import ModelProto

from ...._version import __version__
from ...networks.actor import ActingNetwork
from ...networks.custom import not_exportable
from ...utils.atomic_files import atomic_write_bytes
from . import layers
from .encoders import encode
from .graph import BATCH, BrainVerificationError, GraphBuilder
from .verify import verify

VERSION_NUMBER = 3.0
"""The version of the interface that Unity's ML-Agents packages since 2.0 read."""


@torch.no_grad()
def export_brain(
    network: ActingNetwork,
    path: str | os.PathLike[str],
    *,
    behavior: str,
    step: int = 0,
    reward: float | None = None,
) -> None:
    """Write the actor of `network` to `path` as ONNX, after verifying that it acts as the network does.

    Args:
        network: copied first: a trainer may keep changing it.
        path: replaced atomically, or unchanged if anything fails.
        behavior: the behavior's name; stored in the file's metadata with `step` and `reward`.
        step: how many agent steps the policy was trained for.
        reward: its mean cumulative reward, if any episode ended.

    Raises:
        BrainVerificationError: the file would not act as the network does, or not be imported by an engine.
        OSError: the file cannot be written.
    """
    model = _verified_brain(network, behavior=behavior, step=step, reward=reward)
    atomic_write_bytes(path, model.SerializeToString(deterministic=True))


@torch.no_grad()
def try_export(network: ActingNetwork, behavior: str) -> None:
    """Do as `export_brain` does, and raise as it does, but write nothing."""
    _verified_brain(network, behavior=behavior, step=0, reward=None)


def _verified_brain(network: ActingNetwork, *, behavior: str, step: int, reward: float | None) -> ModelProto:
    snapshot = copy.deepcopy(network).cpu()
    require_exportable(snapshot, behavior)
    model = build_brain(snapshot, behavior=behavior, step=step, reward=reward)
    verify(model, snapshot)
    return model


def require_exportable(network: ActingNetwork, behavior: str) -> None:
    """Refuse a network with custom parts that cannot write themselves as ONNX.

    Raises:
        BrainVerificationError: it has some.
    """
    refused = not_exportable(network)
    if refused:
        raise BrainVerificationError(
            f"The network of '{behavior}' has parts that cannot be exported to ONNX: {', '.join(refused)} "
            "has no method export(graph, inputs). See docs/extending.md."
        )


@torch.no_grad()
def build_brain(
    network: ActingNetwork, *, behavior: str, step: int = 0, reward: float | None = None
) -> ModelProto:
    """The actor of `network` as an ONNX model, not yet verified. See docs/brains.md for the interface."""
    graph = GraphBuilder(behavior)
    specs = network.spec.observation_specs
    # Unity refuses a brain that lacks the input of a sensor, also of one that only the critic reads.
    observations = [graph.input(f"obs_{i}", *spec.shape) for i, spec in enumerate(specs)]
    branches = network.spec.action_spec.discrete_branches
    masks = graph.input("action_masks", sum(branches)) if branches else ""
    encoding = layers.body(graph, network.body, 0, encode(graph, network.encoder, observations))
    after = None
    if network.memory_size:
        before = graph.input("recurrent_in", 1, network.memory_size)
        encoding, after = layers.memory(graph, network.memory(0), encoding, before)
    graph.constant_output("version_number", np.array([VERSION_NUMBER], np.float32))
    graph.constant_output("memory_size", np.array([network.memory_size], np.float32))
    layers.actions(graph, network.actions, encoding, masks)
    if after is not None:
        graph.output(after, [BATCH, 1, network.memory_size])
    metadata = {"behavior": behavior, "step": str(step)}
    if reward is not None:
        metadata["reward"] = repr(float(reward))
    return graph.build("lanista", __version__, metadata)
