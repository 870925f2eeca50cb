"""The losses of COMA."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ..ppo.losses import ppo_losses


class COMALosses(NamedTuple):
    """Scalars of one minibatch."""

    total: Tensor
    """policy + 0.5 * value - beta * entropy; the one to differentiate."""
    policy: Tensor
    value: Tensor


def clipped_losses(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    entropy: Tensor,
    values: Tensor,
    targets: Tensor,
    scale: Tensor,
    epsilon: float,
    beta: float,
) -> COMALosses:
    """PPO's losses with an advantage of each branch's own.

    Args:
        log_probs, old_log_probs: [B, branches], ln pi'(u) today and when the actions were taken.
        advantages: [B, branches].
        entropy: [B], of pi'.
        values: [B, signals, branches], of the actions taken.
        targets: [B, signals].
        scale: [signals], the units in which values are learnt.
        epsilon: clipping range of the ratio.
        beta: weight of the entropy bonus.
    """
    units = scale[:, None]
    found = (values / units).flatten(1)
    wanted = (targets.unsqueeze(2) / units).expand_as(values).flatten(1)
    losses = ppo_losses(log_probs, old_log_probs, advantages, entropy, found, wanted, epsilon, beta)
    return COMALosses(losses.total, losses.policy, losses.value)


def critic_loss(values: Tensor, targets: Tensor, scale: Tensor) -> Tensor:
    """Mean squared error in the units in which values are learnt; arguments as of `clipped_losses`."""
    return (((values - targets.unsqueeze(2)) / scale[:, None]) ** 2).mean()


def policy_gradient_loss(log_probs: Tensor, advantages: Tensor, entropy: Tensor, beta: float) -> Tensor:
    """-(sum over branches of ln pi'(u) A) - beta H, mean over the steps; as first published."""
    return -(log_probs * advantages).sum(1).mean() - beta * entropy.mean()
