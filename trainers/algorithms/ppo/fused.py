"""The gradient of a PPO minibatch for networks of dense layers, without automatic differentiation.

The layers are those of `common.fused`; here stand the heads, the clipped surrogate, the value loss and the
entropy bonus with their gradients. `ppo_losses` remains the definition, and what all other networks learn by;
tests compare the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...networks.actor_critic import ActorCritic
from ...networks.modules.distributions import EPSILON, ActionDistribution, Actions
from ..common.fused import Array, ArrayBackend, Layer, backward, forward, layers_of
from .losses import VALUE_WEIGHT

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_TWO_PI_E = 2.0 * math.pi * math.e


class FusedPPOGradient:
    """Computes the losses of a minibatch, and writes their gradient to each parameter's `grad`."""

    def __init__(self, network: ActorCritic) -> None:
        """Keep the parameters' tensors and their `grad`, both of which from now on change in place only."""
        self.network = network
        self.backend = ArrayBackend.of(network.actions.weight.device)
        self.layers = layers_of(network.body)
        self.streams = network.body.streams
        self.actions = Layer.held(network.actions.weight, network.actions.bias)
        self.values = Layer.held(network.values.weight, network.values.bias)
        self.log_sigma = network.actions.log_sigma.detach()
        d_log_sigma = network.actions.log_sigma.grad
        assert d_log_sigma is not None
        self.d_log_sigma: Tensor = d_log_sigma
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
        """The policy loss and the value loss of a minibatch; arguments as for `ppo_losses`."""
        array, tensor = self.backend.array, self.backend.tensor
        trace = forward(self.layers, inputs[0] if len(inputs) == 1 else self.network.encoder(inputs))
        encodings = trace.out
        of_actor, of_critic = encodings[0], encodings[self.streams - 1]
        columns = torch.addmm(self.actions.bias, of_actor, self.actions.weight)
        values = torch.addmm(self.values.bias, of_critic, self.values.weight)
        policy_loss, d_policy = self._policy_loss(
            columns, actions, action_mask, old_log_probs, advantages, epsilon, beta
        )
        value_loss, d_value = squared_error(array(values), array(returns))
        d_columns, d_values = tensor(d_policy), tensor(d_value)
        self.actions.head_backward(of_actor, d_columns)
        self.values.head_backward(of_critic, d_values)
        d_out = torch.empty_like(encodings)
        torch.mm(d_columns, self.actions.weight_t, out=d_out[0])
        if self.streams == 1:
            d_out[0].addmm_(d_values, self.values.weight_t)
        else:
            torch.mm(d_values, self.values.weight_t, out=d_out[1])
        backward(self.layers, trace, d_out)
        return policy_loss, value_loss

    def _policy_loss(
        self,
        columns: Tensor,
        actions: Actions,
        action_mask: Tensor | None,
        old_log_probs: Tensor,
        advantages: Tensor,
        epsilon: float,
        beta: float,
    ) -> tuple[Array, Array]:
        """The policy loss, and the gradient of means and logits; writes that of log sigma."""
        n, (xp, array, tensor) = self.continuous, self.backend
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
        policy_loss, d_log_probs = surrogate(
            xp, _joined(xp, log_probs), array(old_log_probs), array(advantages), epsilon
        )
        gradients: list[Array] = []
        if gaussian is not None:
            gradients.append(gaussian.gradient(d_log_probs[:, :n], -beta, array(self.d_log_sigma)))
        if categorical is not None:
            gradients.append(array(categorical.gradient(tensor(d_log_probs[:, n:]), -beta)))
        return policy_loss, _joined(xp, gradients)


def surrogate(
    xp: Any, log_probs: Array, old_log_probs: Array, advantages: Array, epsilon: float
) -> tuple[Array, Array]:
    """The loss of the clipped surrogate, and its gradient with respect to `log_probs` [B, components].

    `xp` is the module of the arrays, numpy or torch.
    """
    scaled = advantages * (-1.0 / math.prod(log_probs.shape))
    ratio = xp.exp(log_probs - old_log_probs)
    plain = ratio * scaled
    clipped = ratio.clip(1.0 - epsilon, 1.0 + epsilon) * scaled
    # Where clipping bites, the bound does not depend on the ratio; elsewhere its slope is itself.
    return xp.maximum(plain, clipped).sum(), xp.where(plain >= clipped, plain, 0.0)


def squared_error(values: Array, returns: Array) -> tuple[Array, Array]:
    """The mean of (R - V)^2 over [B, signals], and `VALUE_WEIGHT` times its gradient."""
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
        """The gradient of mu, from those of log-probabilities and mean entropy; writes `d_log_sigma`."""
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
        """The gradient of the logits, from those of the log-probabilities and of the mean entropy."""
        p, logs = self.distribution.probabilities, self.distribution.log_probabilities  # [B, K, widest]
        padded = p + EPSILON
        d_p = (logs + p / padded).mul_(-d_entropy / len(p))
        d_p.scatter_add_(-1, self.chosen, d_log_probs.unsqueeze(-1) / padded.gather(-1, self.chosen))
        d_logits = self.distribution.branches.flat(p * (d_p - (p * d_p).sum(-1, keepdim=True)))
        mask = self.distribution.action_mask
        return d_logits if mask is None else d_logits.masked_fill(mask, 0.0)


def _joined(xp: Any, parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else xp.concatenate(parts, 1)
