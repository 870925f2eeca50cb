"""The gradient of PPO's objective for networks of dense layers, without automatic differentiation.

The layers are those of `common.fused`; here are the heads, the clipped surrogate, the value loss and the
entropy bonus with their gradients. The objective in `PPO.update` remains the definition, and what all other
networks learn by; tests compare the two.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...buffers.rollout_buffer import RolloutBatch
from ...networks.actor_critic import ActorCritic
from ...networks.modules.distributions import EPSILON, ActionDistribution
from ..common.fused import Array, ArrayBackend, Layer, Trace, backward, forward, layers_of
from .losses import VALUE_WEIGHT

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_TWO_PI_E = 2.0 * math.pi * math.e

Statistics = tuple[Array, Array, Array, Array]
"""Policy loss, value loss, approximate KL divergence and clip fraction of a minibatch, each a scalar."""


class FusedPPOGradient:
    """Writes the gradient of the objective of a minibatch to each parameter's `grad`."""

    def __init__(self, network: ActorCritic) -> None:
        """From now on `network` must keep its parameters' tensors and their `grad`; both change in place."""
        self.encoder = network.encoder
        self.backend = ArrayBackend.of(network.actions.weight.device)
        self.layers = layers_of(network.body)
        self.actions = Layer.held(network.actions.weight, network.actions.bias)
        self.values = Layer.held(network.values.weight, network.values.bias)
        log_sigma = network.actions.log_sigma
        assert log_sigma.grad is not None
        self.log_sigma, self.d_log_sigma = log_sigma.detach(), log_sigma.grad
        self.continuous = network.actions.continuous_size
        self.branches = network.actions.branches

    @torch.no_grad()
    def __call__(self, batch: RolloutBatch, epsilon: float, beta: float) -> Statistics:
        """The gradient of policy loss + 0.5 value loss - beta entropy; returns the minibatch's statistics."""
        _, array, tensor = self.backend
        inputs = batch.inputs[0] if len(batch.inputs) == 1 else self.encoder(batch.inputs)
        trace = forward(self.layers, inputs)
        hidden = trace.into[-1]  # [streams, B, hidden]; a shared critic has the actor's stream
        columns = torch.addmm(self.actions.bias, hidden[0], self.actions.weight)
        values = torch.addmm(self.values.bias, hidden[-1], self.values.weight)
        policy_loss, approx_kl, clip_fraction, d_columns = self._policy(columns, batch, epsilon, beta)
        value_loss, d_values = squared_error(array(values), array(batch.returns))
        self._backward(trace, tensor(d_columns), tensor(d_values))
        return policy_loss, value_loss, approx_kl, clip_fraction

    def _policy(
        self, columns: Tensor, batch: RolloutBatch, epsilon: float, beta: float
    ) -> tuple[Array, Array, Array, Array]:
        """Policy loss, statistics, and the gradient by means and logits; that by log sigma is written."""
        n = self.continuous
        xp, array, tensor = self.backend
        gaussian, categorical = None, None
        log_probs: list[Array] = []
        if n:
            actions = array(batch.actions.continuous)
            gaussian = _Gaussian(xp, array(columns)[:, :n], array(self.log_sigma), actions)
            log_probs.append(gaussian.log_probs)
        if self.branches.sizes:
            distribution = ActionDistribution(
                columns[:, :0], self.log_sigma, columns[:, n:], self.branches, batch.action_mask
            )
            categorical = _Categorical(distribution, batch.actions.discrete)
            log_probs.append(array(categorical.log_probs))
        joined = log_probs[0] if len(log_probs) == 1 else xp.concatenate(log_probs, 1)
        loss, approx_kl, clip_fraction, d_log_probs = surrogate(
            xp, joined, array(batch.old_log_probs), array(batch.advantages), epsilon
        )
        d_parts: list[Array] = []
        if gaussian is not None:
            d_parts.append(gaussian.gradient(d_log_probs[:, :n], -beta, array(self.d_log_sigma)))
        if categorical is not None:
            d_parts.append(array(categorical.gradient(tensor(d_log_probs[:, n:]), -beta)))
        d_columns = d_parts[0] if len(d_parts) == 1 else xp.concatenate(d_parts, 1)
        return loss, approx_kl, clip_fraction, d_columns

    def _backward(self, trace: Trace, d_columns: Tensor, d_values: Tensor) -> None:
        hidden = trace.into[-1]
        d_hidden = torch.empty_like(hidden)
        for head, encoding, d in ((self.actions, hidden[0], d_columns), (self.values, hidden[-1], d_values)):
            torch.mm(encoding.t(), d, out=head.d_weight)
            torch.sum(d, 0, out=head.d_bias)
        torch.mm(d_columns, self.actions.weight_t, out=d_hidden[0])
        if len(hidden) == 1:
            d_hidden[0].addmm_(d_values, self.values.weight_t)
        else:
            torch.mm(d_values, self.values.weight_t, out=d_hidden[1])
        backward(self.layers, trace, d_hidden)


def surrogate(
    xp: Any, log_probs: Array, old_log_probs: Array, advantages: Array, epsilon: float
) -> tuple[Array, Array, Array, Array]:
    """-L^CLIP, see `clipped_surrogate`; the statistics of `ratio_statistics`; the gradient by `log_probs`.

    `xp` is the module of the arrays [B, components], numpy or torch.
    """
    count = math.prod(log_probs.shape)
    scaled = advantages * (-1.0 / count)
    log_ratio = log_probs - old_log_probs
    ratio = xp.exp(log_ratio)
    unclipped = ratio * scaled
    clipped_ratio = ratio.clip(1.0 - epsilon, 1.0 + epsilon)
    clipped = clipped_ratio * scaled
    approx_kl = (ratio.sum() - log_ratio.sum()) / count - 1.0
    clip_fraction = (ratio != clipped_ratio).sum() / count
    # Where clipping bites, the bound does not depend on the ratio; elsewhere its slope is itself.
    gradient = xp.where(unclipped >= clipped, unclipped, 0.0)
    return xp.maximum(unclipped, clipped).sum(), approx_kl, clip_fraction, gradient


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
