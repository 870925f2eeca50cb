"""Counterfactual advantages (Foerster et al. 2018, equation 4):

    A_k(u) = Q_k(u_k) - sum over u' of pi'_k(u') Q_k(u')

for every branch k of an agent's action: how much better the action was than the agent's average action, all
others acting as they did. Under pi' its expectation is zero, so that the baseline adds no bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class ActionValues(NamedTuple):
    """A critic's values at B agent-steps, [B, signals, branches] each."""

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
    """Values of the actions taken and of the average action.

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
