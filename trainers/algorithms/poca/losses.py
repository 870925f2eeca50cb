"""The losses of POCA: PPO's, and the counterfactual baseline's."""

from typing import NamedTuple

from torch import Tensor

from ..ppo.losses import VALUE_WEIGHT, clipped_value_loss, ppo_losses

BASELINE_WEIGHT = 0.5


class POCALosses(NamedTuple):
    """Scalars of one minibatch."""

    total: Tensor
    """policy + 0.5 * (value + 0.5 * baseline) - beta * entropy; the one to differentiate."""
    policy: Tensor
    value: Tensor
    baseline: Tensor


def poca_losses(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    entropy: Tensor,
    values: Tensor,
    baselines: Tensor,
    old_baselines: Tensor,
    returns: Tensor,
    epsilon: float,
    beta: float,
    mask: Tensor | None = None,
) -> POCALosses:
    """The losses of one minibatch; arguments as of `ppo_losses`, baselines [B, signals].

    The value's clipping never acts, as with PPO; the baseline's does.
    """
    ppo = ppo_losses(log_probs, old_log_probs, advantages, entropy, values, returns, epsilon, beta, mask)
    baseline = clipped_value_loss(baselines, old_baselines, returns, epsilon, mask)
    total = ppo.total + VALUE_WEIGHT * BASELINE_WEIGHT * baseline
    return POCALosses(total, ppo.policy, ppo.value, baseline.detach())
