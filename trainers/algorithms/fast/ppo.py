"""The gradient of PPO's objective without automatic differentiation.

It is what `PPO._gradient` computes, where `FusedPPOGradient.is_faster`. A minibatch of a few dozen rows is
bound by the number of calls, not by arithmetic, and automatic differentiation makes half of them. Here the
gradient is written down layer by layer and lands in the vector that the optimizer reads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...buffers.rollout_buffer import RolloutBatch
from ...networks.actor_critic import ActorCritic
from ...networks.fast.onednn_lstm import Packing
from ...networks.fast.packed_memory import PackedMemory
from ...networks.modules.distributions import BLOCKED_LOGIT, EPSILON, LOG_SQRT_2PI, Actions
from ...networks.modules.heads import VARIANCE_FLOOR
from ...networks.modules.passes import Precision
from ...settings.models.algorithms import PPOSettings, ProbabilityRatio
from .dense import Array, ArrayBackend, Layer, backward, forward, layers_of

_TWO_PI_E = 2.0 * math.pi * math.e

Statistics = tuple[Array, Array, Array, Array]
"""Policy loss, value loss, approximate KL divergence and clip fraction of a minibatch, each a scalar."""


def surrogate(
    xp: Any, log_probs: Array, old_log_probs: Array, advantages: Array, epsilon: float | Array
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


def squared_error(values: Array, returns: Array, weight: float) -> tuple[Array, Array]:
    """The mean of (R - V)^2 over rows and signals [B, signals]; `weight` times its gradient by V."""
    error = values - returns
    count = math.prod(error.shape)
    return (error * error).sum() / count, error * (2.0 * weight / count)


class Gaussian:
    """The formulas of `gaussian_log_prob` and `gaussian_entropy` with their gradients.

    `log_sigma` is [A], or [B, A] where it depends on the state.
    """

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
        self.log_probs = -LOG_SQRT_2PI - xp.log(padded) - self.exponent

    def gradient(self, d_log_probs: Array, d_entropy: float | Array, d_log_sigma: Array) -> Array:
        """The gradient by mu, from those by log-probabilities and mean entropy; `d_log_sigma` is written."""
        widening, direct = self.exponent * d_log_probs, d_log_probs
        if self.variance.ndim == 1:
            widening, direct = widening.sum(0), direct.sum(0)
        scaled = self.variance * _TWO_PI_E
        of_entropy = scaled / (scaled + EPSILON) * (d_entropy / math.prod(scaled.shape))
        d_log_sigma[:] = widening * (4.0 * self.of_variance) - self.of_sigma * direct + of_entropy
        return self.slope * d_log_probs * 2.0


class FeatureSigma:
    """The formula of `ActionHead.feature_log_sigma` with its gradient by the head's log sigmas [input, A]."""

    def __init__(self, log_sigma: Tensor, features: Tensor) -> None:
        self.of_entries = (2.0 * log_sigma).exp()
        self.squares = features.square()
        self.variance = (self.squares @ self.of_entries).add_(VARIANCE_FLOOR)
        self.log_sigma = self.variance.log().mul_(0.5)
        """[B, A]."""

    def backward(self, d_log_sigma: Tensor, out: Tensor) -> None:
        """Write the gradient `out` [input, A], from that by `log_sigma` [B, A]."""
        torch.mm(self.squares.t(), d_log_sigma / self.variance, out=out)
        out.mul_(self.of_entries)


class Categorical:
    """The formulas with p = softmax(logits): ln(p + e) of the chosen actions, entropy = -sum of p ln(p + e).

    The arrays are [widest branch, B K], so that sums over the actions of a branch are sums of rows.
    """

    def __init__(self, xp: Any, logits: Array, actions: Array) -> None:
        """Take `logits` [widest, B K], -inf where a branch has no such action, and `actions` [B, K]."""
        self.rows = len(actions)
        chosen = actions.reshape(-1)
        self.chosen = chosen * len(chosen) + (xp.ones_like(chosen).cumsum(0) - 1)
        p = xp.exp(logits - xp.amax(logits, 0))
        self.probabilities = p / p.sum(0)
        self.padded = self.probabilities + EPSILON
        self.logs = xp.log(self.padded)
        self.log_probs = self.logs.take(self.chosen).reshape(actions.shape)

    def gradient(self, d_log_probs: Array, d_entropy: float | Array) -> Array:
        """The gradient by the logits, from those by the log-probabilities [B, K] and by the mean entropy."""
        d_p = (self.logs + self.probabilities / self.padded) * (-d_entropy / self.rows)
        d_p.reshape(-1)[self.chosen] += d_log_probs.reshape(-1) / self.padded.take(self.chosen)
        d_p *= self.probabilities
        return d_p - self.probabilities * d_p.sum(0)


class FusedPPOGradient:
    """Writes the gradient of the objective of a minibatch to each parameter's `grad`."""

    def __init__(self, network: ActorCritic, hyper: PPOSettings) -> None:
        """Hold the tensors of the parameters and their `grad`, which from now on change in place only."""
        self.value_weight, self.is_joint = hyper.value_coefficient, hyper.ratio is ProbabilityRatio.JOINT
        self.encoder = network.encoder
        self.backend = ArrayBackend.of(network.actions.weight.device)
        self.layers = layers_of(network.body)
        memories = [network.memory(k) for k in range(len(network.memories))]
        self.memory = PackedMemory(memories) if memories else None
        self.actions = Layer.held(network.actions.weight, network.actions.bias)
        self.values = Layer.held(network.values.weight, network.values.bias)
        log_sigma = network.actions.log_sigma
        assert log_sigma.grad is not None
        self.log_sigma, self.d_log_sigma = log_sigma.detach(), log_sigma.grad
        self.of_features = network.actions.exploration is not None
        self.continuous = network.actions.continuous_size
        self.branches = network.actions.branches

    @staticmethod
    def is_faster(network: ActorCritic, hyper: PPOSettings, precision: Precision) -> bool:
        """Whether PPO's gradient is computed here: dense layers in float32, with a memory only on a CPU."""
        has_packed_memory = network.actions.weight.device.type == "cpu"
        has_form = network.is_dense_mlp and (not network.memories or has_packed_memory)
        return has_form and not hyper.clip_value_loss and precision is Precision.FLOAT32

    @torch.no_grad()
    def __call__(self, batch: RolloutBatch, epsilon: float | Tensor, beta: float | Tensor) -> Statistics:
        """Write the gradient of policy loss + c value loss - beta entropy; return a batch's statistics."""
        _, array, tensor = self.backend
        packing = None
        if self.memory is not None:
            packing = _packing(batch)
            batch = _packed(batch, packing)
        inputs = batch.inputs[0] if len(batch.inputs) == 1 else self.encoder(batch.inputs)
        trace = forward(self.layers, inputs)
        hidden = trace.out  # [streams, B, hidden]; a shared critic has the actor's stream
        if self.memory is not None and packing is not None:
            recalled = self.memory.forward(hidden, self._states(batch, len(hidden)), packing)
            hidden = recalled.out
        columns = torch.addmm(self.actions.bias, hidden[0], self.actions.weight)
        values = torch.addmm(self.values.bias, hidden[-1], self.values.weight)
        sigma = FeatureSigma(self.log_sigma, hidden[0]) if self.of_features else None
        policy_loss, approx_kl, clip_fraction, d_columns = self._policy(columns, batch, epsilon, beta, sigma)
        value_loss, d_values = squared_error(array(values), array(batch.returns), self.value_weight)
        d_hidden = self._heads_backward(hidden, tensor(d_columns), tensor(d_values))
        if packing is not None:
            d_hidden = recalled.backward(d_hidden)
        backward(self.layers, trace, d_hidden)
        return policy_loss, value_loss, approx_kl, clip_fraction

    def _policy(
        self,
        columns: Tensor,
        batch: RolloutBatch,
        epsilon: float | Tensor,
        beta: float | Tensor,
        sigma: FeatureSigma | None,
    ) -> tuple[Array, Array, Array, Array]:
        """Policy loss, statistics, and the gradient by means and logits; that by log sigma is written.

        `sigma`: what log sigma is a function of the features; None: it is a parameter of its own.
        """
        n = self.continuous
        xp, array, tensor = self.backend
        gaussian, categorical = None, None
        log_probs: list[Array] = []
        if n:
            actions = array(batch.actions.continuous)
            log_sigma, d_log_sigma = self.log_sigma, self.d_log_sigma
            if sigma is not None:
                log_sigma, d_log_sigma = sigma.log_sigma, torch.empty_like(sigma.log_sigma)
            gaussian = Gaussian(xp, array(columns)[:, :n], array(log_sigma), actions)
            log_probs.append(gaussian.log_probs)
        if self.branches.sizes:
            logits = self._by_action(columns[:, n:], batch.action_mask)
            categorical = Categorical(xp, array(logits), array(batch.actions.discrete))
            log_probs.append(categorical.log_probs)
        joined = log_probs[0] if len(log_probs) == 1 else xp.concatenate(log_probs, 1)
        old = array(batch.old_log_probs)
        components = joined.shape
        if self.is_joint:
            joined, old = joined.sum(1)[:, None], old.sum(1)[:, None]
        loss, approx_kl, clip_fraction, d_log_probs = surrogate(
            xp, joined, old, array(batch.advantages), epsilon
        )
        if self.is_joint:  # each component's logarithm is a term of the sum
            d_log_probs = xp.broadcast_to(d_log_probs, components)
        parts: list[Array] = []
        if gaussian is not None:
            parts.append(gaussian.gradient(d_log_probs[:, :n], -beta, array(d_log_sigma)))
            if sigma is not None:
                sigma.backward(d_log_sigma, self.d_log_sigma)
        if categorical is not None:
            d_logits = tensor(categorical.gradient(d_log_probs[:, n:], -beta))
            parts.append(array(self._by_row(d_logits, batch.action_mask)))
        return loss, approx_kl, clip_fraction, parts[0] if len(parts) == 1 else xp.concatenate(parts, 1)

    def _by_action(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """Logits [B, sum of branch sizes] as [widest, B K], with what is forbidden blocked."""
        if mask is not None:
            logits = logits.masked_fill(mask, BLOCKED_LOGIT)
        return self.branches.rectangular(logits).permute(2, 0, 1).contiguous().flatten(1)

    def _by_row(self, d_logits: Tensor, mask: Tensor | None) -> Tensor:
        """Gradients [widest, B K] as [B, sum of branch sizes]; those of forbidden actions are 0."""
        shape = (self.branches.widest, -1, len(self.branches.sizes))
        flat = self.branches.flat(d_logits.view(shape).permute(1, 2, 0))
        return flat if mask is None else flat.masked_fill(mask, 0.0)

    def _states(self, batch: RolloutBatch, streams: int) -> Tensor:
        """The states before the sequences, [streams, sequences, memory_size]."""
        assert batch.actor_states is not None and batch.critic_states is not None
        return torch.stack((batch.actor_states, batch.critic_states)[:streams])

    def _heads_backward(self, hidden: Tensor, d_columns: Tensor, d_values: Tensor) -> Tensor:
        """Write the gradients of both heads; return that of what they read [streams, B, width]."""
        d_hidden = torch.empty_like(hidden)
        for head, encoding, d in ((self.actions, hidden[0], d_columns), (self.values, hidden[-1], d_values)):
            torch.mm(encoding.t(), d, out=head.d_weight)
            torch.sum(d, 0, out=head.d_bias)
        torch.mm(d_columns, self.actions.weight_t, out=d_hidden[0])
        if len(hidden) == 1:
            d_hidden[0].addmm_(d_values, self.values.weight_t)
        else:
            torch.mm(d_values, self.values.weight_t, out=d_hidden[1])
        return d_hidden


def _packing(batch: RolloutBatch) -> Packing:
    """The packing of the real rows of a minibatch of padded sequences."""
    first = np.arange(0, len(batch.advantages), batch.length)
    lengths = np.full(len(first), batch.length)
    if batch.real is not None:
        lengths = batch.real.view(-1, batch.length).sum(1).numpy()
    return Packing.of(first, lengths)


def _packed(batch: RolloutBatch, packing: Packing) -> RolloutBatch:
    """The real rows alone, all of which count, and the states of the sequences, packed."""
    rows, order = torch.from_numpy(packing.rows), torch.from_numpy(packing.order)
    assert batch.actor_states is not None and batch.critic_states is not None
    mask = batch.action_mask
    return RolloutBatch(
        [column.index_select(0, rows) for column in batch.inputs],
        Actions(*(column.index_select(0, rows) for column in batch.actions)),
        None if mask is None else mask.index_select(0, rows),
        batch.old_log_probs.index_select(0, rows),
        batch.advantages.index_select(0, rows),
        batch.old_values,
        batch.returns.index_select(0, rows),
        actor_states=batch.actor_states.index_select(0, order),
        critic_states=batch.critic_states.index_select(0, order),
    )
