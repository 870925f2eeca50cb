"""One linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dense(nn.Module):
    """y = x W + b with W [in, out] from a Gaussian of the given deviation, b = 0."""

    def __init__(
        self, in_features: int, out_features: int, deviation: float, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        with torch.no_grad():
            self.weight.normal_(0.0, deviation, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, in] -> [B, out]."""
        return torch.addmm(self.bias, inputs, self.weight)
