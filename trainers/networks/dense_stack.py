"""One dense layer of several networks of the same shape."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .initialization import initialize_
from .settings import Initialization


class DenseStack(nn.Module):
    """y = x W + b, each of S networks with weights of its own."""

    def __init__(
        self,
        streams: int,
        in_features: int,
        out_features: int,
        generator: torch.Generator | None = None,
        gain: float = 1.0,
        initialization: Initialization = Initialization.KAIMING_NORMAL,
    ) -> None:
        """`gain`: of the first weights, see `initialize_`."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(streams, in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(streams, 1, out_features))
        initialize_(self.weight, initialization, gain, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """[S, B, in] -> [S, B, out], in one batched product."""
        return torch.baddbmm(self.bias, inputs, self.weight)

    def stream(self, index: int, inputs: Tensor) -> Tensor:
        """The layer of one network: [B, in] -> [B, out]."""
        if len(self.weight) == 1:  # views, so that no gradient is copied into one for all networks
            return torch.addmm(self.bias.squeeze(0), inputs, self.weight.squeeze(0))
        return torch.addmm(self.bias[index], inputs, self.weight[index])
