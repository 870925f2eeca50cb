"""The losses of PPO (Schulman et al. 2017, arXiv 1707.06347) as ML-Agents weighs them.

The probability ratio is taken per component of the action (each continuous dimension, each branch), not for
the whole action: hyper-parameters of existing projects are tuned to that (docs/algorithms.md, "PPO").
"""

from typing import Any, NamedTuple

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


def _row_weights(rows: int, mask: Tensor | None, like: Tensor) -> Tensor:
    """What each row counts in a mean over valid rows: [B, 1], or [1, 1] where all count the same."""
    if mask is None:
        return like.new_full((1, 1), 1.0 / max(rows, 1))
    weight = mask.to(like.dtype).reshape(-1, 1)
    return weight / torch.clamp(weight.sum(), min=1.0)


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


class _Surrogate(torch.autograd.Function):
    """Policy loss, squared value error and entropy bonus, with their gradient in closed form.

    Minibatches are small, so an update is bound by the number of torch calls: this is a third of the calls
    that automatic differentiation of the same formulas makes. tests/trainers/ppo compares the two.
    """

    @staticmethod
    def forward(
        ctx: Any,
        log_probs: Tensor,
        entropy: Tensor,
        values: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        mask: Tensor | None,
        epsilon: float,
        beta: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        row = _row_weights(len(log_probs), mask, log_probs)
        weight = row / max(log_probs.shape[1], 1)
        ratio = torch.exp(log_probs - old_log_probs)
        plain = ratio * advantages
        clipped = torch.clamp(ratio, 1.0 - epsilon, 1.0 + epsilon) * advantages
        lower = torch.minimum(plain, clipped)
        policy = -(lower * weight).sum()
        error = values - returns
        weighted_error = error * (row / values.shape[1])
        value = (error * weighted_error).sum()
        row_flat = row.squeeze(1)
        total = policy + VALUE_WEIGHT * value - beta * (entropy * row_flat).sum()
        # Where clipping bites, the lower bound does not depend on the ratio; elsewhere its slope is itself.
        d_log_probs = torch.where(plain <= clipped, plain, 0.0) * (-weight)
        d_entropy = (-beta * row_flat).expand_as(entropy)
        ctx.save_for_backward(d_log_probs, d_entropy, weighted_error)
        ctx.mark_non_differentiable(policy, value)
        return total, policy, value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_log_probs, d_entropy, weighted_error = ctx.saved_tensors
        scale = grads[0]
        return (
            d_log_probs * scale,
            d_entropy * scale,
            weighted_error * (2.0 * VALUE_WEIGHT * scale),
            *([None] * 6),
        )


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
    return PPOLosses(
        *_Surrogate.apply(  # type: ignore[no-untyped-call]
            log_probs, entropy, values, old_log_probs, advantages, returns, mask, epsilon, beta
        )
    )


def policy_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, epsilon: float, mask: Tensor | None = None
) -> Tensor:
    """The clipped surrogate alone (arguments as in `ppo_losses`)."""
    nothing = log_probs.new_zeros(len(log_probs))
    column = nothing.unsqueeze(1)
    return ppo_losses(
        log_probs, old_log_probs, advantages, nothing, column, column, epsilon, 0.0, mask
    ).policy
