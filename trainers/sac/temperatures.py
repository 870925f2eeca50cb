"""How much entropy is worth: one coefficient for all continuous components, and one for each branch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .losses import Coefficients

DISCRETE_SHARE = 0.2
"""Of the largest entropy that a branch can have; what its policy aims at."""


class Temperatures(nn.Module):
    """ln alpha of both kinds of actions, and the entropies that they are adjusted to.

    Those of a kind that there is none of stay as they began. (Haarnoja et al. 2018, arXiv 1812.05905,
    section 6; targets as ML-Agents has them.)
    """

    target_continuous: Tensor
    targets_discrete: Tensor

    def __init__(self, continuous_size: int, branches: Sequence[int], initial: float) -> None:
        super().__init__()
        self.log_continuous = nn.Parameter(torch.tensor(math.log(initial)))
        self.log_discrete = nn.Parameter(torch.full((len(branches),), math.log(initial)))
        """[K]."""
        targets = torch.tensor([DISCRETE_SHARE * math.log(size) for size in branches])
        self.register_buffer("target_continuous", torch.tensor(-float(continuous_size)), persistent=False)
        self.register_buffer("targets_discrete", targets, persistent=False)

    @property
    def log_alpha(self) -> Coefficients:
        """What is learnt."""
        return Coefficients(self.log_continuous, self.log_discrete)

    @property
    def alpha(self) -> Coefficients:
        """The coefficients as numbers, without a gradient."""
        return Coefficients(self.log_continuous.detach().exp(), self.log_discrete.detach().exp())

    @property
    def entropies(self) -> Coefficients:
        """The targets."""
        return Coefficients(self.target_continuous, self.targets_discrete)
