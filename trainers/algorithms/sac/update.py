"""One gradient step of SAC, by automatic differentiation; for networks of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...buffers.replay.sampler import ReplayBatch
from ...networks.actor import Actor
from ...networks.modules.distributions import Actions
from ...networks.modules.precision import Precision, widened
from ...networks.observations import as_float
from ...networks.sac import TWINS, Sequences, Temperatures, TwinQ, ValueNetwork
from .losses import (
    BranchSums,
    Sampled,
    entropy_penalty,
    policy_loss,
    q_targets,
    sample,
    squared_error,
    temperature_loss,
    value_targets,
    weighted,
)

VALUE_STATES = "value_states"
"""The column of a replay that holds V's states before each sequence, in the rows of the first steps."""


class Networks(NamedTuple):
    """All that SAC learns, and the slow copy that it aims at."""

    actor: Actor
    q: TwinQ
    temperatures: Temperatures
    value: ValueNetwork
    target: ValueNetwork


class Losses(NamedTuple):
    """Of one gradient step; scalars without a gradient, tensors or NumPy's."""

    policy: Any
    q1: Any
    q2: Any
    value: Any
    errors: Any
    """[B] how far Q is from its target, the mean over the twins and the signals."""


class DerivedGradient:
    """Computes the losses of a batch, and adds their gradient to each parameter's `grad`."""

    adds = True
    """To what lies there; False: it is written over."""

    def __init__(
        self, networks: Networks, sequences: Sequences | None, lead: int, precision: Precision, device: Any
    ) -> None:
        """`sequences` with a memory; `lead`: steps from an observation to the one that bootstraps it."""
        self.networks = networks
        self.sequences = sequences
        self.lead = lead
        self.precision = precision
        self.device: torch.device = device
        self.branches = BranchSums(networks.actor.actions.branches.sizes, device)
        self.of_policy = list(networks.actor.parameters())
        self.of_critics = [
            p for network in (networks.q, networks.value, networks.temperatures) for p in network.parameters()
        ]

    def __call__(self, batch: ReplayBatch, noise: Tensor) -> Losses:
        """`noise` [B, A]: standard Gaussian, by which the policy's actions are drawn."""
        with self.precision.passes(self.device):
            seen = self._forward(batch, noise)
        learnt = self.sequences.learnt if self.sequences else _same
        actions = Actions(*(learnt(column) for column in batch.actions))
        real = None if batch.real is None else learnt(batch.real)
        weights = None if batch.weights is None else learnt(batch.weights)
        log_probs, branches, temperatures = seen.sampled.log_probs, self.branches, self.networks.temperatures
        of_policy, of_actions = None, None
        if log_probs.discrete is not None:
            of_policy = log_probs.discrete.detach().exp() / branches.count
            of_actions = branches.shares(actions.discrete.long())
        with torch.no_grad():
            targets = q_targets(learnt(batch.rewards), learnt(batch.discounts), seen.next_values)
            penalty = entropy_penalty(temperatures.alpha, log_probs, branches)
            aims = value_targets(weighted(seen.q_sampled, of_policy), penalty)
        q = weighted(seen.q_taken, of_actions)
        q1, q2 = (squared_error(q[k], targets, weights, real) for k in range(TWINS))
        value = squared_error(seen.values, aims, weights, real)
        policy = policy_loss(temperatures.alpha, log_probs, seen.q_sampled[0], branches, real)
        temperature = temperature_loss(
            temperatures.log_alpha, temperatures.entropies, log_probs, branches, real
        )
        _backward(policy, self.of_policy)
        _backward(q1 + q2 + value + temperature, self.of_critics)
        errors = (targets - q.detach()).abs().mean((0, 2))
        return Losses(policy.detach(), q1.detach(), q2.detach(), value.detach(), self._of_all(errors))

    def _of_all(self, errors: Tensor) -> Tensor:
        """With zeros for steps of the burn-in."""
        if self.sequences is None or not self.sequences.burn_in:
            return errors
        rows = errors.view(-1, self.sequences.length - self.sequences.burn_in)
        return nn.functional.pad(rows, (self.sequences.burn_in, 0)).flatten()

    # The passes through the networks ------------------------------------------------------------------

    def _forward(self, batch: ReplayBatch, noise: Tensor) -> _Seen:
        actor = self.networks.actor
        inputs = [as_float(rows) for rows in actor.prepare(batch.obs)]
        following = [as_float(rows) for rows in actor.prepare(batch.next_obs)]
        if self.sequences is None:
            return self._pass(batch, noise, inputs, following)
        return self._pass_with_memory(batch, noise, inputs, following, self.sequences)

    def _pass(
        self, batch: ReplayBatch, noise: Tensor, inputs: Sequence[Tensor], following: Sequence[Tensor]
    ) -> _Seen:
        actor, q, _, value, target = self.networks
        sampled = sample(actor.act(inputs, batch.action_mask).widened(), noise)
        encodings = q.encode(inputs)
        q_taken = widened(q(encodings, batch.actions.continuous))
        q_sampled = q_taken.detach()
        if sampled.log_probs.continuous is not None:
            q_sampled = widened(q(encodings.detach(), sampled.continuous))
        with torch.no_grad():
            next_values = widened(target(following))
        return _Seen(sampled, q_taken, q_sampled, widened(value(inputs)), next_values)

    def _pass_with_memory(
        self,
        batch: ReplayBatch,
        noise: Tensor,
        inputs: Sequence[Tensor],
        following: Sequence[Tensor],
        sequences: Sequences,
    ) -> _Seen:
        """As ML-Agents: Q's memories begin each sequence with zeros, V's as they were in their time."""
        actor, q, _, value, target = self.networks
        assert batch.states is not None, "a network with a memory learns from states"
        mask = None if batch.action_mask is None else sequences.learnt(batch.action_mask)
        said = sequences.run(actor.memory(0), actor.actor_encoding(inputs), batch.states)
        sampled = sample(actor.actions(said, mask).widened(), sequences.learnt(noise))
        encodings = q.encode(inputs)
        q_taken, q_sampled = self._twins(q, encodings, batch.actions.continuous, sampled, sequences)
        start = batch.extra[VALUE_STATES][:: sequences.length]
        values = value.values(sequences.run(value.memory, value.encoding(inputs), start))
        with torch.no_grad():
            next_values = self._following(target, inputs, following, start, sequences)
        return _Seen(sampled, q_taken, q_sampled, widened(values), widened(next_values))

    @staticmethod
    def _twins(
        q: TwinQ, encodings: Tensor, taken: Tensor, sampled: Sampled, sequences: Sequences
    ) -> tuple[Tensor, Tensor]:
        """Q of the actions that were taken, and of sampled ones in their place behind the burn-in."""
        count = len(taken) // sequences.length
        start = [encodings.new_zeros(count, q.memory(k).size).float() for k in range(TWINS)]
        hidden = q.bodies(encodings, taken)
        q_taken = widened(q.over_sequences(hidden, start, sequences))
        if sampled.log_probs.continuous is None:
            return q_taken, q_taken.detach()
        warm = [sequences.warm(q.memory(k), hidden[k].detach(), start[k]) for k in range(TWINS)]
        behind = Sequences(sequences.length - sequences.burn_in)
        features = torch.stack([sequences.learnt(encodings[k]) for k in range(TWINS)]).detach()
        others = q.bodies(features, sampled.continuous)
        return q_taken, widened(q.over_sequences(others, warm, behind))

    def _following(
        self,
        target: ValueNetwork,
        inputs: Sequence[Tensor],
        following: Sequence[Tensor],
        start: Tensor,
        sequences: Sequences,
    ) -> Tensor:
        """The target's values where the returns bootstrap; its memory goes through what came before them.

        That is the sequence's first `lead` observations, behind which the bootstrapping ones follow.
        """
        lead = min(self.lead, sequences.length)
        encodings = target.encoding(following)
        first = Sequences(sequences.length, lead)
        before = first.warm(target.memory, target.encoding(inputs), start)
        values: Tensor = target.values(sequences.run(target.memory, encodings, before))
        return values


class _Seen(NamedTuple):
    """What the networks give at the rows that are learnt from."""

    sampled: Sampled
    q_taken: Tensor
    """[2, B, S, N] at the actions of the replay."""
    q_sampled: Tensor
    """[2, B, S, N] at the policy's; gradients go to these alone."""
    values: Tensor
    next_values: Tensor
    """[B, S], of the target network."""


def _backward(loss: Tensor, parameters: Sequence[nn.Parameter]) -> None:
    """Add the gradient by these alone to their `grad`."""
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]


def _same(rows: Tensor) -> Tensor:
    return rows
