"""What stands on a body: the parameters of the action distributions, and the values."""

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import ActionSpec
from torch import Tensor, nn

from ..distributions import ActionDistribution, Branches
from .initialization import kaiming_normal_, xavier_uniform_

MU_GAIN = 0.2
LOGITS_GAIN = 0.1


class ActionHead(nn.Module):
    """From an actor's encoding to the distribution of its actions.

    One product gives the means of all continuous components and the logits of all branches, in this order.
    log sigma is a free parameter that does not depend on the state.
    """

    def __init__(self, input_size: int, spec: ActionSpec, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.continuous_size = spec.continuous_size
        self.branches = Branches(spec.discrete_branches)
        logits = sum(self.branches.sizes)
        self.weight = nn.Parameter(torch.empty(input_size, self.continuous_size + logits))
        self.bias = nn.Parameter(torch.zeros(self.continuous_size + logits))
        self.log_sigma = nn.Parameter(torch.zeros(self.continuous_size))
        kaiming_normal_(self.weight[:, : self.continuous_size], input_size, MU_GAIN, generator)
        kaiming_normal_(self.weight[:, self.continuous_size :], input_size, LOGITS_GAIN, generator)

    def forward(self, encoding: Tensor, action_mask: Tensor | None = None) -> ActionDistribution:
        """[B, input] and a mask [B, sum of branch sizes] (True: forbidden) -> B agents' distribution."""
        columns = torch.addmm(self.bias, encoding, self.weight)
        mu, logits = columns.tensor_split((self.continuous_size,), dim=1)
        return ActionDistribution(mu, self.log_sigma, logits, self.branches, action_mask)


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
