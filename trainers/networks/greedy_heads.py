"""What stands on the body of a policy that does the best it knows: values of actions, or one action."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import ActionSpec
from torch import Tensor, nn

from ..distributions import Branches
from ..greedy import GreedyDistribution
from .heads import MU_GAIN
from .initialization import kaiming_normal_, uniform_by_inputs_


class GreedyHead(nn.Module):
    """What both kinds have in common: how acting and brains look at a head, see `ActionHead`."""

    sigma_of_state = False
    greedy = True
    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, spec: ActionSpec, *, squashed: bool) -> None:
        super().__init__()
        self.continuous_size = spec.continuous_size
        self.branches = Branches(spec.discrete_branches)
        self.squashed = squashed
        self.log_sigma = torch.zeros(0)
        """There is no deviation; not a parameter."""

    @property
    def plain(self) -> bool:
        """Whether the columns are one product with `weight` and `bias`."""
        return True

    def columns(self, encoding: Tensor) -> Tensor:
        """[B, input] -> [B, actions before tanh], or [B, values of the actions of all branches]."""
        return torch.addmm(self.bias, encoding, self.weight)

    def acting_layer(self) -> tuple[Tensor, Tensor]:
        """Weight [input, columns] and bias [columns] of the product that gives `columns`."""
        return self.weight, self.bias

    def distribution(self, columns: Tensor, action_mask: Tensor | None = None) -> GreedyDistribution:
        """What B agents do by their columns; mask as of `ActionHead.forward`."""
        mu, values = columns.tensor_split([self.continuous_size], dim=1)
        return GreedyDistribution(mu, self.log_sigma, values, self.branches, action_mask, self.squashed)

    def forward(self, encoding: Tensor, action_mask: Tensor | None = None) -> GreedyDistribution:
        """[B, input] and a mask -> what B agents do."""
        return self.distribution(self.columns(encoding), action_mask)


class DeterministicHead(GreedyHead):
    """mu(s): the continuous actions themselves, within -1 and 1 by tanh (Lillicrap et al. 2015)."""

    def __init__(self, input_size: int, spec: ActionSpec, generator: torch.Generator | None = None) -> None:
        super().__init__(spec, squashed=True)
        self.weight = nn.Parameter(torch.empty(input_size, self.continuous_size))
        self.bias = nn.Parameter(torch.zeros(self.continuous_size))
        kaiming_normal_(self.weight, input_size, MU_GAIN, generator)


class QHead(GreedyHead):
    """Q(s, a) of every action of every branch, once per reward signal.

    Dueling (Wang et al. 2015, arXiv 1511.06581): Q = V + A - mean A, the mean over the branch's actions, with
    one V for all branches (Tavakoli et al. 2017, arXiv 1711.08946). Agents act by the sum over the signals,
    whose strengths are in the rewards already; and by A alone, since V does not depend on the action.
    """

    def __init__(
        self,
        input_size: int,
        spec: ActionSpec,
        signals: int,
        generator: torch.Generator | None = None,
        *,
        dueling: bool = False,
    ) -> None:
        super().__init__(spec, squashed=False)
        self.signals, self.actions = signals, sum(self.branches.sizes)
        self.weight = nn.Parameter(torch.empty(input_size, signals * self.actions))
        """Columns signal by signal, in each branch by branch."""
        self.bias = nn.Parameter(torch.zeros(signals * self.actions))
        uniform_by_inputs_(self.weight, input_size, generator)
        self.value_weight: nn.Parameter | None = None
        self.value_bias: nn.Parameter | None = None
        if dueling:
            self.value_weight = nn.Parameter(torch.empty(input_size, signals))
            self.value_bias = nn.Parameter(torch.zeros(signals))
            uniform_by_inputs_(self.value_weight, input_size, generator)
        self.register_buffer("_means", _branch_means(self.branches.sizes), persistent=False)

    @property
    def plain(self) -> bool:
        """Several signals are summed up first."""
        return self.signals == 1

    def acting_layer(self) -> tuple[Tensor, Tensor]:
        """As of `GreedyHead`: the sum over the signals, without what all actions have in common."""
        if self.signals == 1:
            return self.weight, self.bias
        weight = self.weight.view(-1, self.signals, self.actions)
        return weight.sum(1), self.bias.view(self.signals, self.actions).sum(0)

    def columns(self, encoding: Tensor) -> Tensor:
        """[B, input] -> [B, sum of branch sizes]: by what the agents choose."""
        weight, bias = self.acting_layer()
        return torch.addmm(bias, encoding, weight)

    def q(self, encoding: Tensor) -> Tensor:
        """[B, input] -> Q of every action, [B, signals, sum of branch sizes]."""
        advantages = torch.addmm(self.bias, encoding, self.weight).view(-1, self.signals, self.actions)
        if self.value_weight is None or self.value_bias is None:
            return advantages
        value = torch.addmm(self.value_bias, encoding, self.value_weight).unsqueeze(-1)
        assert isinstance(self._means, Tensor)
        q: Tensor = value + advantages - advantages @ self._means
        return q


def _branch_means(sizes: Sequence[int]) -> Tensor:
    """[n, n]: times a row of n actions gives the mean of its branch at every action."""
    branch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return (branch[:, None] == branch) / torch.tensor(sizes, dtype=torch.float32)[branch]
