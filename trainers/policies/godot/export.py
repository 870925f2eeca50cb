"""Exports a network as a brain that plays in GDScript, after verifying it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...networks.actor import ActingNetwork
from ...utils.atomic_files import atomic_write_bytes
from ..onnx.graph import BrainVerificationError
from ..onnx.verify import BATCHES, STEPS, agree, random_observations
from .player import Floats, columns
from .program import build_program
from .resource import GodotBrain


@torch.no_grad()
def export_godot(
    network: ActingNetwork, path: str | os.PathLike[str], *, behavior: str, step: int = 0
) -> None:
    """Write the actor of `network` to `path` as a resource of Godot (.tres).

    Args:
        network: copied first: a trainer may keep changing it.
        path: replaced atomically, or unchanged if anything fails.
        behavior: the behavior's name.
        step: how many agent steps the policy was trained for.

    Raises:
        BrainVerificationError: the player does not know all parts of the network, or the file would not act
            as the network does.
        OSError: the file cannot be written.
    """
    snapshot = copy.deepcopy(network).cpu()
    text = build_program(snapshot, behavior=behavior, step=step).to_text()
    verify(text, snapshot)
    atomic_write_bytes(path, text.encode())


@torch.no_grad()
def verify(text: str, network: ActingNetwork) -> None:
    """Check that the file's text gives the columns of the network's head, and its memory's states.

    Raises:
        BrainVerificationError: it does not.
    """
    brain = GodotBrain.from_text(text)
    if not np.isfinite(brain.weights).all():
        raise BrainVerificationError(
            f"The brain of '{brain.behavior}' has weights that are not finite: training has diverged. "
            "Go back to an earlier checkpoint and lower the learning rate."
        )
    random = np.random.default_rng(0)
    for batch in BATCHES:
        state = random.uniform(-1.0, 1.0, (batch, network.memory_size)).astype(np.float32)
        for _ in range(STEPS if network.memory_size else 1):
            obs = random_observations(network, batch, random)
            wanted = _expected(network, obs, state)
            results = zip(("the network's outputs", "what it remembers"), columns(brain, obs, state), wanted)
            for index, (what, found, expected) in enumerate(results):
                _compare(brain.behavior, what, found, expected, partial(_rounding, network, index))
            state = wanted[1].numpy()


def _rounding(network: ActingNetwork, index: int) -> NDArray[Any]:
    """[size] the error of one of the results of `_expected`, at most, over a batch of random inputs."""
    random, batch = np.random.default_rng(0), BATCHES[-1]
    obs = random_observations(network, batch, random)
    state = random.uniform(-1.0, 1.0, (batch, network.memory_size)).astype(np.float32)
    exact = _expected(copy.deepcopy(network).double(), obs, state, torch.float64)[index]
    return np.asarray((_expected(network, obs, state)[index] - exact).abs().amax(0))


def _expected(
    network: ActingNetwork, given: list[Floats], state: Floats, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    obs = [torch.from_numpy(rows).to(dtype) for rows in given]
    after = torch.from_numpy(state).to(dtype)
    if network.memory_size:
        distribution, after = network.act_with_memory(network.prepare(obs), after)
    else:
        distribution = network.act(network.prepare(obs))
    mu, logits = distribution.mu, distribution.logits
    return torch.cat([mu, logits, distribution.log_sigma.expand(len(mu), -1)], 1), after


def _compare(
    behavior: str, what: str, found: Floats, wanted: Tensor, rounding: Callable[[], NDArray[Any]]
) -> None:
    expected = wanted.numpy()
    if not agree(found, expected, rounding):
        wrong = np.abs(found - expected)
        raise BrainVerificationError(
            f"The brain of '{behavior}' and the network differ by {wrong.max():.3g} in {what}."
        )
