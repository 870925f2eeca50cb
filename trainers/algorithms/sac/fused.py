"""The gradient of a SAC batch for networks of dense layers on vectors, without automatic differentiation.

The layers are those of `ppo.fused`; this module adds the action distributions and the losses with
their gradients. `SAC.update` with losses.py remains the definition, and what all other networks learn by;
tests compare the two.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ...buffers.replay.sampler import ReplayBatch
from ...networks.critics import TWINS
from ...networks.modules.distributions import EPSILON, LOG_SIGMA_RANGE, LOG_SQRT_2PI, ActionDistribution
from ..ppo.fused import (
    ArrayBackend,
    Layer,
    Trace,
    backward,
    forward,
    input_gradient,
    layers_of,
    outputs,
    side_by_side,
)
from ..ppo.loss_gradients import Array
from .forward import SACLosses, SACNetworks
from .losses import BranchSums


class SquashedGaussian:
    """tanh of Gaussian samples mu + sigma noise, and their log-probabilities; see `losses.sample_actions`."""

    def __init__(self, xp: Any, mu: Array, log_sigma: Array, noise: Array) -> None:
        """`log_sigma` as the network computes it, not clamped; all [B, A]. `xp`: the module of the arrays."""
        self.within_range = (log_sigma >= LOG_SIGMA_RANGE[0]) & (log_sigma <= LOG_SIGMA_RANGE[1])
        self.sigma = xp.exp(log_sigma.clip(*LOG_SIGMA_RANGE))
        self.deviation = self.sigma * noise
        raw = mu + self.deviation
        self.actions = xp.tanh(raw)
        """[B, A]."""
        self.square = self.deviation * self.deviation
        self.spread = 2.0 * self.sigma * self.sigma + EPSILON
        size = abs(raw)
        slope = 2.0 * (math.log(2.0) - size - xp.log1p(xp.exp(-2.0 * size)))  # ln(1 - tanh^2)
        logs = self.square / self.spread + xp.log(self.sigma + EPSILON) + (slope + LOG_SQRT_2PI)
        self.log_prob = -logs.sum(1)
        """[B], of all components together."""

    def gradient(self, d_log_prob: Array, d_actions: Array) -> tuple[Array, Array]:
        """Gradients of mu and log sigma [B, A], from those of `log_prob`, one for all rows, and `actions`."""
        a, sigma = self.actions, self.sigma
        d_mu = (2.0 * d_log_prob) * a + d_actions * (1.0 - a * a)
        of_exponent = (2.0 * EPSILON) * self.square / (self.spread * self.spread)
        direct = of_exponent + sigma / (sigma + EPSILON)
        d_log_sigma = (d_mu * self.deviation - d_log_prob * direct) * self.within_range
        return d_mu, d_log_sigma


class Categoricals:
    """All discrete actions, branches side by side."""

    def __init__(self, xp: Any, p: Array, log_probs: Array, members: Array, mask: Array | None) -> None:
        """`p` [B, N]; `log_probs` = ln(p + 1e-7); `members`: of `BranchSums`; `mask` [B, N]: forbidden."""
        self.softmax = p
        self.log_probs = log_probs
        self.p = xp.exp(log_probs)
        """The probabilities that the losses use."""
        self.members = members
        self.mask = mask
        self.negative_entropy = (self.p * log_probs) @ members
        """[B, K] the sum of p ln p."""

    def gradient(self, d_p: Array) -> Array:
        """The gradient of the logits, from that of `p` [B, N], in which that of ln p is included."""
        weighted = self.softmax * d_p
        d_logits: Array = weighted - self.softmax * (weighted @ self.members @ self.members.T)
        if self.mask is not None:
            d_logits[self.mask] = 0.0
        return d_logits


def is_fusible(networks: SACNetworks) -> bool:
    """Whether the networks are dense MLPs, actor and value of one shape, without memories."""
    actor, q, _, value, _ = networks
    dense = (
        actor.encoder.is_vectors_only and actor.body.is_dense_mlp and q.is_dense_mlp and value.is_dense_mlp
    )
    if not dense or actor.memories or q.memories:
        return False
    shapes = [[layer.weight.shape for layer in layers_of(body)] for body in (actor.body, value.body)]
    return shapes[0] == shapes[1]


class FusedSACGradient:
    """Computes the losses of a batch, and writes their gradient to each parameter's `grad`."""

    def __init__(self, networks: SACNetworks) -> None:
        """Keep the parameters' tensors and their `grad`, both of which from now on change in place only."""
        actor, q, temperatures, value, target = networks
        self.actor = actor
        head = actor.actions
        self.backend = ArrayBackend.of(head.weight.device)
        pairs = zip(layers_of(actor.body), layers_of(value.body), strict=True)
        self.actor_and_value = [side_by_side(*pair) for pair in pairs]
        """Two streams that read the same."""
        self.heads = [Layer.held(x.weight, x.bias) for x in (head, value.values)]
        """Of actor and value: [in, out] and [out]."""
        self.q = layers_of(q.body)
        self.q_head = Layer.held(q.head.weight, q.head.bias)
        self.q1 = [layer.stream(0) for layer in self.q]
        self.q1_head = self.q_head.stream(0)
        self.target = [layer.stream(0) for layer in layers_of(target.body)]
        self.target_head = Layer.held(target.values.weight, target.values.bias)
        self.signals = len(q.signals)
        self.q_shape = (TWINS, -1, self.signals, q.outputs)
        self.continuous, self.spec = head.continuous_size, head.branches
        self.branches = BranchSums(self.spec.sizes, head.weight.device)
        array = self.backend.array
        self.members = array(self.branches.members)
        self.log_alpha = [array(x.detach()) for x in temperatures.log_alpha]
        self.d_log_alpha = [array(_gradient(x)) for x in temperatures.log_alpha]
        self.target_entropies = [array(x) for x in temperatures.entropies]

    @torch.no_grad()
    def __call__(self, batch: ReplayBatch, noise: Tensor) -> SACLosses:
        """`noise` [B, A]: standard Gaussian, with which the policy's actions are sampled."""
        xp, array, tensor = self.backend
        # The observations of both moments, normalized together.
        (both,) = self.actor.prepare(
            [torch.cat(pair) for pair in zip(batch.obs, batch.next_obs, strict=True)]
        )
        inputs, next_inputs = both.chunk(2)
        rows = inputs.shape[0]
        # pi(a | o), V(o), Q1 and Q2 at the actions taken and at the policy's, V'(o')
        trace = forward(self.actor_and_value, inputs)
        columns, values = (
            torch.addmm(head.bias, trace.out[k], head.weight) for k, head in enumerate(self.heads)
        )
        gaussian, categoricals = self._policy(columns, batch.action_mask, noise)
        actions = None if gaussian is None else tensor(gaussian.actions)
        q_trace, q = self._q_values(inputs, batch.actions.continuous, actions)
        q_taken, q_sampled = q[:, :rows], q[:, -rows:]
        taken = array(self.branches.taken_weights(batch.actions.discrete)) if categoricals else None
        likely = categoricals.p / self.branches.count if categoricals else None
        head = self.target_head
        next_values = torch.addmm(head.bias, outputs(self.target, next_inputs), head.weight)
        # J_Q: y = r + gamma V'(o')
        weights = None if batch.weights is None else array(batch.weights)[:, None]
        targets = array(batch.rewards) + array(batch.discounts) * array(next_values)
        error = _expected_q(q_taken, taken) - targets
        q_losses, d_q = _squared_error(error, weights)
        # J_V: min(Q1, Q2) - alpha ln pi
        alphas = [xp.exp(x) for x in self.log_alpha]
        expected = _expected_q(q_sampled, likely)
        penalty = self._entropy_penalty(alphas, gaussian, categoricals)
        value_targets = xp.minimum(expected[0], expected[1]) - penalty[:, None]
        value_loss, d_values = _squared_error(array(values) - value_targets, weights)
        # J_pi and J_alpha
        mean_q = q_sampled[0].sum(1) * (1.0 / self.signals)
        policy_loss, d_columns = self._policy_loss(alphas, gaussian, categoricals, mean_q, q_trace)
        self._temperature_backward(gaussian, categoricals, rows)
        d_taken = d_q[..., None] if taken is None else d_q[..., None] * taken[:, None]
        self._q_backward(q_trace.rows(slice(0, rows)), d_taken)
        self._actor_and_value_backward(trace, tensor(d_columns), tensor(d_values))
        td_errors = tensor(abs(error).sum((0, 2)) * (1.0 / (TWINS * self.signals)))
        return SACLosses(policy_loss, q_losses[0], q_losses[1], value_loss, td_errors)

    # Forward ------------------------------------------------------------------------------------------

    def _policy(
        self, columns: Tensor, action_mask: Tensor | None, noise: Tensor
    ) -> tuple[SquashedGaussian | None, Categoricals | None]:
        xp, array, _ = self.backend
        n, shown = self.continuous, self.continuous + sum(self.spec.sizes)
        gaussian, categoricals = None, None
        if n:
            own = array(columns)
            gaussian = SquashedGaussian(xp, own[:, :n], own[:, shown:], array(noise))
        if self.spec.sizes:
            logits = columns[:, n:shown]
            d = ActionDistribution(columns[:, :0], columns[:, :0], logits, self.spec, action_mask)
            p, log_probs = self.spec.flat(d.probabilities), self.spec.flat(d.log_probabilities)
            mask = None if action_mask is None else array(action_mask)
            categoricals = Categoricals(xp, array(p), array(log_probs), self.members, mask)
        return gaussian, categoricals

    def _q_values(self, inputs: Tensor, taken: Tensor, sampled: Tensor | None) -> tuple[Trace, Array]:
        """Q1 and Q2 at the actions taken, and in the following rows at sampled ones: [2, rows, S, N]."""
        if sampled is not None:
            inputs = torch.cat((torch.cat((inputs, inputs)), torch.cat((taken, sampled))), 1)
        trace = forward(self.q, inputs)
        q = torch.baddbmm(self.q_head.bias, trace.out, self.q_head.weight)
        return trace, self.backend.array(q).reshape(self.q_shape)

    def _entropy_penalty(
        self, alphas: list[Array], gaussian: SquashedGaussian | None, categoricals: Categoricals | None
    ) -> Array:
        """[B] alpha ln pi."""
        penalty: Array = 0.0
        if gaussian is not None:
            penalty = alphas[0] * gaussian.log_prob
        if categoricals is not None:
            penalty = penalty + (categoricals.negative_entropy * alphas[1]).sum(1) / self.branches.count
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
        """E [alpha ln pi - Q1], and its gradient of the columns of the head."""
        rows = mean_q.shape[0]
        times = (gaussian is not None) + (categoricals is not None)
        expected = mean_q[:, 0] if categoricals is None else (categoricals.p * mean_q).sum(1)
        loss = -times * expected
        gradients: list[Array] = []
        if categoricals is not None:
            alpha = alphas[1] @ self.members.T
            log_probs = categoricals.log_probs
            loss = loss + (categoricals.p * log_probs * alpha).sum(1)
            gradients.append(categoricals.gradient((alpha * (log_probs + 1.0) - times * mean_q) / rows))
        if gaussian is not None:
            loss = loss + alphas[0] * gaussian.log_prob
            weight = -times / (rows * self.signals)
            d_q = None if categoricals is None else self.backend.tensor(categoricals.p * weight)
            d_actions = self.backend.array(self._action_gradient(q_trace, rows, d_q, weight))
            d_mu, d_log_sigma = gaussian.gradient(alphas[0] / rows, d_actions)
            gradients = [d_mu, *gradients, d_log_sigma]
        columns = gradients[0] if len(gradients) == 1 else self.backend.xp.concatenate(gradients, 1)
        return loss.sum() / rows, columns

    def _action_gradient(self, q_trace: Trace, rows: int, d_q: Tensor | None, weight: float) -> Tensor:
        """The gradient of the sampled actions through Q1, whose own gradient is [rows, N] for each signal.

        `d_q` None: it is `weight` everywhere.
        """
        sums = [layer[0, -rows:] for layer in q_trace.sums]
        head = self.q1_head.weight_t
        if d_q is None:
            d_out = (head.sum(0, keepdim=True) * weight).expand(rows, -1)
        else:
            d_out = torch.mm(d_q, head.view(self.signals, d_q.shape[1], -1).sum(0))
        width = self.q1[0].weight.shape[0]
        return input_gradient(self.q1, sums, d_out, slice(width - self.continuous, width))

    def _temperature_backward(
        self, gaussian: SquashedGaussian | None, categoricals: Categoricals | None, rows: int
    ) -> None:
        """Write the gradient of the temperatures' loss."""
        if gaussian is not None:
            self.d_log_alpha[0][...] = -(gaussian.log_prob.sum() / rows + self.target_entropies[0])
        if categoricals is not None:
            gap = categoricals.negative_entropy.sum(0) / rows + self.target_entropies[1]
            self.d_log_alpha[1][...] = -gap / self.branches.count

    def _q_backward(self, trace: Trace, d_q: Array) -> None:
        """Write the gradients of Q1 and Q2, from that of their values of taken actions [2, B, S, N]."""
        d = self.backend.tensor(d_q).reshape(TWINS, -1, self.q_head.weight.shape[2])
        self.q_head.backward(trace.out, d)
        backward(self.q, trace, torch.bmm(d, self.q_head.weight_t))

    def _actor_and_value_backward(self, trace: Trace, d_columns: Tensor, d_values: Tensor) -> None:
        """Write the gradients of actor and value, from those of their heads' outputs."""
        d_out = torch.empty_like(trace.out)
        for k, (head, d) in enumerate(zip(self.heads, (d_columns, d_values), strict=True)):
            head.head_backward(trace.out[k], d)
            torch.mm(d, head.weight_t, out=d_out[k])
        backward(self.actor_and_value, trace, d_out)


def _expected_q(q: Array, weights: Array | None) -> Array:
    """[2, B, S, N] with weights [B, N] -> [2, B, S]; see `losses.expected_q`."""
    return q[..., 0] if weights is None else (q * weights[:, None]).sum(-1)


def _squared_error(error: Array, weights: Array | None) -> tuple[Array, Array]:
    """0.5 the mean square of errors [..., B, S] over the last two axes, and its gradient."""
    rows, signals = error.shape[-2:]
    weighted = error if weights is None else error * weights
    factor = 1.0 / (rows * signals)
    return (weighted * error).sum((-2, -1)) * (0.5 * factor), weighted * factor


def _gradient(parameter: Tensor) -> Tensor:
    assert isinstance(parameter, nn.Parameter) and parameter.grad is not None
    return parameter.grad
