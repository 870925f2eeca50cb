"""The losses of PPO (Schulman et al. 2017, arXiv 1707.06347) as ML-Agents weighs them.

The probability ratio is taken per component of the action (each continuous dimension, each branch), not for
the whole action: hyper-parameters of existing projects are tuned to that (docs/algorithms.md, "PPO").
"""

from typing import NamedTuple

import torch
from torch import Tensor

VALUE_WEIGHT = 0.5


class PPOLosses(NamedTuple):
    """Scalars of one minibatch."""

    total: Tensor
    """policy + 0.5 * value - beta * entropy; the one to differentiate."""
    policy: Tensor
    value: Tensor


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


def clipped_value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, epsilon: float, mask: Tensor | None = None
) -> Tensor:
    """max((R - V)^2, (R - V_clip)^2) with V_clip within epsilon of V_old; mean over rows and signals.

    Args:
        values, old_values, returns: [B, signals].
        epsilon: how far the value may move before the clipped error counts.
        mask: [B], rows that count.
    """
    clipped = old_values + torch.clamp(values - old_values, -epsilon, epsilon)
    return masked_mean(torch.maximum((returns - values) ** 2, (returns - clipped) ** 2), mask)


def ppo_losses(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    entropy: Tensor,
    values: Tensor,
    returns: Tensor,
    epsilon: float,
    beta: float,
    mask: Tensor | None = None,
) -> PPOLosses:
    """The losses of one minibatch.

    Args:
        log_probs, old_log_probs: [B, components], of the recorded actions today and when they were taken.
        advantages: [B, 1], normalised over the update buffer.
        entropy: [B].
        values, returns: [B, signals].
        epsilon: clipping range of the ratio.
        beta: weight of the entropy bonus.
        mask: [B], rows that count; None counts all.
    """
    ratio = torch.exp(log_probs - old_log_probs)
    clipped = torch.clamp(ratio, 1.0 - epsilon, 1.0 + epsilon)
    policy = -masked_mean(torch.minimum(ratio * advantages, clipped * advantages), mask)
    value = masked_mean((returns - values) ** 2, mask)
    total = policy + VALUE_WEIGHT * value - beta * masked_mean(entropy, mask)
    return PPOLosses(total, policy.detach(), value.detach())
