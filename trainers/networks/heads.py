"""What stands on a body: the parameters of the action distributions, and the values."""

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import ActionSpec
from torch import Tensor, nn

from ..distributions import ActionDistribution, Branches, clamp_log_sigma
from .initialization import kaiming_normal_, xavier_uniform_

MU_GAIN = 0.2
LOGITS_GAIN = 0.1


class ActionHead(nn.Module):
    """From an actor's encoding to the distribution of its actions.

    One product gives the means of all continuous components, the logits of all branches and, if they depend
    on the state, the log sigmas, in this order; otherwise log sigma is a free parameter. Acting, learning and
    brains all go through these columns.
    """

    greedy = False
    """Whether agents do the best that is known: see `greedy_heads`."""

    def __init__(
        self,
        input_size: int,
        spec: ActionSpec,
        generator: torch.Generator | None = None,
        *,
        squashed: bool = False,
        sigma_of_state: bool = False,
    ) -> None:
        """`squashed`: continuous actions go through tanh; see `ActionDistribution`."""
        super().__init__()
        self.continuous_size = spec.continuous_size
        self.branches = Branches(spec.discrete_branches)
        self.squashed = squashed
        self.sigma_of_state = sigma_of_state and self.continuous_size > 0
        shown = self.continuous_size + sum(self.branches.sizes)
        columns = shown + (self.continuous_size if self.sigma_of_state else 0)
        self._sections = (self.continuous_size, shown)
        self.weight = nn.Parameter(torch.empty(input_size, columns))
        self.bias = nn.Parameter(torch.zeros(columns))
        self.log_sigma = nn.Parameter(torch.zeros(0 if self.sigma_of_state else self.continuous_size))
        """Of every state; empty where each has its own."""
        mu, logits, log_sigma = self.weight.tensor_split(self._sections, dim=1)
        kaiming_normal_(mu, input_size, MU_GAIN, generator)
        kaiming_normal_(logits, input_size, LOGITS_GAIN, generator)
        kaiming_normal_(log_sigma, input_size, MU_GAIN, generator)

    @property
    def plain(self) -> bool:
        """Whether sigma is the same in every state and actions are not squashed."""
        return not self.squashed and not self.sigma_of_state

    def acting_layer(self) -> tuple[Tensor, Tensor]:
        """Weight [input, columns] and bias [columns] of the product that gives `columns`."""
        return self.weight, self.bias

    def columns(self, encoding: Tensor) -> Tensor:
        """[B, input] -> [B, means, logits of branches, log sigmas of the state]."""
        return torch.addmm(self.bias, encoding, self.weight)

    def distribution(self, columns: Tensor, action_mask: Tensor | None = None) -> ActionDistribution:
        """The distribution of B agents from their columns; mask as of `forward`."""
        mu, logits, log_sigma = columns.tensor_split(self._sections, dim=1)
        sigma = clamp_log_sigma(log_sigma) if self.sigma_of_state else self.log_sigma
        return ActionDistribution(mu, sigma, logits, self.branches, action_mask, self.squashed)

    def forward(self, encoding: Tensor, action_mask: Tensor | None = None) -> ActionDistribution:
        """[B, input] and a mask [B, sum of branch sizes] (True: forbidden) -> B agents' distribution."""
        return self.distribution(self.columns(encoding), action_mask)


class ValueHead(nn.Module):
    """From a critic's encoding to one value per reward signal."""

    def __init__(
        self, input_size: int, signals: Sequence[str], generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.signals = tuple(signals)
        self.weight = nn.Parameter(torch.empty(input_size, len(self.signals)))
        self.bias = nn.Parameter(torch.zeros(len(self.signals)))
        # Each signal's column begins as a layer of one output would.
        xavier_uniform_(self.weight, fan_in=input_size, fan_out=1, generator=generator)

    def forward(self, encoding: Tensor) -> Tensor:
        """[B, input] -> [B, signals]."""
        return torch.addmm(self.bias, encoding, self.weight)
