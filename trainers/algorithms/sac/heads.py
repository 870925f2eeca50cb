"""The ends of dense stacks, whose products and gradients have the B rows of the batch last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..ppo.fused import Layer, silu_backward


class Head(NamedTuple):
    """The last layer of S networks."""

    weight_t: Tensor
    """[S, out, in]."""
    bias: Tensor
    """[S, out, 1]."""
    d_weight: Tensor
    """[S, in, out]; empty where the network is not trained."""
    d_bias: Tensor
    """[S, out]; empty likewise."""
    spread: Callable[..., Tensor]
    """The product of [S, B, out] and [S, out, in]; with one output a broadcast costs less."""

    @classmethod
    def of(cls, layer: Any) -> Head:
        """Of a module with weight [S, in, out] or [in, out], and bias [S, 1, out] or [out]."""
        weight, bias, _, d_weight, d_bias = Layer.held(layer.weight, layer.bias)
        weight = weight.view(-1, *weight.shape[-2:])
        networks, _, outputs = weight.shape
        if len(d_weight):  # a target network has none
            d_weight = d_weight.view(weight.shape)
            d_bias = d_bias.view(networks, outputs)
        spread = torch.mul if outputs == 1 else torch.bmm
        return cls(weight.transpose(1, 2), bias.view(networks, outputs, 1), d_weight, d_bias, spread)

    def __call__(self, hidden: Tensor) -> Tensor:
        """[S, B, in] -> [S, out, B]."""
        return torch.baddbmm(self.bias, self.weight_t, hidden.transpose(1, 2))

    def backward(self, hidden: Tensor, d_outputs: Tensor, out: Tensor | None = None) -> Tensor:
        """Write the gradients of the parameters; that of `hidden`, to `out` if given."""
        if self.d_weight.shape[2] == 1:  # a row at a time takes MKL a tenth of the time
            torch.bmm(d_outputs, hidden, out=self.d_weight.transpose(1, 2))
        else:  # into the transpose of several columns oneDNN takes a hundred times as long
            torch.bmm(hidden.transpose(1, 2), d_outputs.transpose(1, 2), out=self.d_weight)
        torch.sum(d_outputs, 2, out=self.d_bias)
        return self.spread(d_outputs.transpose(1, 2), self.weight_t, out=out)


class InputGradient:
    """The gradient of the last inputs of one network's stack."""

    def __init__(self, layers: Sequence[Layer], count: int) -> None:
        """`layers` [in, out]; `count`: of the inputs."""
        self._further = [layer.weight_t for layer in reversed(layers[1:])]
        first = layers[0].weight
        self._inputs = first[len(first) - count :]

    def __call__(self, sums: Sequence[Tensor], d_out: Tensor) -> Tensor:
        """What the layers compute before their activations, and the gradient of the last: -> [count, B]."""
        for weight_t, own in zip(self._further, reversed(sums[1:]), strict=True):
            d_out = torch.mm(silu_backward(d_out, own), weight_t)
        return torch.mm(self._inputs, silu_backward(d_out, sums[0]).t())
