"""One update: minibatches of the steps that have come in, and the gradients that they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...networks.modules.distributions import Actions
from ...networks.modules.exploration import ExploringDistribution
from ...networks.modules.precision import Precision, widened
from ...networks.modules.sequences import PackedSequences
from ..common.optim import CheckedAdam
from .critic import Steps, Table
from .losses import clipped_losses, critic_loss, of_actions, policy_gradient_loss
from .networks import COMANetworks
from .steps import Ints, RosterSteps, first_steps, places_of


class Rates(NamedTuple):
    """What the schedules say at an update."""

    learning_rate: float
    epsilon: float
    beta: float
    step: int
    """The trainer's."""


class RosterMinibatch(NamedTuple):
    """B agent-steps; each row that they reach stands in it once."""

    inputs: list[Tensor]
    table: Table
    steps: Steps
    actions: Tensor
    """[B, branches] int64."""
    action_mask: Tensor | None
    old_log_probs: Tensor
    exploration: Tensor
    targets: Tensor
    """[B, signals]."""
    advantages: Tensor
    """[B, branches]."""
    actor_runs: PackedSequences | None
    critic_runs: PackedSequences | None


class RosterMinibatches:
    """The steps of one update on the learner's device. Nothing in it changes."""

    def __init__(
        self,
        networks: COMANetworks,
        steps: RosterSteps,
        precision: Precision = Precision.FLOAT32,
        *,
        normalize_advantages: bool,
    ) -> None:
        nets = self.networks = networks
        self._precision = precision
        own, self._roster = steps.linked()
        self._own = own
        self._places = places_of(own, self._roster)
        obs = [nets.tensor(o) for o in steps.obs]
        with torch.no_grad():
            self._inputs = nets.actors.prepare(obs)
            self._seen, self._states = nets.critic.prepare(obs)
        self._discrete = nets.discrete(steps.discrete)
        self._mask = nets.mask(steps.action_mask)
        self._log_probs, self._exploration = nets.tensor(steps.log_probs), nets.tensor(steps.exploration)
        self._targets = nets.tensor(steps.returns)
        advantages = steps.advantages
        if normalize_advantages:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-10)
        self._advantages = nets.tensor(advantages.astype(np.float32))
        self._lengths = steps.lengths
        self._actor_states, self._critic_states = steps.actor_states, steps.critic_states

    def __len__(self) -> int:
        return len(self._own)

    @property
    def recurrent(self) -> bool:
        """Whether whole trajectories have to stay together."""
        return self._actor_states is not None or self._critic_states is not None

    # Minibatches --------------------------------------------------------------------------------------

    def shuffled(self, size: int, shuffler: torch.Generator) -> Iterator[RosterMinibatch]:
        """One epoch in a fresh order; what does not fill a minibatch sits it out.

        With a memory, trajectories are drawn whole, as many as have about `size` steps.
        """
        units = self._lengths if self.recurrent else np.ones(len(self), dtype=np.int64)
        order = torch.randperm(len(units), generator=shuffler, device="cpu").numpy()
        ends = np.cumsum(units[order])
        number = len(self) // size
        cuts = np.searchsorted(ends, size * np.arange(1, number + 1)) + 1
        for start, stop in zip([0, *cuts.tolist()], cuts.tolist()):
            if stop > start:
                yield self._minibatch(order[start:stop])

    def in_order(self, size: int) -> Iterator[RosterMinibatch]:
        """All steps, each once, in parts of about `size`."""
        units = self._lengths if self.recurrent else np.ones(len(self), dtype=np.int64)
        portion = (np.cumsum(units) - 1) // size
        for part in np.split(np.arange(len(units)), np.flatnonzero(np.diff(portion)) + 1):
            yield self._minibatch(part)

    def _minibatch(self, units: Ints) -> RosterMinibatch:
        """Of these steps, or, with a memory, trajectories."""
        nets, which = self.networks, units
        actor_runs = critic_runs = None
        if self.recurrent:
            lengths = self._lengths[units]
            starts = first_steps(self._lengths)[units]
            which = np.repeat(starts - first_steps(lengths), lengths) + np.arange(lengths.sum())
            if self._actor_states is not None:
                actor_runs = PackedSequences(lengths.tolist(), nets.tensor(self._actor_states[units]))
            if self._critic_states is not None:
                critic_runs = PackedSequences(lengths.tolist(), nets.tensor(self._critic_states[units]))
        roster = self._roster[which]
        rows, at = np.unique(roster, return_inverse=True)  # a step's own row is in its roster
        at = at.reshape(roster.shape)
        if rows[0] < 0:  # who is absent comes first; the critic has them last
            rows = rows[1:]
            at = np.where(at == 0, len(rows), at - 1)
        places = self._places[which]
        steps = Steps(nets.tensor(at[np.arange(len(which)), places]), nets.tensor(at), nets.tensor(places))
        chosen, picked = nets.tensor(rows), nets.tensor(which)
        actions = self._discrete[chosen]
        states = None if self._states is None else [x[chosen] for x in self._states]
        return RosterMinibatch(
            [x[chosen] for x in self._inputs],
            nets.critic.table([x[chosen] for x in self._seen], states, actions),
            steps,
            actions[steps.own],
            None if self._mask is None else self._mask[picked],
            self._log_probs[picked],
            self._exploration[picked],
            self._targets[picked],
            self._advantages[picked],
            actor_runs,
            critic_runs,
        )

    # Gradients ----------------------------------------------------------------------------------------

    def clipped_step(
        self, batch: RosterMinibatch, actor: CheckedAdam, critic: CheckedAdam, rates: Rates
    ) -> tuple[Tensor, Tensor]:
        """One gradient step of both; the policy loss and the value loss."""
        policy = self._policy(batch)
        losses = clipped_losses(
            policy.log_probs(_as_actions(policy, batch)),
            batch.old_log_probs,
            batch.advantages,
            policy.entropy(),
            self._taken(batch),
            batch.targets,
            self.networks.critic.scale,
            rates.epsilon,
            rates.beta,
        )
        actor.zero_grad()
        critic.zero_grad()
        losses.total.backward()  # type: ignore[no-untyped-call]
        actor.step(rates.learning_rate, rates.step)
        critic.step(rates.learning_rate, rates.step)
        return losses.policy.detach(), losses.value.detach()

    def critic_step(self, batch: RosterMinibatch, critic: CheckedAdam, rates: Rates) -> Tensor:
        """One gradient step of the critic alone; its loss."""
        loss = critic_loss(self._taken(batch), batch.targets, self.networks.critic.scale)
        critic.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        critic.step(rates.learning_rate, rates.step)
        return loss.detach()

    def policy_step(self, size: int, actor: CheckedAdam, rates: Rates) -> Tensor:
        """One step along the policy gradient of all steps together; the loss without entropy (absolute)."""
        actor.zero_grad()
        total = torch.zeros((), device=self.networks.device)
        for batch in self.in_order(size):
            policy = self._policy(batch)
            log_probs = policy.log_probs(_as_actions(policy, batch))
            share = len(batch.actions) / len(self)
            loss = policy_gradient_loss(log_probs, batch.advantages, policy.entropy(), rates.beta)
            (loss * share).backward()  # type: ignore[no-untyped-call]
            total += (log_probs.detach() * batch.advantages).sum(1).mean() * share
        actor.step(rates.learning_rate, rates.step)
        return total.abs()

    def _policy(self, batch: RosterMinibatch) -> ExploringDistribution:
        with self._precision.passes(self.networks.device):
            policy = self.networks.policy(
                batch.inputs, batch.steps, batch.action_mask, batch.exploration, batch.actor_runs
            )
        return policy.widened()

    def _taken(self, batch: RosterMinibatch) -> Tensor:
        """[B, signals, branches] the critic's values of the actions taken."""
        with self._precision.passes(self.networks.device):
            values = self.networks.critic(batch.table, batch.steps, batch.critic_runs)
        return of_actions(widened(values), batch.actions, self.networks.branches)


def _as_actions(policy: ExploringDistribution, batch: RosterMinibatch) -> Actions:
    return Actions(policy.mu, batch.actions)
