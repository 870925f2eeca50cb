"""The losses of COMA.

Counterfactual advantages.

    A_k(u) = Q_k(u_k) - sum over u' of pi'_k(u') Q_k(u')

for every branch k of an agent's action: how much better the action was than what the agent does on average,
all others acting as they did. Under pi' its expectation is zero, so that the baseline adds no bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
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


class ActionValues(NamedTuple):
    """What a critic says of B agent-steps, [B, signals, branches] each."""

    taken: Tensor
    """Of the actions that were taken."""
    expected: Tensor
    """Of the policy's actions on average."""

    @property
    def advantages(self) -> Tensor:
        """[B, signals, branches]."""
        return self.taken - self.expected


def action_values(
    values: Tensor, probabilities: Tensor, actions: Tensor, branches: Sequence[int]
) -> ActionValues:
    """Compare what was done with what is done on average.

    Args:
        values: [B, signals, sum of branch sizes].
        probabilities: [B, sum of branch sizes], of pi'.
        actions: [B, branches] int64.
        branches: their sizes.
    """
    return ActionValues(of_actions(values, actions, branches), on_average(values, probabilities, branches))


def of_actions(values: Tensor, actions: Tensor, branches: Sequence[int]) -> Tensor:
    """The values [B, signals, sum b] of these actions [B, branches]: [B, signals, branches]."""
    sizes = torch.tensor(branches, device=values.device)
    columns = actions + (torch.cumsum(sizes, 0) - sizes)
    return values.gather(2, columns.unsqueeze(1).expand(-1, values.shape[1], -1))


def on_average(values: Tensor, probabilities: Tensor, branches: Sequence[int]) -> Tensor:
    """The values [B, signals, sum b] under the policy [B, sum b]: [B, signals, branches]."""
    weighted = torch.split(values * probabilities.unsqueeze(1), list(branches), dim=2)
    return torch.stack([branch.sum(2) for branch in weighted], 2)
