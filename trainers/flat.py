"""A module's parameters as one vector."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class FlatParameters:
    """Lets parameters share one vector, and their gradients another.

    An optimiser step, a finite check or a copy of the weights is then one operation whatever the number of
    layers: with small networks these calls cost more than their arithmetic.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        members = [p for p in parameters if p.requires_grad]
        data = torch.cat([p.detach().reshape(-1) for p in members])
        self.vector = nn.Parameter(data)
        self.vector.grad = torch.zeros_like(data)
        start = 0
        for p in members:
            end = start + p.numel()
            p.data = data[start:end].view_as(p)
            p.grad = self.vector.grad[start:end].view_as(p)
            start = end

    @property
    def gradient(self) -> Tensor:
        """[total number of parameters]."""
        assert self.vector.grad is not None
        return self.vector.grad

    def zero_gradient(self) -> None:
        """Begin a new gradient; backward() adds to it in place."""
        self.gradient.zero_()
