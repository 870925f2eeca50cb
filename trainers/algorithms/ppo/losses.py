"""The terms of PPO's objective (Schulman et al. 2017, arXiv 1707.06347) as ML-Agents weighs them.

The probability ratio is taken per component of the action (each continuous dimension, each branch), not for
the whole action: hyperparameters of existing projects are tuned to that (docs/algorithms/ppo.md).
"""

from typing import Any

import torch
from torch import Tensor

VALUE_WEIGHT = 0.5
"""Of the value loss in the objective."""


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
