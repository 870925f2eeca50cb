"""Stacks of dense layers with Swish, forward and backward by hand, for the fused gradients of PPO and SAC.

A minibatch of a few dozen rows is bound by the number of calls, not by arithmetic, and automatic
differentiation makes half of them. Here the gradient is written down layer by layer and lands in the vector
that the optimizer reads. `Body` and autograd remain the definition; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...networks.modules.body import Body, DenseStack

_silu, _silu_backward = torch.ops.aten.silu, torch.ops.aten.silu_backward

Array = Any
"""A NumPy array, or a tensor on any device; no function mixes the two."""


class ArrayBackend(NamedTuple):
    """The library that evaluates what follows the heads: on a CPU NumPy, whose calls cost a third."""

    xp: Any
    """The module of the arrays: numpy or torch."""
    array: Callable[[Tensor], Array]
    """A tensor as that library takes it; the memory is shared."""
    tensor: Callable[[Array], Tensor]
    """The way back."""

    @classmethod
    def of(cls, device: torch.device) -> ArrayBackend:
        """NumPy on a CPU, torch elsewhere."""
        return NUMPY if device.type == "cpu" else TORCH


NUMPY = ArrayBackend(np, Tensor.numpy, torch.from_numpy)
TORCH = ArrayBackend(torch, lambda tensor: tensor, lambda array: array)


class Layer(NamedTuple):
    """The parameters of one layer of S networks, and where their gradients go."""

    weight: Tensor
    """[S, in, out]; [in, out] of a single network."""
    bias: Tensor
    """[S, 1, out]; [1, out] or [out] of a single network."""
    weight_t: Tensor
    """[S, out, in]: a view, which would cost a call wherever it is needed."""
    d_weight: Tensor
    d_bias: Tensor

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, d_weight: Tensor, d_bias: Tensor) -> Layer:
        """From the parameters and their gradients."""
        return cls(weight, bias, weight.transpose(-1, -2), d_weight, d_bias)

    @classmethod
    def held(cls, weight: nn.Parameter, bias: nn.Parameter) -> Layer:
        """From a module whose gradients a `FlatParameters` holds, or from a target network."""
        d_weight, d_bias = (torch.empty(0) if p.grad is None else p.grad for p in (weight, bias))
        return cls.of(weight.detach(), bias.detach(), d_weight, d_bias)

    def stream(self, index: int) -> Layer:
        """A single network: [in, out] and [1, out]."""
        return Layer.of(*(t[index] for t in (self.weight, self.bias, self.d_weight, self.d_bias)))

    def backward(self, inputs: Tensor, d_outputs: Tensor) -> None:
        """Gradients of weight and bias, from inputs [S, B, in] and that of the outputs [S, B, out]."""
        torch.bmm(inputs.transpose(1, 2), d_outputs, out=self.d_weight)
        torch.sum(d_outputs, 1, keepdim=True, out=self.d_bias)

    def head_backward(self, inputs: Tensor, d_outputs: Tensor) -> None:
        """The same of a single network's head: [B, in] and [B, out]."""
        torch.mm(inputs.t(), d_outputs, out=self.d_weight)
        torch.sum(d_outputs, 0, out=self.d_bias)


def layers_of(body: Body) -> list[Layer]:
    """The layers of a body that is a dense MLP, all its networks."""
    return [Layer.held(layer.weight, layer.bias) for layer in body.layers if isinstance(layer, DenseStack)]


def side_by_side(first: Layer, second: Layer) -> Layer:
    """Two networks' layers [1, in, out], which lie in one vector in this order, as one layer of S = 2."""
    pairs = list(zip(first, second, strict=True))
    both = [_strided(pairs[k][0], pairs[k][1]) for k in (0, 1, 3, 4)]
    return Layer.of(*both)


def _strided(first: Tensor, second: Tensor) -> Tensor:
    distance = (second.data_ptr() - first.data_ptr()) // first.element_size()
    return first.as_strided((2, *first.shape[1:]), (distance, *first.stride()[1:]))


class Trace(NamedTuple):
    """What a forward pass keeps for the backward pass."""

    into: list[Tensor]
    """The input of each layer, and last the output of the stack: [S, B, width] each."""
    sums: list[Tensor]
    """What each layer computes before its activation."""

    @property
    def out(self) -> Tensor:
        """[S, B, hidden]."""
        return self.into[-1]

    def rows(self, rows: slice) -> Trace:
        """Some of the B rows."""
        return Trace([x[:, rows] for x in self.into], [x[:, rows] for x in self.sums])


def forward(layers: Sequence[Layer], inputs: Tensor) -> Trace:
    """[B, in], the same for all S networks -> the trace of their stacks."""
    into = [inputs.expand(layers[0].weight.shape[0], -1, -1)]
    sums: list[Tensor] = []
    for layer in layers:
        sums.append(torch.baddbmm(layer.bias, into[-1], layer.weight))
        into.append(_silu(sums[-1]))
    return Trace(into, sums)


def backward(layers: Sequence[Layer], trace: Trace, d_out: Tensor) -> None:
    """Write the gradients of all parameters, from that of `trace.out` [S, B, hidden]."""
    for index in range(len(layers) - 1, -1, -1):
        layer = layers[index]
        d_sums = _silu_backward(d_out, trace.sums[index])
        torch.bmm(trace.into[index].transpose(1, 2), d_sums, out=layer.d_weight)
        torch.sum(d_sums, 1, keepdim=True, out=layer.d_bias)
        if index:
            d_out = torch.bmm(d_sums, layer.weight_t)


def outputs(layers: Sequence[Layer], inputs: Tensor) -> Tensor:
    """One network without a backward pass: layers [in, out], inputs [B, in] -> [B, hidden]."""
    for layer in layers:
        inputs = _silu(torch.addmm(layer.bias, inputs, layer.weight))
    return inputs


def input_gradient(layers: Sequence[Layer], sums: Sequence[Tensor], d_out: Tensor, columns: slice) -> Tensor:
    """The gradient of some columns of one network's inputs: layers [in, out], tensors [B, width]."""
    for layer, own in zip(reversed(layers[1:]), reversed(sums[1:]), strict=True):
        d_out = torch.mm(_silu_backward(d_out, own), layer.weight_t)
    return torch.mm(_silu_backward(d_out, sums[0]), layers[0].weight_t[:, columns])
