"""The dense body of a network, for several equal networks at once."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from .initialization import kaiming_normal_


class DenseStack(nn.Module):
    """One dense layer of S networks of the same shape: y = x W + b, each network with weights of its own."""

    def __init__(
        self,
        streams: int,
        in_features: int,
        out_features: int,
        generator: torch.Generator | None = None,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(streams, in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(streams, 1, out_features))
        kaiming_normal_(self.weight, in_features, gain, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """[S, B, in] -> [S, B, out], in one batched product."""
        return torch.baddbmm(self.bias, inputs, self.weight)

    def stream(self, index: int, inputs: Tensor) -> Tensor:
        """The layer of one network: [B, in] -> [B, out]."""
        return torch.addmm(self.bias[index], inputs, self.weight[index])


class Body(nn.Module):
    """`layers` dense layers of width `hidden`, each with Swish, x sigmoid(x), of S networks of one shape.

    An actor and its critic are two streams of one body: a pass through both takes as many calls as one.
    """

    def __init__(
        self,
        streams: int,
        input_size: int,
        hidden: int,
        layers: int,
        generator: torch.Generator | None = None,
        gain: float = 1.0,
    ) -> None:
        """`gain`: of the weights' first deviation, see `kaiming_normal_`."""
        super().__init__()
        self.streams = streams
        self.hidden = hidden
        # ML-Agents builds one layer also where num_layers says 0.
        sizes = [input_size] + [hidden] * max(layers, 1)
        self.layers = nn.ModuleList(
            DenseStack(streams, fan_in, fan_out, generator, gain) for fan_in, fan_out in pairwise(sizes)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, in] (the same for every network) or [S, B, in] -> [S, B, hidden]."""
        if inputs.dim() == 2:
            inputs = inputs.expand(self.streams, -1, -1)
        for layer in self.layers:
            inputs = functional.silu(layer(inputs))
        return inputs

    def stream(self, index: int, inputs: Tensor) -> Tensor:
        """One network alone: [B, in] -> [B, hidden]."""
        for layer in self.layers:
            assert isinstance(layer, DenseStack)
            inputs = functional.silu(layer.stream(index, inputs))
        return inputs
