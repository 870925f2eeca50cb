"""Stacks of dense layers with Swish, forwards and backwards in as few calls as the arithmetic needs.

A gradient step on some dozens of rows is bound by the number of calls. What is computed here lands in the
vector that the optimiser reads; `Body` and torch's own differentiation stay the definition
(tests/trainers/sac/test_closed_form.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...networks.modules.body import Body, DenseStack

_silu, _silu_backward = torch.ops.aten.silu, torch.ops.aten.silu_backward


class Layer(NamedTuple):
    """The parameters of one layer of S networks, and where their gradients go."""

    weight: Tensor
    """[S, in, out]."""
    bias: Tensor
    """[S, 1, out]."""
    weight_t: Tensor
    """[S, out, in]."""
    d_weight: Tensor
    d_bias: Tensor

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, d_weight: Tensor, d_bias: Tensor) -> Layer:
        """With the transposed weight, which costs a call wherever it is asked for."""
        return cls(weight, bias, weight.transpose(-1, -2), d_weight, d_bias)

    @classmethod
    def held(cls, weight: nn.Parameter, bias: nn.Parameter) -> Layer:
        """A layer's, of which a `FlatParameters` holds the gradients; those of one that learns by itself."""
        d_weight, d_bias = (torch.empty(0) if p.grad is None else p.grad for p in (weight, bias))
        return cls.of(weight.detach(), bias.detach(), d_weight, d_bias)

    def stream(self, index: int) -> Layer:
        """One network alone: [in, out] and [1, out]."""
        return Layer.of(*(t[index] for t in (self.weight, self.bias, self.d_weight, self.d_bias)))

    def backward(self, inputs: Tensor, d_outputs: Tensor) -> None:
        """The gradients by weight and bias, for inputs [S, B, in] and the gradient by outputs [S, B, out]."""
        torch.bmm(inputs.transpose(1, 2), d_outputs, out=self.d_weight)
        torch.sum(d_outputs, 1, keepdim=True, out=self.d_bias)


def layers_of(body: Body) -> list[Layer]:
    """Of a plain body, all its networks."""
    return [Layer.held(layer.weight, layer.bias) for layer in body.layers if isinstance(layer, DenseStack)]


def side_by_side(first: Layer, second: Layer) -> Layer:
    """Layers of one network each, [1, in, out], that lie in one vector in this order, as one layer of two."""
    pairs = list(zip(first, second, strict=True))
    both = [_strided(pairs[k][0], pairs[k][1]) for k in (0, 1, 3, 4)]
    return Layer.of(*both)


def _strided(first: Tensor, second: Tensor) -> Tensor:
    apart = (second.data_ptr() - first.data_ptr()) // first.element_size()
    return first.as_strided((2, *first.shape[1:]), (apart, *first.stride()[1:]))


class Trace(NamedTuple):
    """What a pass through layers leaves for the way back."""

    into: list[Tensor]
    """What goes into each layer, and last what comes out: [S, B, width] each."""
    before: list[Tensor]
    """What each layer gives before its activation."""

    @property
    def out(self) -> Tensor:
        """[S, B, hidden]."""
        return self.into[-1]

    def rows(self, rows: slice) -> Trace:
        """Of some rows alone."""
        return Trace([x[:, rows] for x in self.into], [x[:, rows] for x in self.before])


def forward(layers: Sequence[Layer], inputs: Tensor) -> Trace:
    """[B, in] (the same for every network) -> what S networks make of it."""
    into = [inputs.expand(layers[0].weight.shape[0], -1, -1)]
    before: list[Tensor] = []
    for layer in layers:
        before.append(torch.baddbmm(layer.bias, into[-1], layer.weight))
        into.append(_silu(before[-1]))
    return Trace(into, before)


def backward(layers: Sequence[Layer], trace: Trace, d_out: Tensor) -> None:
    """The gradients by all parameters, for that by `trace.out` [S, B, hidden]."""
    for index in range(len(layers) - 1, -1, -1):
        d_before = _silu_backward(d_out, trace.before[index])
        layers[index].backward(trace.into[index], d_before)
        if index:
            d_out = torch.bmm(d_before, layers[index].weight_t)


def outputs(layers: Sequence[Layer], inputs: Tensor) -> Tensor:
    """One network without a way back: layers [in, out], inputs [B, in] -> [B, hidden]."""
    for layer in layers:
        inputs = _silu(torch.addmm(layer.bias, inputs, layer.weight))
    return inputs


def by_inputs(layers: Sequence[Layer], before: Sequence[Tensor], d_out: Tensor, columns: slice) -> Tensor:
    """The gradient by some columns of one network's inputs: layers [in, out], tensors [B, width]."""
    for layer, sums in zip(reversed(layers[1:]), reversed(before[1:]), strict=True):
        d_out = torch.mm(_silu_backward(d_out, sums), layer.weight_t)
    return torch.mm(_silu_backward(d_out, before[0]), layers[0].weight_t[:, columns])
