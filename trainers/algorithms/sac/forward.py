"""The passes of a batch through all networks of SAC, for networks of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...buffers.replay.sampler import ReplayBatch
from ...networks.actor import Actor
from ...networks.critics import TWINS, BurnInSequences, Temperatures, TwinQ, ValueNetwork
from ...networks.modules.distributions import Actions
from ...networks.modules.passes import widened
from ...networks.observations import as_float
from .losses import SampledActions, sample_actions

VALUE_STATES = "value_states"
"""The replay column of V's states before each sequence, in the rows of the first steps."""


class SACNetworks(NamedTuple):
    """All that SAC trains, and the target network."""

    actor: Actor
    q: TwinQ
    temperatures: Temperatures
    value: ValueNetwork
    target: ValueNetwork


class SACLosses(NamedTuple):
    """The losses of one gradient step: scalars without a gradient, tensors or NumPy's."""

    policy: Any
    q1: Any
    q2: Any
    value: Any
    td_errors: Any
    """[B] the distance of Q from its target, the mean over the twins and the signals; with a burn-in only the
    steps after it count."""


class Outputs(NamedTuple):
    """What the networks give at the B rows that are learned from."""

    sampled: SampledActions
    q_taken: Tensor
    """[2, B, S, N] the values of Q at the actions of the replay."""
    q_sampled: Tensor
    """[2, B, S, N] the values of Q at the policy's actions; gradients flow to these only."""
    values: Tensor
    next_values: Tensor
    """[B, S] the target network's values of the next observations."""


class ForwardPass:
    """Passes a batch through policy, critics and target; with memories, through whole sequences."""

    def __init__(self, networks: SACNetworks, sequences: BurnInSequences | None) -> None:
        """Keep the networks; `sequences` says how batches are read where networks have memories."""
        self.networks = networks
        self.sequences = sequences

    def __call__(self, batch: ReplayBatch, noise: Tensor) -> Outputs:
        """Pass a batch through; `noise` [B, A], standard Gaussian, samples the policy's actions."""
        actor = self.networks.actor
        inputs = [as_float(rows) for rows in actor.prepare(batch.obs)]
        next_inputs = [as_float(rows) for rows in actor.prepare(batch.next_obs)]
        if self.sequences is None:
            return self._single_steps(batch, noise, inputs, next_inputs)
        return self._whole_sequences(batch, noise, inputs, next_inputs, self.sequences)

    def without_burn_in(self, batch: ReplayBatch) -> ReplayBatch:
        """The batch with those columns that the losses read cut to the rows that are learned from."""
        if self.sequences is None:
            return batch
        learned = self.sequences.learned
        return replace(
            batch,
            actions=Actions(*(learned(column) for column in batch.actions)),
            rewards=learned(batch.rewards),
            discounts=learned(batch.discounts),
            weights=None if batch.weights is None else learned(batch.weights),
            real=None if batch.real is None else learned(batch.real),
        )

    def _single_steps(
        self, batch: ReplayBatch, noise: Tensor, inputs: Sequence[Tensor], next_inputs: Sequence[Tensor]
    ) -> Outputs:
        actor, q, _, value, target = self.networks
        sampled = sample_actions(actor.act(inputs, batch.action_mask).widened(), noise)
        encodings = q.encode(inputs)
        q_taken = widened(q(encodings, batch.actions.continuous))
        q_sampled = q_taken.detach()
        if sampled.log_probs.continuous is not None:
            q_sampled = widened(q(encodings.detach(), sampled.continuous))
        with torch.no_grad():
            next_values = widened(target(next_inputs))
        return Outputs(sampled, q_taken, q_sampled, widened(value(inputs)), next_values)

    def _whole_sequences(
        self,
        batch: ReplayBatch,
        noise: Tensor,
        inputs: Sequence[Tensor],
        next_inputs: Sequence[Tensor],
        sequences: BurnInSequences,
    ) -> Outputs:
        """Run sequences as ML-Agents does: Q's memories start with zeros, V's with the state of that time."""
        actor, q, _, value, target = self.networks
        assert batch.states is not None, "a network with a memory learns from states"
        mask = None if batch.action_mask is None else sequences.learned(batch.action_mask)
        encoding = sequences.run(actor.memory(0), actor.actor_encoding(inputs), batch.states)
        sampled = sample_actions(actor.actions(encoding, mask).widened(), sequences.learned(noise))
        encodings = q.encode(inputs)
        q_taken, q_sampled = self._q_values(q, encodings, batch.actions.continuous, sampled, sequences)
        start = batch.extra[VALUE_STATES][:: sequences.length]
        values = value.values(sequences.run(value.memory(), value.encoding(inputs), start))
        with torch.no_grad():
            next_values = self._next_values(target, inputs, next_inputs, start, sequences)
        return Outputs(sampled, q_taken, q_sampled, widened(values), widened(next_values))

    @staticmethod
    def _q_values(
        q: TwinQ, encodings: Tensor, taken: Tensor, sampled: SampledActions, sequences: BurnInSequences
    ) -> tuple[Tensor, Tensor]:
        """Q of the actions taken, and of sampled ones in their place after the burn-in."""
        count = len(taken) // sequences.length
        start = [encodings.new_zeros(count, q.memory(k).size).float() for k in range(TWINS)]
        hidden = q.bodies(encodings, taken)
        q_taken = widened(q.over_sequences(hidden, start, sequences))
        if sampled.log_probs.continuous is None:
            return q_taken, q_taken.detach()
        warm = [sequences.warm_up(q.memory(k), hidden[k].detach(), start[k]) for k in range(TWINS)]
        after_burn_in = BurnInSequences(sequences.length - sequences.burn_in)
        features = torch.stack([sequences.learned(encodings[k]) for k in range(TWINS)]).detach()
        others = q.bodies(features, sampled.continuous)
        return q_taken, widened(q.over_sequences(others, warm, after_burn_in))

    @staticmethod
    def _next_values(
        target: ValueNetwork,
        inputs: Sequence[Tensor],
        next_inputs: Sequence[Tensor],
        start: Tensor,
        sequences: BurnInSequences,
    ) -> Tensor:
        """The target's values of the observations that bootstrap the returns.

        The target's memory first runs through the first observation of the sequence, which precedes those.
        (Returns must therefore be of one step.)
        """
        encodings = target.encoding(next_inputs)
        first = BurnInSequences(sequences.length, 1)
        states = first.warm_up(target.memory(), target.encoding(inputs), start)
        values: Tensor = target.values(sequences.run(target.memory(), encodings, states))
        return values
