"""The gradient of a PPO minibatch in closed form, for networks of dense layers.

A minibatch of a few dozen rows is bound by the number of calls, not by arithmetic, and automatic
differentiation makes half of them. Here the gradient is written down layer by layer and lands in the vector
that the optimiser reads. `ppo_losses` stays the definition, and what other networks learn by;
tests/trainers/ppo/test_closed_form.py compares the two.

The formulas behind the heads are written for NumPy's and torch's arrays alike: on a processor NumPy's calls
cost a third of torch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...networks.actor_critic import ActorCritic
from ...networks.modules.body import DenseStack
from ...networks.modules.distributions import EPSILON, ActionDistribution, Actions
from .losses import VALUE_WEIGHT

_silu, _silu_backward = torch.ops.aten.silu, torch.ops.aten.silu_backward
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_TWO_PI_E = 2.0 * math.pi * math.e

Array = Any
"""An array of NumPy's, or a tensor on any device; of the two kinds no function mixes both."""


class _Layer(NamedTuple):
    """A layer's parameters, and where their gradients go; without the cost of asking a module for them."""

    weight: Tensor
    bias: Tensor
    weight_t: Tensor
    """The weight, its last two axes swapped."""
    d_weight: Tensor
    d_bias: Tensor

    @classmethod
    def of(cls, weight: nn.Parameter, bias: nn.Parameter) -> _Layer:
        held = weight.detach()
        return cls(held, bias.detach(), held.transpose(-1, -2), _gradient(weight), _gradient(bias))


class DenseGradient:
    """Computes the losses of a minibatch, and puts their gradient into each parameter's `grad`."""

    def __init__(self, network: ActorCritic) -> None:
        """From now on `network` keeps its parameters' tensors and their `grad`; both change in place."""
        self.network = network
        self.xp: Any = np if network.actions.weight.device.type == "cpu" else torch
        self.streams = network.body.streams
        self.layers = [_Layer.of(x.weight, x.bias) for x in network.body.layers if isinstance(x, DenseStack)]
        self.actions = _Layer.of(network.actions.weight, network.actions.bias)
        self.values = _Layer.of(network.values.weight, network.values.bias)
        self.log_sigma = network.actions.log_sigma.detach()
        self.d_log_sigma = _gradient(network.actions.log_sigma)
        self.continuous = network.actions.continuous_size
        self.branches = network.actions.branches

    @torch.no_grad()
    def __call__(
        self,
        inputs: Sequence[Tensor],
        actions: Actions,
        action_mask: Tensor | None,
        old_log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        epsilon: float,
        beta: float,
    ) -> tuple[Array, Array]:
        """The policy and the value loss of a minibatch; arguments as of `ppo_losses`."""
        into, before = self._forward(inputs[0] if len(inputs) == 1 else self.network.encoder(inputs))
        of_actor, of_critic = into[-1][0], into[-1][self.streams - 1]
        columns = torch.addmm(self.actions.bias, of_actor, self.actions.weight)
        values = torch.addmm(self.values.bias, of_critic, self.values.weight)
        policy, d_columns = self._policy(
            columns, actions, action_mask, old_log_probs, advantages, epsilon, beta
        )
        value, d_values = squared_error(self._array(values), self._array(returns))
        self._backward(into, before, self._tensor(d_columns), self._tensor(d_values))
        return policy, value

    def _array(self, tensor: Tensor) -> Array:
        """What the formulas take; it shares the tensor's memory."""
        return tensor.numpy() if self.xp is np else tensor

    def _tensor(self, array: Array) -> Tensor:
        tensor: Tensor = torch.from_numpy(array) if self.xp is np else array
        return tensor

    def _forward(self, inputs: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """What goes into each layer and out of the last, and what each layer gives before its activation."""
        into = [inputs.expand(self.streams, -1, -1)]
        before: list[Tensor] = []
        for layer in self.layers:
            before.append(torch.baddbmm(layer.bias, into[-1], layer.weight))
            into.append(_silu(before[-1]))
        return into, before

    def _policy(
        self,
        columns: Tensor,
        actions: Actions,
        action_mask: Tensor | None,
        old_log_probs: Tensor,
        advantages: Tensor,
        epsilon: float,
        beta: float,
    ) -> tuple[Array, Array]:
        """The policy loss, and the gradient by means and logits; that by log sigma goes to its place."""
        n = self.continuous
        xp, array = self.xp, self._array
        gaussian, categorical = None, None
        log_probs: list[Array] = []
        if n:
            gaussian = _Gaussian(xp, array(columns)[:, :n], array(self.log_sigma), array(actions.continuous))
            log_probs.append(gaussian.log_probs)
        if self.branches.sizes:
            of_branches = ActionDistribution(
                columns[:, :0], self.log_sigma, columns[:, n:], self.branches, action_mask
            )
            categorical = _Categorical(of_branches, actions.discrete)
            log_probs.append(array(categorical.log_probs))
        policy, d_log_probs = surrogate(
            xp, _joined(xp, log_probs), array(old_log_probs), array(advantages), epsilon
        )
        d_parts: list[Array] = []
        if gaussian is not None:
            d_parts.append(gaussian.gradient(d_log_probs[:, :n], -beta, array(self.d_log_sigma)))
        if categorical is not None:
            d_parts.append(array(categorical.gradient(self._tensor(d_log_probs[:, n:]), -beta)))
        return policy, _joined(xp, d_parts)

    def _backward(
        self, into: list[Tensor], before: list[Tensor], d_columns: Tensor, d_values: Tensor
    ) -> None:
        d_out = torch.empty_like(into[-1])
        _head_backward(self.actions, into[-1][0], d_columns)
        _head_backward(self.values, into[-1][self.streams - 1], d_values)
        torch.mm(d_columns, self.actions.weight_t, out=d_out[0])
        if self.streams == 1:
            d_out[0].addmm_(d_values, self.values.weight_t)
        else:
            torch.mm(d_values, self.values.weight_t, out=d_out[1])
        for index in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[index]
            d_before = _silu_backward(d_out, before[index])
            torch.bmm(into[index].transpose(1, 2), d_before, out=layer.d_weight)
            torch.sum(d_before, 1, keepdim=True, out=layer.d_bias)
            if index:
                d_out = torch.bmm(d_before, layer.weight_t)


def surrogate(
    xp: Any, log_probs: Array, old_log_probs: Array, advantages: Array, epsilon: float
) -> tuple[Array, Array]:
    """The loss of the clipped surrogate, and its gradient by `log_probs` [B, components].

    `xp` is the module of the arrays, numpy or torch.
    """
    scaled = advantages * (-1.0 / math.prod(log_probs.shape))
    ratio = xp.exp(log_probs - old_log_probs)
    plain = ratio * scaled
    clipped = ratio.clip(1.0 - epsilon, 1.0 + epsilon) * scaled
    # Where clipping bites, the bound does not depend on the ratio; elsewhere its slope is itself.
    return xp.maximum(plain, clipped).sum(), xp.where(plain >= clipped, plain, 0.0)


def squared_error(values: Array, returns: Array) -> tuple[Array, Array]:
    """The mean of (R - V)^2 over rows and signals [B, signals], and what `VALUE_WEIGHT` of it gives by V."""
    error = values - returns
    count = math.prod(error.shape)
    return (error * error).sum() / count, error * (2.0 * VALUE_WEIGHT / count)


class _Gaussian:
    """The formulas of `gaussian_log_prob` and `gaussian_entropy` with their gradients."""

    def __init__(self, xp: Any, mu: Array, log_sigma: Array, actions: Array) -> None:
        sigma = xp.exp(log_sigma)
        self.variance = sigma * sigma
        padded = sigma + EPSILON
        spread = 2.0 * self.variance + EPSILON
        deviation = actions - mu
        self.slope = deviation * (1.0 / spread)
        self.exponent = deviation * self.slope
        self.of_variance = self.variance / spread
        self.of_sigma = sigma / padded
        self.log_probs = -_LOG_SQRT_2PI - xp.log(padded) - self.exponent

    def gradient(self, d_log_probs: Array, d_entropy: float, d_log_sigma: Array) -> Array:
        """By mu, for gradients by the log-probabilities and by the mean entropy; `d_log_sigma` is written."""
        widening = (self.exponent * d_log_probs).sum(0) * (4.0 * self.of_variance)
        scaled = self.variance * _TWO_PI_E
        of_entropy = scaled / (scaled + EPSILON) * (d_entropy / len(scaled))
        d_log_sigma[:] = widening - self.of_sigma * d_log_probs.sum(0) + of_entropy
        return self.slope * d_log_probs * 2.0


class _Categorical:
    """With p = softmax(logits): ln(p + e) of the chosen actions, entropy = -sum of p ln(p + e)."""

    def __init__(self, distribution: ActionDistribution, actions: Tensor) -> None:
        self.distribution = distribution
        self.chosen = actions.long().unsqueeze(-1)
        self.log_probs = distribution.log_probabilities.gather(-1, self.chosen).squeeze(-1)

    def gradient(self, d_log_probs: Tensor, d_entropy: float) -> Tensor:
        """By the logits, for gradients by the log-probabilities and by the mean entropy."""
        p, logs = self.distribution.probabilities, self.distribution.log_probabilities  # [B, K, widest]
        padded = p + EPSILON
        d_p = (logs + p / padded).mul_(-d_entropy / len(p))
        d_p.scatter_add_(-1, self.chosen, d_log_probs.unsqueeze(-1) / padded.gather(-1, self.chosen))
        d_logits = self.distribution.branches.flat(p * (d_p - (p * d_p).sum(-1, keepdim=True)))
        mask = self.distribution.action_mask
        return d_logits if mask is None else d_logits.masked_fill(mask, 0.0)


def _head_backward(head: _Layer, encoding: Tensor, d_out: Tensor) -> None:
    torch.mm(encoding.t(), d_out, out=head.d_weight)
    torch.sum(d_out, 0, out=head.d_bias)


def _joined(xp: Any, parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else xp.concatenate(parts, 1)


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
