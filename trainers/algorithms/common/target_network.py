"""Target networks: copies that lag behind what is learnt, so that it has something steady to aim at."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

from .optim import FlatParameters

N = TypeVar("N", bound=nn.Module)


class Target(Generic[N]):
    """A copy of a network that follows its weights.

    What is no weight, such as a normaliser's statistics, stays as it was: targets read what the network's own
    `prepare` gives.
    """

    def __init__(self, network: N) -> None:
        """`network`: as it is before its parameters become a vector."""
        self.network = copy.deepcopy(network)
        self.weights = FlatParameters(self.network.parameters()).vector.data
        self.network.requires_grad_(False)

    @torch.no_grad()
    def follow(self, weights: FlatParameters, tau: float = 1.0) -> None:
        """Go the share `tau` of the way to the network's `weights`; 1: become its copy."""
        if tau == 1.0:
            self.weights.copy_(weights.vector.data)
        else:
            self.weights.lerp_(weights.vector.data, tau)
