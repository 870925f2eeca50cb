"""The columns that COMA holds until its next update, and the minibatches that they are learned in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.rollout import first_steps, runs
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ...buffers.rollout_buffer import OnPolicySteps, normalized, shuffled_units
from ...networks.modules.distributions import Actions
from ...networks.modules.memory import PackedSequences
from .critic import COMANetworks, Steps, Table

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(slots=True)
class RosterSteps(OnPolicySteps):
    """Columns of N agent-steps, and of the R rows that they reach: their own and other members'.

    They come in parts, one rollout each; a part's rows are those of its own steps, then those of others.
    `roster` counts rows from the start of its part, so that parts can be concatenated.
    """

    obs: list[ObsArray]
    """The observations of the rows, [R, *shape] per sensor."""
    discrete: NDArray[np.int32]
    """The discrete actions of the rows, [R, branches]."""
    roster: Ints
    """[N, slots] the rows of all members at each step, -1 where there is no member."""
    action_mask: NDArray[np.bool_] | None
    log_probs: Floats
    """[N, branches] log-probabilities of the actions when they were sampled, with the exploration of then."""
    exploration: Floats
    """[N] the exploration with which the actions were sampled."""
    returns: Floats
    """[N, signals], the critic's targets for the actions taken."""
    lengths: Ints
    """[J] the lengths of the trajectories; their sum is N."""
    actor_states: Floats | None
    """[J, memory_size], the actor's state before each trajectory; None without a memory."""
    critic_states: Floats | None
    """[J, the critic's memory size] the critic's state before each trajectory; None without a memory."""
    step_counts: Ints
    """[parts] the number of steps of each part."""
    row_counts: Ints
    """[parts] the number of rows of each part."""

    def __len__(self) -> int:
        return len(self.exploration)

    def linked(self) -> tuple[Ints, Ints]:
        """Each step's row [N], and its roster [N, slots], both counted from the first row of all parts."""
        first_rows = np.repeat(first_steps(self.row_counts), self.step_counts)
        own = runs(first_steps(self.row_counts), self.step_counts)
        return own, np.where(self.roster >= 0, self.roster + first_rows[:, None], -1)


def roster_steps(rollout: Rollout, targets: Floats, critic_states: Floats | None = None) -> RosterSteps:
    """A rollout as a part, with the critic's targets of its own steps.

    Rows of no own step's roster are left out.
    """
    assert rollout.roster is not None and rollout.exploration is not None
    n, roster = rollout.steps, rollout.roster
    others = np.unique(roster[roster >= n])
    index = np.empty(len(rollout.reward), dtype=np.int64)
    rows = np.concatenate([np.arange(n), others])
    index[rows] = np.arange(len(rows))
    return RosterSteps(
        obs=[o[rows] for o in rollout.obs],
        discrete=rollout.discrete[rows],
        roster=np.where(roster >= 0, index[roster], -1),
        **rollout.own("action_mask", "log_probs", "exploration"),
        returns=targets,
        lengths=rollout.lengths,
        actor_states=None if rollout.memory is None else rollout.memory[first_steps(rollout.lengths)],
        critic_states=critic_states,
        step_counts=np.array([n]),
        row_counts=np.array([len(rows)]),
    )


def slots_of(own: Ints, roster: Ints) -> Ints:
    """[N] the slot of each step's own row [N] in its roster [N, slots]."""
    slots: Ints = (roster == own[:, None]).argmax(axis=1)
    return slots


class RosterMinibatch(NamedTuple):
    """B agent-steps; each row that they refer to is in it once."""

    inputs: list[Tensor]
    table: Table
    steps: Steps
    actions: Actions
    """The discrete actions alone: [B, branches] int64."""
    action_mask: Tensor | None
    old_log_probs: Tensor
    exploration: Tensor
    targets: Tensor
    """[B, signals] the critic's targets."""
    advantages: Tensor
    """[B, branches] the advantages; zeros until `set_advantages`."""
    actor_sequences: PackedSequences | None
    critic_sequences: PackedSequences | None


class RosterMinibatches:
    """The steps of one update, which do not change during it."""

    def __init__(self, networks: COMANetworks, steps: RosterSteps) -> None:
        """Move the columns to the learner's device."""
        nets = self.networks = networks
        self._own, self._roster = steps.linked()
        self._slots = slots_of(self._own, self._roster)
        obs = [nets.tensor(o) for o in steps.obs]
        with torch.no_grad():
            self._inputs = nets.actors.prepare(obs)
            self._seen, self._states = nets.critic.prepare(obs)
        self._discrete = nets.discrete(steps.discrete)
        self._mask = nets.mask(steps.action_mask)
        self._log_probs, self._exploration = nets.tensor(steps.log_probs), nets.tensor(steps.exploration)
        self._targets = nets.tensor(steps.returns)
        self._advantages = self._targets.new_zeros(len(self._own), len(nets.branches))
        self._actor_states, self._critic_states = steps.actor_states, steps.critic_states
        self._is_recurrent = steps.actor_states is not None or steps.critic_states is not None
        self._lengths = steps.lengths
        self._counts = steps.lengths if self._is_recurrent else np.ones(len(self), dtype=np.int64)
        """The number of steps of each unit that must stay together: a trajectory with a memory, or a step."""

    def __len__(self) -> int:
        return len(self._own)

    def set_advantages(self, advantages: Tensor, *, normalize: bool) -> None:
        """Set what the actors learn from: advantages [N, branches], in the order of `in_order`."""
        if normalize:
            advantages = self.networks.tensor(normalized(advantages.cpu().numpy()))
        self._advantages = advantages

    def shuffled(self, size: int, generator: torch.Generator) -> Iterator[RosterMinibatch]:
        """One epoch of minibatches in random order; what does not fill a minibatch is left out."""
        for units in shuffled_units(self._counts, size, generator):
            yield self._minibatch(units)

    def in_order(self, size: int) -> Iterator[RosterMinibatch]:
        """Minibatches of all steps in order, each step once, about `size` at a time."""
        chunk = (np.cumsum(self._counts) - 1) // size
        for units in np.split(np.arange(len(self._counts)), np.flatnonzero(np.diff(chunk)) + 1):
            yield self._minibatch(units)

    def _minibatch(self, units: Ints) -> RosterMinibatch:
        """The minibatch of these steps or, with a memory, of these trajectories."""
        nets, numbers = self.networks, units
        actor_sequences = critic_sequences = None
        if self._is_recurrent:
            lengths = self._lengths[units]
            numbers = runs(first_steps(self._lengths)[units], lengths)
            if self._actor_states is not None:
                actor_sequences = PackedSequences(lengths.tolist(), nets.tensor(self._actor_states[units]))
            if self._critic_states is not None:
                critic_sequences = PackedSequences(lengths.tolist(), nets.tensor(self._critic_states[units]))
        roster = self._roster[numbers]
        rows, at = np.unique(roster, return_inverse=True)  # a step's own row is in its roster
        at = at.reshape(roster.shape)
        if rows[0] < 0:  # absent members come first; the critic has them last
            rows = rows[1:]
            at = np.where(at == 0, len(rows), at - 1)
        slots = self._slots[numbers]
        steps = Steps(nets.tensor(at[np.arange(len(numbers)), slots]), nets.tensor(at), nets.tensor(slots))
        chosen, picked = nets.tensor(rows), nets.tensor(numbers)
        actions = self._discrete[chosen]
        states = None if self._states is None else [x[chosen] for x in self._states]
        return RosterMinibatch(
            [x[chosen] for x in self._inputs],
            nets.critic.table([x[chosen] for x in self._seen], states, actions),
            steps,
            Actions(self._log_probs.new_empty(len(picked), 0), actions[steps.own]),
            None if self._mask is None else self._mask[picked],
            self._log_probs[picked],
            self._exploration[picked],
            self._targets[picked],
            self._advantages[picked],
            actor_sequences,
            critic_sequences,
        )
