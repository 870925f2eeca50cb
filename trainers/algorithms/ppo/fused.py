"""The gradient of PPO's objective without automatic differentiation, and the dense layers that SAC shares.

A minibatch of a few dozen rows is bound by the number of calls, not by arithmetic, and automatic
differentiation makes half of them. Here the gradient is written down layer by layer and lands in the vector
that the optimizer reads. `Body`, autograd and the objective in `PPO.update` remain the definition, by which
all other networks learn; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...buffers.rollout_buffer import RolloutBatch
from ...networks.actor_critic import ActorCritic
from ...networks.modules.body import Body, DenseStack
from ...networks.modules.distributions import BLOCKED_LOGIT, Actions
from ...networks.modules.packed_memory import PackedMemory, streams_of
from ...networks.modules.packing import Packing
from .loss_gradients import Array, Categorical, Gaussian, squared_error, surrogate

silu_backward = torch.ops.aten.silu_backward.default

Statistics = tuple[Array, Array, Array, Array]
"""Policy loss, value loss, approximate KL divergence and clip fraction of a minibatch, each a scalar."""


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
        none = torch.empty(0, device=weight.device)
        d_weight, d_bias = (none if p.grad is None else p.grad for p in (weight, bias))
        return cls.of(weight.detach(), bias.detach(), d_weight, d_bias)

    def stream(self, index: int) -> Layer:
        """A single network: [in, out] and [1, out]."""
        return Layer.of(*(t[index] for t in (self.weight, self.bias, self.d_weight, self.d_bias)))


def layers_of(body: Body) -> list[Layer]:
    """The layers of a body that is a dense MLP, all its networks."""
    return [Layer.held(layer.weight, layer.bias) for layer in body.layers if isinstance(layer, DenseStack)]


def side_by_side(first: Layer, second: Layer) -> Layer:
    """Two networks' layers [1, in, out], which lie in one vector in this order, as one layer of S = 2."""
    pairs = [(one[0], other[0]) for one, other in zip(first, second, strict=True)]
    return Layer.of(*(streams_of(pairs[k]) for k in (0, 1, 3, 4)))


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
        into.append(functional.silu(sums[-1]))
    return Trace(into, sums)


def backward(layers: Sequence[Layer], trace: Trace, d_out: Tensor) -> None:
    """Write the gradients of all parameters, from that of `trace.out` [S, B, hidden]."""
    for index in range(len(layers) - 1, -1, -1):
        layer = layers[index]
        d_sums = silu_backward(d_out, trace.sums[index])
        torch.bmm(trace.into[index].transpose(1, 2), d_sums, out=layer.d_weight)
        torch.sum(d_sums, 1, keepdim=True, out=layer.d_bias)
        if index:
            d_out = torch.bmm(d_sums, layer.weight_t)


class FusedPPOGradient:
    """Writes the gradient of the objective of a minibatch to each parameter's `grad`."""

    def __init__(self, network: ActorCritic) -> None:
        """From now on `network` must keep its parameters' tensors and their `grad`; both change in place."""
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
        self.continuous = network.actions.continuous_size
        self.branches = network.actions.branches

    @torch.no_grad()
    def __call__(self, batch: RolloutBatch, epsilon: float | Tensor, beta: float | Tensor) -> Statistics:
        """The gradient of policy loss + 0.5 value loss - beta entropy; returns the minibatch's statistics."""
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
        policy_loss, approx_kl, clip_fraction, d_columns = self._policy(columns, batch, epsilon, beta)
        value_loss, d_values = squared_error(array(values), array(batch.returns))
        d_hidden = self._heads_backward(hidden, tensor(d_columns), tensor(d_values))
        if packing is not None:
            d_hidden = recalled.backward(d_hidden)
        backward(self.layers, trace, d_hidden)
        return policy_loss, value_loss, approx_kl, clip_fraction

    def _policy(
        self, columns: Tensor, batch: RolloutBatch, epsilon: float | Tensor, beta: float | Tensor
    ) -> tuple[Array, Array, Array, Array]:
        """Policy loss, statistics, and the gradient by means and logits; that by log sigma is written."""
        n = self.continuous
        xp, array, tensor = self.backend
        gaussian, categorical = None, None
        log_probs: list[Array] = []
        if n:
            actions = array(batch.actions.continuous)
            gaussian = Gaussian(xp, array(columns)[:, :n], array(self.log_sigma), actions)
            log_probs.append(gaussian.log_probs)
        if self.branches.sizes:
            logits = self._by_action(columns[:, n:], batch.action_mask)
            categorical = Categorical(xp, array(logits), array(batch.actions.discrete))
            log_probs.append(categorical.log_probs)
        joined = log_probs[0] if len(log_probs) == 1 else xp.concatenate(log_probs, 1)
        loss, approx_kl, clip_fraction, d_log_probs = surrogate(
            xp, joined, array(batch.old_log_probs), array(batch.advantages), epsilon
        )
        parts: list[Array] = []
        if gaussian is not None:
            parts.append(gaussian.gradient(d_log_probs[:, :n], -beta, array(self.d_log_sigma)))
        if categorical is not None:
            d_logits = tensor(categorical.gradient(d_log_probs[:, n:], -beta))
            parts.append(array(self._by_row(d_logits, batch.action_mask)))
        return loss, approx_kl, clip_fraction, parts[0] if len(parts) == 1 else xp.concatenate(parts, 1)

    def _by_action(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """[B, sum of branch sizes] -> [widest, B K], as `ActionDistribution` takes them."""
        if mask is not None:
            logits = logits.masked_fill(mask, BLOCKED_LOGIT)
        return self.branches.rectangular(logits).permute(2, 0, 1).contiguous().flatten(1)

    def _by_row(self, d_logits: Tensor, mask: Tensor | None) -> Tensor:
        """The way back, for gradients; those of forbidden actions are 0."""
        shape = (self.branches.widest, -1, len(self.branches.sizes))
        flat = self.branches.flat(d_logits.view(shape).permute(1, 2, 0))
        return flat if mask is None else flat.masked_fill(mask, 0.0)

    def _states(self, batch: RolloutBatch, streams: int) -> Tensor:
        """[streams, sequences, memory_size]"""
        assert batch.actor_states is not None and batch.critic_states is not None
        return torch.stack((batch.actor_states, batch.critic_states)[:streams])

    def _heads_backward(self, hidden: Tensor, d_columns: Tensor, d_values: Tensor) -> Tensor:
        """Write the gradients of both heads; the gradient of what they read [streams, B, width]."""
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
    """The real rows of a minibatch of padded sequences."""
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
