"""Exports a network as a brain that plays in GDScript, after verifying it."""

from __future__ import annotations

import copy
import os

import numpy as np
import torch
from torch import Tensor

from ...networks.actor import ActingNetwork
from ...utils.atomic_files import atomic_write_bytes
from ..onnx.graph import BrainVerificationError
from ..onnx.verify import ABSOLUTE, BATCHES, RELATIVE, STEPS, random_observations
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
            wanted, wanted_state = _expected(network, list(map(torch.from_numpy, obs)), state)
            found, found_state = columns(brain, obs, state)
            _compare(brain.behavior, "the network's outputs", found, wanted)
            _compare(brain.behavior, "what it remembers", found_state, wanted_state)
            state = wanted_state.numpy()


def _expected(network: ActingNetwork, obs: list[Tensor], state: Floats) -> tuple[Tensor, Tensor]:
    after = torch.from_numpy(state)
    if network.memory_size:
        distribution, after = network.act_with_memory(network.prepare(obs), after)
    else:
        distribution = network.act(network.prepare(obs))
    mu, logits = distribution.mu, distribution.logits
    return torch.cat([mu, logits, distribution.log_sigma.expand(len(mu), -1)], 1), after


def _compare(behavior: str, what: str, found: Floats, wanted: Tensor) -> None:
    expected = wanted.numpy()
    wrong = np.abs(found - expected)
    if not (wrong <= ABSOLUTE + RELATIVE * np.abs(expected)).all():
        raise BrainVerificationError(
            f"The brain of '{behavior}' and the network differ by {wrong.max():.3g} in {what}."
        )
