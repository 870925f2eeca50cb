"""Steps of an older policy, as an update of the newest one learns from them.

A clipped objective needs a policy for two purposes: the one that acted, to weigh its actions, and the one
that the new policy is to stay near. If an update has come in between, these are two: b has acted, and q is
the newest (Hilton, Cobbe and Schulman 2022, "Batch size-invariance for policy optimization",
arXiv 2110.00641):

    q(a) / b(a) * min(r A, clip(r, 1 - epsilon, 1 + epsilon) A),   r = p(a) / q(a)

If the new policy p had to stay near b, an update could only go on where the one before has not yet reached
the limit, and two would learn little more than one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ...buffers.rollout_buffer import PolicySteps
from ...networks.actor import ActingNetwork
from ...networks.modules.distributions import Actions
from ...networks.observations import to_tensors

CHUNK = 4096
"""Rows of a forward pass."""
LARGEST_WEIGHT = 2.0
"""Of q(a) / b(a): the weights of unlikely actions would else outweigh all others."""

AnyPolicySteps = TypeVar("AnyPolicySteps", bound=PolicySteps)


@torch.no_grad()
def as_of_newest_policy(
    steps: AnyPolicySteps, network: ActingNetwork, device: torch.device, sequence_length: int
) -> AnyPolicySteps:
    """The steps with the newest policy's log-probabilities, and the weights q(a) / b(a).

    Args:
        steps: with the log-probabilities of the policy that acted.
        network: the newest policy.
        device: of the network.
        sequence_length: of the sequences that the steps consist of; 1 without a memory.
    """
    found: list[Tensor] = []
    size = max(CHUNK // sequence_length, 1) * sequence_length
    for start in range(0, len(steps), size):
        rows = slice(start, start + size)
        inputs = network.prepare(to_tensors([obs[rows] for obs in steps.obs], device))
        mask = None if steps.action_mask is None else torch.from_numpy(steps.action_mask[rows]).to(device)
        if steps.memory is None:
            distribution = network.act(inputs, mask)
        else:
            sequences = slice(start // sequence_length, (start + size) // sequence_length)
            states = torch.from_numpy(steps.memory[sequences]).to(device)
            distribution, _ = network.act_with_memory(inputs, states, sequence_length, mask)
        discrete = torch.from_numpy(steps.discrete[rows].astype(np.int64))
        actions = Actions(torch.from_numpy(steps.continuous[rows]).to(device), discrete.to(device))
        found.append(distribution.log_probs(actions).cpu())
    log_probs = torch.cat(found).numpy()
    ratio = np.exp((log_probs - steps.log_probs).sum(axis=1))
    weights = np.minimum(ratio, LARGEST_WEIGHT)
    return replace(steps, log_probs=log_probs, weights=weights)
