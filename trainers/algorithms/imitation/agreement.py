"""How well a policy predicts an expert's actions."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ...buffers.demonstrations import Demonstrations
from ...networks.modules.distributions import Actions
from ...networks.observations import to_tensors
from .behavioral_cloning import ClonedPolicy

CHUNK = 1024
"""Steps in one forward pass."""

ACTION_ERROR = "Cloning/Held-out Action Error"
"""The mean squared error of continuous actions, as the engine receives them."""
ACCURACY = "Cloning/Held-out Accuracy"
"""The share of discrete actions that the policy finds likeliest too."""


@torch.no_grad()
def agreement(policy: ClonedPolicy, demos: Demonstrations, device: torch.device) -> dict[str, float]:
    """The policy's best actions at every step of some episodes, beside the expert's; by statistics' names."""
    squared, equal = 0.0, 0.0
    for rows, best in _best_actions(policy, demos, device):
        continuous, discrete = to_tensors([demos.continuous[rows], demos.discrete[rows]], device)
        squared += float((best.continuous - continuous.clamp(-1.0, 1.0)).double().square().sum())
        equal += float((best.discrete == discrete).double().sum())
    found = {}
    if demos.continuous.size:
        found[ACTION_ERROR] = squared / demos.continuous.size
    if demos.discrete.size:
        found[ACCURACY] = equal / demos.discrete.size
    return found


def _best_actions(
    policy: ClonedPolicy, demos: Demonstrations, device: torch.device
) -> Iterator[tuple[slice, Actions]]:
    """Rows, and the policy's likeliest actions there, as the engine receives them."""
    size, random = policy.memory_size, torch.Generator().manual_seed(0)
    start = 0
    for length in demos.lengths.tolist() if size else [len(demos)]:
        states: Tensor | None = torch.zeros((1, size), device=device) if size else None
        for first in range(start, start + length, CHUNK):
            rows = slice(first, min(first + CHUNK, start + length))
            inputs = policy.prepare(to_tensors([column[rows] for column in demos.obs], device))
            mask = None if demos.action_mask is None else to_tensors([demos.action_mask[rows]], device)[0]
            together = rows.stop - rows.start if size else 1
            distribution, states = policy(inputs, mask, states, together, random)
            distribution = distribution.widened()
            best = distribution.deterministic()
            yield rows, Actions(distribution.to_engine(best.continuous), best.discrete)
        start += length
