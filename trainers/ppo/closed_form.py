"""The gradient of a PPO minibatch in closed form, for networks of dense layers.

A minibatch of a few dozen rows is bound by the number of calls, not by arithmetic, and automatic
differentiation makes half of them. Here the gradient is written down layer by layer and lands in the vector
that the optimiser reads. `ppo_losses` stays the definition, and what other networks learn by;
tests/trainers/ppo/test_closed_form.py compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..distributions import EPSILON, ActionDistribution, Actions
from ..networks.actor_critic import ActorCritic
from ..networks.body import DenseStack
from .losses import VALUE_WEIGHT

_silu, _silu_backward = torch.ops.aten.silu, torch.ops.aten.silu_backward
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_TWO_PI_E = 2.0 * math.pi * math.e


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
    ) -> tuple[Tensor, Tensor]:
        """The policy and the value loss of a minibatch; arguments as of `ppo_losses`."""
        into, before = self._forward(inputs[0] if len(inputs) == 1 else self.network.encoder(inputs))
        of_actor, of_critic = into[-1][0], into[-1][self.streams - 1]
        columns = torch.addmm(self.actions.bias, of_actor, self.actions.weight)
        error = torch.addmm(self.values.bias, of_critic, self.values.weight).sub_(returns)
        policy, d_columns = self._policy(
            columns, actions, action_mask, old_log_probs, advantages, epsilon, beta
        )
        value = error.square().mean()
        d_values = error.mul_(2.0 * VALUE_WEIGHT / error.numel())
        self._backward(into, before, d_columns, d_values)
        return policy, value

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
    ) -> tuple[Tensor, Tensor]:
        """The policy loss, and the gradient by means and logits; that by log sigma goes to its place."""
        n = self.continuous
        gaussian = _Gaussian(columns[:, :n], self.log_sigma, actions.continuous) if n else None
        categorical = None
        if self.branches.sizes:
            of_branches = ActionDistribution(
                columns[:, :0], self.log_sigma, columns[:, n:], self.branches, action_mask
            )
            categorical = _Categorical(of_branches, actions.discrete)
        parts = [part for part in (gaussian, categorical) if part is not None]
        log_probs = _joined([part.log_probs for part in parts])
        policy, d_log_probs = surrogate(log_probs, old_log_probs, advantages, epsilon)
        d_parts: list[Tensor] = []
        if gaussian is not None:
            d_parts.append(gaussian.gradient(d_log_probs[:, :n], -beta, self.d_log_sigma))
        if categorical is not None:
            d_parts.append(categorical.gradient(d_log_probs[:, n:], -beta))
        return policy, _joined(d_parts)

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
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """The loss of the clipped surrogate, and its gradient by `log_probs` [B, components]."""
    weight = -1.0 / log_probs.numel()
    ratio = (log_probs - old_log_probs).exp_()
    plain = ratio * advantages
    clipped = ratio.clamp_(1.0 - epsilon, 1.0 + epsilon).mul_(advantages)
    loss = torch.minimum(plain, clipped).sum() * weight
    # Where clipping bites, the lower bound does not depend on the ratio; elsewhere its slope is itself.
    return loss, plain.masked_fill_(plain > clipped, 0.0).mul_(weight)


class _Gaussian:
    """The formulas of `gaussian_log_prob` and `gaussian_entropy` with their gradients."""

    def __init__(self, mu: Tensor, log_sigma: Tensor, actions: Tensor) -> None:
        sigma = log_sigma.exp()
        padded = sigma + EPSILON
        self.variance = sigma * sigma
        spread = torch.add(self.variance, self.variance).add_(EPSILON)
        deviation = actions - mu
        self.slope = deviation / spread
        self.exponent = deviation.mul_(self.slope)
        self.of_variance = self.variance / spread
        self.of_sigma = sigma.div_(padded)
        self.log_probs = torch.sub(padded.log_().add_(_LOG_SQRT_2PI).neg_(), self.exponent)

    def gradient(self, d_log_probs: Tensor, d_entropy: float, d_log_sigma: Tensor) -> Tensor:
        """By mu, for gradients by the log-probabilities and by the mean entropy; `d_log_sigma` is written."""
        widening = self.exponent.mul_(self.of_variance.mul_(4.0)).sub_(self.of_sigma).mul_(d_log_probs)
        torch.sum(widening, 0, out=d_log_sigma)
        scaled = self.variance.mul_(_TWO_PI_E)
        d_log_sigma.add_(scaled / (scaled + EPSILON), alpha=d_entropy / len(scaled))
        return self.slope.mul_(2.0).mul_(d_log_probs)


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


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
