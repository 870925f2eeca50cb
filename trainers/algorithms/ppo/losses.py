"""The terms of PPO's objective (Schulman et al. 2017, arXiv 1707.06347) as ML-Agents weighs them.

The probability ratio is taken per component of the action (each continuous dimension, each branch), unless
`ratio: joint` says of the whole action: hyperparameters of existing projects are tuned to components
(docs/algorithms/ppo.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ...buffers.rollout_buffer import PolicySteps, RolloutBatch
from ...networks.actor import ActingNetwork
from ...networks.modules.distributions import ActionDistribution, Actions
from ...networks.observations import to_tensors
from ...settings.models.algorithms import ProbabilityRatio

CHUNK = 4096
"""The number of rows of a forward pass."""
LARGEST_WEIGHT = 2.0
"""The greatest weight q(a) / b(a): those of unlikely actions would otherwise outweigh all others."""

AnyPolicySteps = TypeVar("AnyPolicySteps", bound=PolicySteps)


def masked_mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the rows (first axis) that `mask` [B] admits, and over all other axes of them.

    At least one entry is assumed in the denominator, so that no valid row gives 0.
    """
    if mask is None:
        return x.mean()
    if x.ndim == 0:
        return x * mask.any()
    weight = mask.to(x.dtype).reshape(-1, *([1] * (x.ndim - 1)))
    per_row = x.numel() // max(x.shape[0], 1)
    return (x * weight).sum() / torch.clamp(weight.sum() * per_row, min=1.0)


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, epsilon: float | Tensor, mask: Tensor | None = None
) -> Tensor:
    """L^CLIP, equation 7: the mean of min(ratio A, clip(ratio, 1 - epsilon, 1 + epsilon) A).

    Args:
        ratio: [B, components], the probabilities of the recorded actions now over those when they were taken.
        advantages: [B, 1], normalized over the rollout buffer, or [B, components].
        epsilon: clipping range of the ratio.
        mask: [B], rows that count; None counts all.
    """
    least: Any = 1.0 - epsilon
    greatest: Any = 1.0 + epsilon
    clipped = torch.clamp(ratio, least, greatest)
    return masked_mean(torch.minimum(ratio * advantages, clipped * advantages), mask)


def clipped_value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, epsilon: float | Tensor, mask: Tensor | None = None
) -> Tensor:
    """max((R - V)^2, (R - V_clip)^2) with V_clip within epsilon of V_old; mean over rows and signals.

    Args:
        values, old_values, returns: [B, signals].
        epsilon: how far the value may move before the clipped error counts; a Tensor is [signals].
        mask: [B], rows that count.
    """
    limit = torch.as_tensor(epsilon, dtype=values.dtype, device=values.device)
    clipped = old_values + torch.clamp(values - old_values, -limit, limit)
    return masked_mean(torch.maximum((returns - values) ** 2, (returns - clipped) ** 2), mask)


def log_ratios(distribution: ActionDistribution, batch: RolloutBatch, kind: ProbabilityRatio) -> Tensor:
    """Ln p(a) - ln p_old(a) of each row: [B, components], or [B, 1] of the whole action."""
    log_ratio = distribution.log_probs(batch.actions) - batch.old_log_probs
    return log_ratio.sum(1, keepdim=True) if kind is ProbabilityRatio.JOINT else log_ratio


@torch.no_grad()
def ratio_statistics(
    log_ratio: Tensor, ratio: Tensor, epsilon: float | Tensor, mask: Tensor | None = None
) -> Tensor:
    """How far the policy has moved since the actions were taken; arguments: see `clipped_surrogate`.

    Returns:
        [2] the approximate KL divergence, mean of (ratio - 1) - ln ratio (Schulman 2020, "Approximating KL
        divergence", estimator k3), and the fraction of ratios that lie outside of the clipping range.
    """
    approx_kl = masked_mean((ratio - 1.0) - log_ratio, mask)
    clip_fraction = masked_mean(((ratio - 1.0).abs() > epsilon).float(), mask)
    return torch.stack((approx_kl, clip_fraction))


@torch.no_grad()
def as_of_newest_policy(
    steps: AnyPolicySteps, network: ActingNetwork, device: torch.device, sequence_length: int
) -> AnyPolicySteps:
    """The steps with the newest policy's log-probabilities, and the weights q(a) / b(a).

    A clipped objective needs a policy for two purposes: the one that acted, to weigh its actions, and the one
    that the new policy is to stay near. If an update has come in between, these are two: b has acted, and q
    is the newest (Hilton, Cobbe and Schulman 2022, "Batch size-invariance for policy optimization",
    arXiv 2110.00641):

        q(a) / b(a) * min(r A, clip(r, 1 - epsilon, 1 + epsilon) A),   r = p(a) / q(a)

    If the new policy p had to stay near b, an update could only go on where the one before has not yet
    reached the limit, and two would learn little more than one.

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
