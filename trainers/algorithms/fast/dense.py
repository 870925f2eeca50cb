"""Passes through dense layers with Swish, forwards and backwards, without automatic differentiation.

They compute what `Body` does where `Body.is_dense_mlp`, and the heads behind it; of several networks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...networks.fast.packed_memory import streams_of
from ...networks.modules.body import Body, DenseStack

silu_backward = torch.ops.aten.silu_backward.default

Array = Any
"""A NumPy array, or a tensor on any device; no function mixes the two."""


class ArrayBackend(NamedTuple):
    """The library that evaluates what follows the heads: on a CPU NumPy, whose calls cost a third."""

    xp: Any
    """The module of the arrays: numpy or torch."""
    array: Callable[[Tensor], Array]
    """The function that makes an array of a tensor; the memory is shared."""
    tensor: Callable[[Array], Tensor]
    """The function that makes a tensor of such an array."""

    @classmethod
    def of(cls, device: torch.device) -> ArrayBackend:
        """NumPy on a CPU, torch elsewhere."""
        return NUMPY if device.type == "cpu" else TORCH


NUMPY = ArrayBackend(np, Tensor.numpy, torch.from_numpy)
TORCH = ArrayBackend(torch, lambda tensor: tensor, lambda array: array)


class Layer(NamedTuple):
    """The parameters of one layer of S networks, and where their gradients go."""

    weight: Tensor
    """The weights [S, in, out]; [in, out] of a single network."""
    bias: Tensor
    """The biases [S, 1, out]; [1, out] or [out] of a single network."""
    weight_t: Tensor
    """The transposed weights [S, out, in]: a view, which would cost a call wherever it is needed."""
    d_weight: Tensor
    d_bias: Tensor

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, d_weight: Tensor, d_bias: Tensor) -> Layer:
        """Make a layer of the parameters and their gradients."""
        return cls(weight, bias, weight.transpose(-1, -2), d_weight, d_bias)

    @classmethod
    def held(cls, weight: nn.Parameter, bias: nn.Parameter) -> Layer:
        """Make a layer of a module whose gradients a `FlatParameters` holds, or of a target network."""
        none = torch.empty(0, device=weight.device)
        d_weight, d_bias = (none if p.grad is None else p.grad for p in (weight, bias))
        return cls.of(weight.detach(), bias.detach(), d_weight, d_bias)

    def stream(self, index: int) -> Layer:
        """The layer of a single network: [in, out] and [1, out]."""
        return Layer.of(*(t[index] for t in (self.weight, self.bias, self.d_weight, self.d_bias)))


def layers_of(body: Body) -> list[Layer]:
    """The layers of a body that is a dense MLP, all its networks."""
    return [Layer.held(layer.weight, layer.bias) for layer in body.layers if isinstance(layer, DenseStack)]


def side_by_side(first: Layer, second: Layer) -> Layer:
    """Two networks' layers [1, in, out], which lie in one vector in this order, as one layer of S = 2."""
    pairs = [(one[0], other[0]) for one, other in zip(first, second, strict=True)]
    return Layer.of(*(streams_of(pairs[k]) for k in (0, 1, 3, 4)))


class Trace(NamedTuple):
    """What a forward pass keeps for the backward pass."""

    into: list[Tensor]
    """The input of each layer, and last the output of the stack: [S, B, width] each."""
    sums: list[Tensor]
    """What each layer computes before its activation."""

    @property
    def out(self) -> Tensor:
        """The output of the stack, [S, B, hidden]."""
        return self.into[-1]

    def rows(self, rows: slice) -> Trace:
        """The trace of some of the B rows."""
        return Trace([x[:, rows] for x in self.into], [x[:, rows] for x in self.sums])


def forward(layers: Sequence[Layer], inputs: Tensor) -> Trace:
    """The trace of S networks' stacks for inputs [B, in], which are the same for all."""
    into = [inputs.expand(layers[0].weight.shape[0], -1, -1)]
    sums: list[Tensor] = []
    for layer in layers:
        sums.append(torch.baddbmm(layer.bias, into[-1], layer.weight))
        into.append(functional.silu(sums[-1]))
    return Trace(into, sums)


def backward(layers: Sequence[Layer], trace: Trace, d_out: Tensor) -> None:
    """Write the gradients of all parameters, from that of `trace.out` [S, B, hidden]."""
    for index in range(len(layers) - 1, -1, -1):
        layer = layers[index]
        d_sums = silu_backward(d_out, trace.sums[index])
        torch.bmm(trace.into[index].transpose(1, 2), d_sums, out=layer.d_weight)
        torch.sum(d_sums, 1, keepdim=True, out=layer.d_bias)
        if index:
            d_out = torch.bmm(d_sums, layer.weight_t)


class Head(NamedTuple):
    """The last layer of S networks."""

    weight_t: Tensor
    """The transposed weights [S, out, in]."""
    bias: Tensor
    """The biases [S, out, 1]."""
    d_weight: Tensor
    """The gradient of the weights, [S, in, out]; empty where the network is not trained."""
    d_bias: Tensor
    """The gradient of the biases, [S, out]; empty likewise."""
    spread: Callable[..., Tensor]
    """The product of [S, B, out] and [S, out, in]; with one output a broadcast costs less."""

    @classmethod
    def of(cls, layer: Any) -> Head:
        """Make a head of a module with weight [S, in, out] or [in, out], and bias [S, 1, out] or [out]."""
        weight, bias, _, d_weight, d_bias = Layer.held(layer.weight, layer.bias)
        weight = weight.view(-1, *weight.shape[-2:])
        networks, _, outputs = weight.shape
        if len(d_weight):  # a target network has none
            d_weight = d_weight.view(weight.shape)
            d_bias = d_bias.view(networks, outputs)
        spread = torch.mul if outputs == 1 else torch.bmm
        return cls(weight.transpose(1, 2), bias.view(networks, outputs, 1), d_weight, d_bias, spread)

    def __call__(self, hidden: Tensor) -> Tensor:
        """The outputs [S, out, B] for inputs [S, B, in]."""
        return torch.baddbmm(self.bias, self.weight_t, hidden.transpose(1, 2))

    def backward(self, hidden: Tensor, d_outputs: Tensor, out: Tensor | None = None) -> Tensor:
        """Write the gradients of the parameters, and return that of `hidden`, in `out` if given."""
        if self.d_weight.shape[2] == 1:  # a row at a time takes MKL a tenth of the time
            torch.bmm(d_outputs, hidden, out=self.d_weight.transpose(1, 2))
        else:  # into the transpose of several columns oneDNN takes a hundred times as long
            torch.bmm(hidden.transpose(1, 2), d_outputs.transpose(1, 2), out=self.d_weight)
        torch.sum(d_outputs, 2, out=self.d_bias)
        return self.spread(d_outputs.transpose(1, 2), self.weight_t, out=out)


class InputGradient:
    """The gradient of the last inputs of one network's stack."""

    def __init__(self, layers: Sequence[Layer], count: int) -> None:
        """Take the `layers` [in, out] of the stack; `count` is the number of its last inputs."""
        self._further = [layer.weight_t for layer in reversed(layers[1:])]
        first = layers[0].weight
        self._inputs = first[len(first) - count :]

    def __call__(self, sums: Sequence[Tensor], d_out: Tensor) -> Tensor:
        """The gradient [count, B], from the layers' sums before activation and the gradient of the output."""
        for weight_t, layer_sums in zip(self._further, reversed(sums[1:]), strict=True):
            d_out = torch.mm(silu_backward(d_out, layer_sums), weight_t)
        return torch.mm(self._inputs, silu_backward(d_out, sums[0]).t())
