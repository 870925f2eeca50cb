"""Target networks: copies that lag behind the trained network, as steady targets of its own learning."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

from .optim import FlatParameters

N = TypeVar("N", bound=nn.Module)


class TargetNetwork(Generic[N]):
    """A copy of a network that follows its weights.

    Buffers, such as a normalizer's statistics, stay as they were: target networks read what the trained
    network's own `prepare` returns.
    """

    def __init__(self, network: N) -> None:
        """`network`: before an optimizer makes one vector of its parameters."""
        self.network = copy.deepcopy(network)
        self.weights = FlatParameters(self.network.parameters()).vector.data
        self.network.requires_grad_(False)

    def copy_from(self, network: N) -> None:
        """Take over all that the network has, also what no optimizer changes."""
        self.network.load_state_dict(network.state_dict())

    @torch.no_grad()
    def update(self, weights: FlatParameters, tau: float = 1.0) -> None:
        """Target := tau weights + (1 - tau) target (Polyak); with tau = 1 a copy."""
        if tau == 1.0:
            self.weights.copy_(weights.vector.data)
        else:
            self.weights.lerp_(weights.vector.data, tau)
