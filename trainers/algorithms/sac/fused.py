"""The gradient of a SAC batch in closed form, for networks of dense layers on vectors.

`DerivedGradient` and losses.py are the definition, and what other networks learn by;
tests/trainers/sac/test_closed_form.py compares the two. The formulas behind the heads are written for NumPy's
and torch's arrays alike: on a processor NumPy's calls cost a third of torch's.

The formulas of SAC's action distributions with their gradients, for NumPy's and torch's arrays alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...buffers.replay.sampler import ReplayBatch
from ...networks.modules.distributions import EPSILON, LOG_SIGMA_RANGE, ActionDistribution
from ...networks.sac import TWINS
from ..common.fused import Layer, Trace, backward, by_inputs, forward, layers_of, outputs, side_by_side
from .losses import BranchSums
from .update import Losses, Networks

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)

Array = Any
"""An array of NumPy's, or a tensor on any device; of the two kinds no function mixes both."""


class SquashedGaussian:
    """tanh of Gaussian samples mu + sigma noise, and their log-probabilities; see `sampling.sample`."""

    def __init__(self, xp: Any, mu: Array, log_sigma: Array, noise: Array) -> None:
        """`log_sigma` as the network gave it, not clamped; all [B, A]. `xp`: the module of the arrays."""
        self.xp = xp
        self.free = (log_sigma >= LOG_SIGMA_RANGE[0]) & (log_sigma <= LOG_SIGMA_RANGE[1])
        self.sigma = xp.exp(log_sigma.clip(*LOG_SIGMA_RANGE))
        self.deviation = self.sigma * noise
        raw = mu + self.deviation
        self.actions = xp.tanh(raw)
        """[B, A]."""
        self.square = self.deviation * self.deviation
        self.spread = 2.0 * self.sigma * self.sigma + EPSILON
        size = abs(raw)
        slope = 2.0 * (math.log(2.0) - size - xp.log1p(xp.exp(-2.0 * size)))  # ln(1 - tanh^2)
        logs = self.square / self.spread + xp.log(self.sigma + EPSILON) + (slope + _LOG_SQRT_2PI)
        self.log_prob = -logs.sum(1)
        """[B], of all components together."""

    def gradient(self, d_log_prob: Array, d_actions: Array) -> tuple[Array, Array]:
        """By mu and by log sigma [B, A], for gradients by `log_prob`, alike in all rows, and `actions`."""
        a, sigma = self.actions, self.sigma
        d_mu = (2.0 * d_log_prob) * a + d_actions * (1.0 - a * a)
        of_exponent = (2.0 * EPSILON) * self.square / (self.spread * self.spread)
        direct = of_exponent + sigma / (sigma + EPSILON)
        d_log_sigma = (d_mu * self.deviation - d_log_prob * direct) * self.free
        return d_mu, d_log_sigma


class Categoricals:
    """All discrete actions, branches side by side."""

    def __init__(self, xp: Any, p: Array, logs: Array, members: Array, forbidden: Array | None) -> None:
        """`p` [B, N] and `logs` = ln(p + 1e-7); `members` as of `BranchSums`; `forbidden` [B, N] bool."""
        self.softmax = p
        self.logs = logs
        self.p = xp.exp(logs)
        """exp of the log-probabilities, what the losses count with."""
        self.members = members
        self.forbidden = forbidden
        self.certainty = (self.p * logs) @ members
        """[B, K] the sum of p ln p."""

    def gradient(self, by_p: Array) -> Array:
        """By the logits, of a loss whose gradient by `p` [B, N] is given, that through ln p included."""
        weighted = self.softmax * by_p
        d_logits: Array = weighted - self.softmax * (weighted @ self.members @ self.members.T)
        if self.forbidden is not None:
            d_logits[self.forbidden] = 0.0
        return d_logits


def fits(networks: Networks) -> bool:
    """Whether the closed form is that of these networks: actor and critics of one shape, without memories."""
    actor, q, _, value, _ = networks
    plain = actor.encoder.plain and actor.body.plain and q.plain and value.plain
    if not plain or actor.memories or q.memories:
        return False
    shapes = [[layer.weight.shape for layer in layers_of(body)] for body in (actor.body, value.body)]
    return shapes[0] == shapes[1]


class DenseGradient:
    """Computes the losses of a batch, and puts their gradient into each parameter's `grad`."""

    adds = False

    def __init__(self, networks: Networks) -> None:
        """From now on `networks` keep their parameters' tensors and their `grad`; both change in place."""
        actor, q, temperatures, value, target = networks
        self.actor = actor
        head = actor.actions
        self.xp: Any = np if head.weight.device.type == "cpu" else torch
        pairs = zip(layers_of(actor.body), layers_of(value.body), strict=True)
        self.states = [side_by_side(*pair) for pair in pairs]
        """Of actor and value, which read the same."""
        self.q = layers_of(q.body)
        self.q_head = Layer.held(q.head.weight, q.head.bias)
        self.first_q = [layer.stream(0) for layer in self.q]
        self.first_head = self.q_head.stream(0)
        self.target = [layer.stream(0) for layer in layers_of(target.body)]
        self.target_head = Layer.held(target.values.weight, target.values.bias)
        self.heads = [Layer.held(x.weight, x.bias) for x in (head, value.values)]
        """Of actor and value: [in, out] and [out]."""
        self.q_shape = (TWINS, -1, len(q.signals), q.outputs)
        self.signals = len(q.signals)
        self.continuous, self.spec = head.continuous_size, head.branches
        self.branches = BranchSums(self.spec.sizes, head.weight.device)
        self.members = self._array(self.branches.members)
        self.log_alpha = [self._array(x.detach()) for x in temperatures.log_alpha]
        self.d_log_alpha = [self._array(_gradient(x)) for x in temperatures.log_alpha]
        self.entropies = [self._array(x) for x in temperatures.entropies]

    @torch.no_grad()
    def __call__(self, batch: ReplayBatch, noise: Tensor) -> Losses:
        """As `DerivedGradient`, but that the gradient is written, not added."""
        xp, array = self.xp, self._array
        inputs, following = self._prepare(batch)
        seen = forward(self.states, inputs)
        columns, values = (
            torch.addmm(head.bias, seen.out[k], head.weight) for k, head in enumerate(self.heads)
        )
        gaussian, categoricals = self._policy(columns, batch.action_mask, noise)
        actions = None if gaussian is None else self._tensor(gaussian.actions)
        of_q, q = self._twins(inputs, batch.actions.continuous, actions)
        rows = inputs.shape[0]
        taken, sampled = q[:, :rows], q[:, -rows:]
        of_actions = array(self.branches.shares(batch.actions.discrete)) if categoricals else None
        of_policy = categoricals.p / self.branches.count if categoricals else None
        next_values = torch.addmm(
            self.target_head.bias, outputs(self.target, following), self.target_head.weight
        )
        targets = array(batch.rewards) + array(batch.discounts) * array(next_values)
        # The critics.
        weights = None if batch.weights is None else array(batch.weights)[:, None]
        error = _weighted(taken, of_actions) - targets
        q_losses, d_q = _squared(error, weights)
        alphas = [xp.exp(x) for x in self.log_alpha]
        expected = _weighted(sampled, of_policy)
        aims = xp.minimum(expected[0], expected[1]) - self._penalty(alphas, gaussian, categoricals)[:, None]
        value_loss, d_values = _squared(array(values) - aims, weights)
        # The policy.
        mean_q = sampled[0].sum(1) * (1.0 / self.signals)
        policy_loss, d_columns = self._policy_gradient(alphas, gaussian, categoricals, mean_q, of_q)
        self._temperature_gradient(gaussian, categoricals, rows)
        self._twins_backward(of_q.rows(slice(0, rows)), _spread(d_q, of_actions))
        self._states_backward(seen, self._tensor(d_columns), self._tensor(d_values))
        errors = self._tensor(abs(error).sum((0, 2)) * (1.0 / (TWINS * self.signals)))
        return Losses(policy_loss, q_losses[0], q_losses[1], value_loss, errors)

    def _array(self, tensor: Tensor) -> Array:
        """What the formulas take; it shares the tensor's memory."""
        return tensor.numpy() if self.xp is np else tensor

    def _tensor(self, array: Array) -> Tensor:
        tensor: Tensor = torch.from_numpy(array) if self.xp is np else array
        return tensor

    # Forwards -----------------------------------------------------------------------------------------

    def _prepare(self, batch: ReplayBatch) -> tuple[Tensor, Tensor]:
        """Both moments' observations, normalised in one go."""
        both = [torch.cat(pair) for pair in zip(batch.obs, batch.next_obs, strict=True)]
        (rows,) = self.actor.prepare(both)
        inputs, following = rows.chunk(2)
        return inputs, following

    def _policy(
        self, columns: Tensor, action_mask: Tensor | None, noise: Tensor
    ) -> tuple[SquashedGaussian | None, Categoricals | None]:
        n, shown = self.continuous, self.continuous + sum(self.spec.sizes)
        gaussian, categoricals = None, None
        if n:
            numbers = self._array(columns)
            gaussian = SquashedGaussian(self.xp, numbers[:, :n], numbers[:, shown:], self._array(noise))
        if self.spec.sizes:
            logits = columns[:, n:shown]
            d = ActionDistribution(columns[:, :0], columns[:, :0], logits, self.spec, action_mask)
            p, logs = self.spec.flat(d.probabilities), self.spec.flat(d.log_probabilities)
            forbidden = None if action_mask is None else self._array(action_mask)
            categoricals = Categoricals(self.xp, self._array(p), self._array(logs), self.members, forbidden)
        return gaussian, categoricals

    def _twins(self, inputs: Tensor, taken: Tensor, sampled: Tensor | None) -> tuple[Trace, Array]:
        """Both Q at the actions that were taken, and behind them at sampled ones: [2, rows, S, N]."""
        if sampled is not None:
            inputs = torch.cat((torch.cat((inputs, inputs)), torch.cat((taken, sampled))), 1)
        trace = forward(self.q, inputs)
        q = torch.baddbmm(self.q_head.bias, trace.out, self.q_head.weight)
        return trace, self._array(q).reshape(self.q_shape)

    # Backwards ----------------------------------------------------------------------------------------

    def _penalty(
        self, alphas: list[Array], gaussian: SquashedGaussian | None, categoricals: Categoricals | None
    ) -> Array:
        """[B] what is taken off a state's value for certainty there."""
        penalty: Array = 0.0
        if gaussian is not None:
            penalty = alphas[0] * gaussian.log_prob
        if categoricals is not None:
            penalty = penalty + (categoricals.certainty * alphas[1]).sum(1) / self.branches.count
        return penalty

    def _policy_gradient(
        self,
        alphas: list[Array],
        gaussian: SquashedGaussian | None,
        categoricals: Categoricals | None,
        mean_q: Array,
        of_q: Trace,
    ) -> tuple[Array, Array]:
        """The policy's loss, and its gradient by the columns of the head."""
        rows = mean_q.shape[0]
        times = (gaussian is not None) + (categoricals is not None)
        expected = mean_q[:, 0] if categoricals is None else (categoricals.p * mean_q).sum(1)
        loss = -times * expected
        parts: list[Array] = []
        if categoricals is not None:
            alpha = alphas[1] @ self.members.T
            loss = loss + (categoricals.p * categoricals.logs * alpha).sum(1)
            parts.append(categoricals.gradient((alpha * (categoricals.logs + 1.0) - times * mean_q) / rows))
        if gaussian is not None:
            loss = loss + alphas[0] * gaussian.log_prob
            weights = -times / (rows * self.signals)
            d_q = None if categoricals is None else self._tensor(categoricals.p * weights)
            d_actions = self._array(self._by_actions(of_q, rows, d_q, weights))
            d_mu, d_log_sigma = gaussian.gradient(alphas[0] / rows, d_actions)
            parts = [d_mu, *parts, d_log_sigma]
        columns = parts[0] if len(parts) == 1 else self.xp.concatenate(parts, 1)
        return loss.sum() / rows, columns

    def _by_actions(self, of_q: Trace, rows: int, d_q: Tensor | None, weight: float) -> Tensor:
        """The gradient by sampled actions through Q1 alone, whose gradient [rows, N] each signal has.

        `d_q` None: it is `weight` everywhere.
        """
        before = [sums[0, -rows:] for sums in of_q.before]
        head = self.first_head.weight_t
        if d_q is None:
            d_out = (head.sum(0, keepdim=True) * weight).expand(rows, -1)
        else:
            d_out = torch.mm(d_q, head.view(self.signals, d_q.shape[1], -1).sum(0))
        width = self.first_q[0].weight.shape[0]
        return by_inputs(self.first_q, before, d_out, slice(width - self.continuous, width))

    def _temperature_gradient(
        self, gaussian: SquashedGaussian | None, categoricals: Categoricals | None, rows: int
    ) -> None:
        """Of the loss of the temperatures, to its place."""
        if gaussian is not None:
            self.d_log_alpha[0][...] = -(gaussian.log_prob.sum() / rows + self.entropies[0])
        if categoricals is not None:
            missing = categoricals.certainty.sum(0) / rows + self.entropies[1]
            self.d_log_alpha[1][...] = -missing / self.branches.count

    def _twins_backward(self, trace: Trace, d_q: Array) -> None:
        """The gradients of both Q, for that by their values of taken actions [2, B, S, N]."""
        d = self._tensor(d_q).reshape(TWINS, -1, self.q_head.weight.shape[2])
        self.q_head.backward(trace.out, d)
        backward(self.q, trace, torch.bmm(d, self.q_head.weight_t))

    def _states_backward(self, seen: Trace, d_columns: Tensor, d_values: Tensor) -> None:
        """The gradients of actor and value, for those by what their heads give."""
        d_out = torch.empty_like(seen.out)
        for k, (head, d) in enumerate(zip(self.heads, (d_columns, d_values), strict=True)):
            torch.mm(seen.out[k].t(), d, out=head.d_weight)
            torch.sum(d, 0, out=head.d_bias)
            torch.mm(d, head.weight_t, out=d_out[k])
        backward(self.states, seen, d_out)


def _weighted(q: Array, weights: Array | None) -> Array:
    """[2, B, S, N] by weights [B, N] -> [2, B, S]; see `losses.weighted`."""
    return q[..., 0] if weights is None else (q * weights[:, None]).sum(-1)


def _spread(d: Array, weights: Array | None) -> Array:
    """The way back through `_weighted`."""
    return d[..., None] if weights is None else d[..., None] * weights[:, None]


def _squared(error: Array, weights: Array | None) -> tuple[Array, Array]:
    """0.5 of the mean square of errors [..., B, S] over the last two axes, and its gradient by them."""
    rows, signals = error.shape[-2:]
    weighted = error if weights is None else error * weights
    share = 1.0 / (rows * signals)
    return (weighted * error).sum((-2, -1)) * (0.5 * share), weighted * share


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
