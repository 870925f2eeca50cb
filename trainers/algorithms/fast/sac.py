"""The gradient of a SAC batch for networks of dense layers on vectors, without automatic differentiation.

It is what `SAC._gradient` computes with the losses of `sac.losses`, where `FusedSACGradient.is_faster`.

From the heads on, arrays have the B rows of the batch last: NumPy takes a third of the time for a few long
rows that it takes for many short ones, and MKL for products of a few columns half of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...buffers.replay.sampler import ReplayBatch
from ...networks.actor import Actor
from ...networks.critics import TWINS
from ...networks.fast.acting import CachedNormalizer
from ...networks.modules.distributions import (
    EPSILON,
    LOG_SIGMA_RANGE,
    LOG_SQRT_2PI,
    ActionDistribution,
)
from ...networks.modules.normalizer import Normalizer
from ...networks.modules.passes import Precision
from ..sac.forward import SACLosses, SACNetworks
from ..sac.losses import BranchSums
from .dense import Array, ArrayBackend, Head, InputGradient, Trace, backward, forward, layers_of, side_by_side


class SquashedGaussian:
    """tanh of Gaussian samples mu + sigma noise, and their log-probabilities; see `losses.sample_actions`."""

    def __init__(self, xp: Any, mu: Array, log_sigma: Array, noise: Array) -> None:
        """Sample by `noise`; `log_sigma` is not clamped yet, all are [A, B]. `xp`: the arrays' module."""
        clamped = log_sigma.clip(*LOG_SIGMA_RANGE)
        self.within_range = clamped == log_sigma
        self.sigma = xp.exp(clamped)
        self.deviation = self.sigma * noise
        raw = mu + self.deviation
        self.actions = xp.tanh(raw)
        """The sampled actions, [A, B]."""
        self.square = self.deviation * self.deviation
        self.spread = 2.0 * self.sigma * self.sigma + EPSILON
        size = abs(raw)
        slope = 2.0 * (math.log(2.0) - size - xp.log1p(xp.exp(-2.0 * size)))  # ln(1 - tanh^2)
        logs = self.square / self.spread + xp.log(self.sigma + EPSILON) + (slope + LOG_SQRT_2PI)
        self.log_prob = -logs.sum(0)
        """[B] the log-probability of all components together."""

    def gradient(self, d_log_prob: Array, d_actions: Array) -> tuple[Array, Array]:
        """Gradients of mu and log sigma [A, B], from those of `log_prob`, one for all rows, and `actions`."""
        a, sigma = self.actions, self.sigma
        d_mu = (2.0 * d_log_prob) * a + d_actions * (1.0 - a * a)
        d_exponent = (2.0 * EPSILON) * self.square / (self.spread * self.spread)
        direct = d_exponent + sigma / (sigma + EPSILON)
        d_log_sigma = (d_mu * self.deviation - d_log_prob * direct) * self.within_range
        return d_mu, d_log_sigma


class Categoricals:
    """The probabilities of all discrete actions, branches side by side."""

    def __init__(self, xp: Any, p: Array, log_probs: Array, members: Array, mask: Array | None) -> None:
        """Take `p` [N, B], `log_probs` = ln(p + 1e-7), `members` of `BranchSums`, and `mask` [N, B]."""
        self.softmax = p
        self.log_probs = log_probs
        self.p = xp.exp(log_probs)
        """The probabilities that the losses use."""
        self.members = members
        self.mask = mask
        self.negative_entropy = members.T @ (self.p * log_probs)
        """[K, B] the sum of p ln p."""

    def gradient(self, d_p: Array) -> Array:
        """The gradient of the logits, from that of `p` [N, B], in which that of ln p is included."""
        weighted = self.softmax * d_p
        d_logits: Array = weighted - self.softmax * (self.members @ (self.members.T @ weighted))
        if self.mask is not None:
            d_logits[self.mask] = 0.0
        return d_logits


def expected_q(q: Array, weights: Array | None) -> Array:
    """The values [2, S, B] of Q [2, S, N, B] under weights [N, B]; see `losses.expected_q`."""
    return q[:, :, 0] if weights is None else (q * weights).sum(2)


def squared_error(error: Array, weights: Array | None) -> tuple[Array, Array]:
    """Half the mean square of errors [..., S, B] over the last two axes, and its gradient."""
    signals, rows = error.shape[-2:]
    weighted = error if weights is None else error * weights
    factor = 1.0 / (rows * signals)
    return (weighted * error).sum((-2, -1)) * (0.5 * factor), weighted * factor


class FusedSACGradient:
    """Computes the losses of a batch, and writes their gradient to each parameter's `grad`."""

    def __init__(self, networks: SACNetworks) -> None:
        """Keep the parameters' tensors and their `grad`, both of which from now on change in place only."""
        actor, q, temperatures, value, target = networks
        head = actor.actions
        self.backend = ArrayBackend.of(head.weight.device)
        self.normalize = _normalizer(actor)
        pairs = zip(layers_of(actor.body), layers_of(value.body), strict=True)
        self.actor_and_value = [side_by_side(*pair) for pair in pairs]
        """The layers of actor and value, two streams that read the same."""
        self.heads = Head.of(head), Head.of(value.values)
        self.q, self.q_head = layers_of(q.body), Head.of(q.head)
        self.target, self.target_head = layers_of(target.body), Head.of(target.values)
        self.signals = len(q.signals)
        self.q_shape = (TWINS, self.signals, q.outputs, -1)
        self.continuous, self.spec = head.continuous_size, head.branches
        self.branches = BranchSums(self.spec.sizes, head.weight.device)
        array = self.backend.array
        self.members = array(self.branches.members)
        self.log_alpha = [array(x.detach()) for x in temperatures.log_alpha]
        self.d_log_alpha = [array(_gradient(x)) for x in temperatures.log_alpha]
        self.target_entropies = [array(x) for x in temperatures.entropies]
        self._through_q1 = InputGradient([layer.stream(0) for layer in self.q], self.continuous)

    @staticmethod
    def is_faster(networks: SACNetworks, precision: Precision) -> bool:
        """Whether SAC's gradient is computed here: dense layers in float32, actor and value of one shape.

        Not with exploration by a function of the state.
        """
        actor, q, _, value, _ = networks
        bodies = actor.body.is_dense_mlp and q.is_dense_mlp and value.is_dense_mlp
        if not (bodies and actor.encoder.is_vectors_only) or actor.memories or q.memories:
            return False
        if actor.actions.exploration is not None:  # its deviations have a slope by the features too
            return False
        shapes = [[layer.weight.shape for layer in layers_of(body)] for body in (actor.body, value.body)]
        return shapes[0] == shapes[1] and precision is Precision.FLOAT32

    @torch.no_grad()
    def __call__(self, batch: ReplayBatch, noise: Tensor) -> SACLosses:
        """Write a batch's gradient; `noise` [B, A], standard Gaussian, samples the policy's actions."""
        xp, array, tensor = self.backend
        rows = batch.rewards.shape[0]
        inputs, next_inputs = self._inputs(batch)
        # pi(a | o), V(o), Q1 and Q2 at the actions taken and at the policy's, V'(o')
        trace = forward(self.actor_and_value, inputs)
        columns, values = (head(trace.out[k : k + 1])[0] for k, head in enumerate(self.heads))
        gaussian, categoricals = self._policy(columns, batch.action_mask, noise)
        q_trace = forward(self.q, self._q_inputs(inputs, batch.actions.continuous, gaussian))
        q = array(self.q_head(q_trace.out)).reshape(self.q_shape)
        q_taken, q_sampled = q[..., :rows], q[..., -rows:]
        taken = array(self.branches.taken_weights(batch.actions.discrete)).T if categoricals else None
        likely = categoricals.p / self.branches.count if categoricals else None
        next_values = array(self.target_head(forward(self.target, next_inputs).out)[0])
        # J_Q: y = r + gamma V'(o')
        weights = None if batch.weights is None else array(batch.weights)
        error = expected_q(q_taken, taken) - (array(batch.rewards).T + array(batch.discounts).T * next_values)
        q_losses, d_q = squared_error(error, weights)
        # J_V: min(Q1, Q2) - alpha ln pi
        alphas = [xp.exp(x) for x in self.log_alpha]
        expected = expected_q(q_sampled, likely)
        penalty = self._entropy_penalty(alphas, gaussian, categoricals)
        value_targets = xp.minimum(expected[0], expected[1]) - penalty
        value_loss, d_values = squared_error(array(values) - value_targets, weights)
        # J_pi and J_alpha
        mean_q = q_sampled[0].sum(0) * (1.0 / self.signals)
        policy_loss, d_columns = self._policy_loss(alphas, gaussian, categoricals, mean_q, q_trace)
        self._temperature_backward(gaussian, categoricals, rows)
        d_taken = d_q if taken is None else (d_q[:, :, None] * taken).reshape(TWINS, -1, rows)
        self._q_backward(q_trace.rows(slice(0, rows)), tensor(d_taken))
        self._actor_and_value_backward(trace, tensor(d_columns), tensor(d_values))
        td_errors = tensor(abs(error).reshape(-1, rows).sum(0) * (1.0 / (TWINS * self.signals)))
        return SACLosses(policy_loss, q_losses[0], q_losses[1], value_loss, td_errors)

    # Forward ------------------------------------------------------------------------------------------

    def _inputs(self, batch: ReplayBatch) -> tuple[Tensor, Tensor]:
        """The observations of both moments, normalized together: [B, in] each."""
        sensors = [torch.cat(pair) for pair in zip(batch.obs, batch.next_obs, strict=True)]
        both = self.normalize(sensors[0] if len(sensors) == 1 else torch.cat(sensors, 1))
        inputs, next_inputs = both.chunk(2)
        return inputs, next_inputs

    def _policy(
        self, columns: Tensor, action_mask: Tensor | None, noise: Tensor
    ) -> tuple[SquashedGaussian | None, Categoricals | None]:
        """The distributions of the actions, from the columns of the head [columns, B]."""
        xp, array, _ = self.backend
        n, shown = self.continuous, self.continuous + sum(self.spec.sizes)
        gaussian, categoricals = None, None
        if n:
            outputs = array(columns)
            gaussian = SquashedGaussian(xp, outputs[:n], outputs[shown:], array(noise).T)
        if self.spec.sizes:
            logits = columns[n:shown].t()
            d = ActionDistribution(logits[:, :0], logits[:, :0], logits, self.spec, action_mask)
            p, log_probs = self.spec.flat(d.probabilities), self.spec.flat(d.log_probabilities)
            mask = None if action_mask is None else array(action_mask).T
            categoricals = Categoricals(xp, array(p).T, array(log_probs).T, self.members, mask)
        return gaussian, categoricals

    def _q_inputs(self, inputs: Tensor, taken: Tensor, sampled: SquashedGaussian | None) -> Tensor:
        """Observations [B, in] with the actions taken, and in B further rows with sampled ones."""
        if sampled is None:
            return inputs
        rows, width = inputs.shape
        both_rows = inputs.new_empty(2 * rows, width + self.continuous)
        array = self.backend.array
        both = array(both_rows).reshape(2, rows, -1)
        both[..., :width] = array(inputs)
        both[0, :, width:] = array(taken)
        both[1, :, width:] = sampled.actions.T
        return both_rows

    def _entropy_penalty(
        self, alphas: list[Array], gaussian: SquashedGaussian | None, categoricals: Categoricals | None
    ) -> Array:
        """[B] the entropy penalty alpha ln pi."""
        penalty: Array = 0.0
        if gaussian is not None:
            penalty = alphas[0] * gaussian.log_prob
        if categoricals is not None:
            penalty = penalty + (alphas[1] @ categoricals.negative_entropy) / self.branches.count
        return penalty

    # Backward -----------------------------------------------------------------------------------------

    def _policy_loss(
        self,
        alphas: list[Array],
        gaussian: SquashedGaussian | None,
        categoricals: Categoricals | None,
        mean_q: Array,
        q_trace: Trace,
    ) -> tuple[Array, Array]:
        """E [alpha ln pi - Q1], and its gradient by the columns of the head [columns, B]."""
        rows = mean_q.shape[1]
        times = (gaussian is not None) + (categoricals is not None)
        expected = mean_q[0] if categoricals is None else (categoricals.p * mean_q).sum(0)
        loss = -times * expected
        gradients: list[Array] = []
        if categoricals is not None:
            alpha = (self.members @ alphas[1])[:, None]
            log_probs = categoricals.log_probs
            loss = loss + (categoricals.p * log_probs * alpha).sum(0)
            gradients.append(categoricals.gradient((alpha * (log_probs + 1.0) - times * mean_q) / rows))
        if gaussian is not None:
            loss = loss + alphas[0] * gaussian.log_prob
            weight = -times / (rows * self.signals)
            d_q = None if categoricals is None else self.backend.tensor(categoricals.p * weight)
            d_actions = self.backend.array(self._action_gradient(q_trace, rows, d_q, weight))
            d_mu, d_log_sigma = gaussian.gradient(alphas[0] / rows, d_actions)
            gradients = [d_mu, *gradients, d_log_sigma]
        columns = gradients[0] if len(gradients) == 1 else self.backend.xp.concatenate(gradients)
        return loss.sum() / rows, columns

    def _action_gradient(self, q_trace: Trace, rows: int, d_q: Tensor | None, weight: float) -> Tensor:
        """The gradient of the sampled actions [A, B] through Q1, whose own is [N, B] for each signal.

        `d_q` None: it is `weight` everywhere.
        """
        head = self.q_head.weight_t[0]
        if d_q is None:
            d_out = (head.sum(0, keepdim=True) * weight).expand(rows, -1)
        else:
            d_out = torch.mm(d_q.t(), head.reshape(self.signals, len(d_q), -1).sum(0))
        return self._through_q1([layer[0, -rows:] for layer in q_trace.sums], d_out)

    def _temperature_backward(
        self, gaussian: SquashedGaussian | None, categoricals: Categoricals | None, rows: int
    ) -> None:
        """Write the gradient of the temperatures' loss."""
        if gaussian is not None:
            self.d_log_alpha[0][...] = -(gaussian.log_prob.sum() / rows + self.target_entropies[0])
        if categoricals is not None:
            gap = categoricals.negative_entropy.sum(1) / rows + self.target_entropies[1]
            self.d_log_alpha[1][...] = -gap / self.branches.count

    def _q_backward(self, trace: Trace, d_q: Tensor) -> None:
        """Write the gradients of Q1 and Q2, from that of their values of taken actions [2, S N, B]."""
        backward(self.q, trace, self.q_head.backward(trace.out, d_q))

    def _actor_and_value_backward(self, trace: Trace, d_columns: Tensor, d_values: Tensor) -> None:
        """Write the gradients of actor and value, from those of their heads' outputs [columns, B]."""
        d_out = torch.empty_like(trace.out)
        for k, (head, d) in enumerate(zip(self.heads, (d_columns, d_values), strict=True)):
            stream = slice(k, k + 1)
            head.backward(trace.out[stream], d[None], d_out[stream])
        backward(self.actor_and_value, trace, d_out)


def _normalizer(actor: Actor) -> Callable[[Tensor], Tensor]:
    """The function that does with vectors side by side what `Actor.prepare` does."""
    if actor.encoder.normalizers is None:
        return lambda rows: rows
    (normalizer,) = actor.encoder.normalizers
    assert isinstance(normalizer, Normalizer)
    return CachedNormalizer(normalizer) if normalizer.mean.device.type == "cpu" else normalizer


def _gradient(parameter: Tensor) -> Tensor:
    assert isinstance(parameter, nn.Parameter) and parameter.grad is not None
    return parameter.grad
