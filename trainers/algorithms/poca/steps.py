"""The columns that POCA holds until its update, and the distinct rows of which they consist."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.rows import RESTORED_STORE, STORE_BITS
from ....agent_processor.sequences import pad_sequences
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ..common.recurrent import first_of_sequences

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(slots=True)
class TeamSteps:
    """N steps of trajectories, and E rows of teammates whose own trajectories came at other times.

    Rows are identified by their numbers, which mean the same in every rollout of a process: so a teammate's
    observation and action is stored once, however many steps refer to it.
    """

    numbers: Ints
    """[N]."""
    mates: Ints
    """[N, M] the numbers of the teammates' rows, -1 where there is none."""
    obs: list[ObsArray]
    continuous: Floats
    discrete: NDArray[np.int32]
    log_probs: Floats
    action_mask: NDArray[np.bool_] | None
    baselines: Floats
    """[N, S], of the critic when the steps came in."""
    returns: Floats
    """[N, S]."""
    advantages: Floats
    """[N], mean over the signals, not normalized."""
    other_numbers: Ints
    """[E]."""
    other_obs: list[ObsArray]
    other_continuous: Floats
    other_discrete: NDArray[np.int32]
    real: NDArray[np.bool_] | None = None
    """[N], False for padding. With a memory the N rows are whole sequences, trajectories padded to these."""
    memory: Floats | None = None
    value_memory: Floats | None = None
    baseline_memory: Floats | None = None
    """[sequences, memory_size], the states before each sequence: the actor's, and the critic's two."""

    def __len__(self) -> int:
        return len(self.advantages)

    def restored(self) -> TeamSteps:
        """With numbers that no row of this process gets, since the process that saved them counted alike."""
        numbers = np.unique(np.concatenate([self.numbers, self.other_numbers]))
        first = RESTORED_STORE << STORE_BITS

        def moved(saved: Ints) -> Ints:
            return np.where(saved < 0, -1, first + np.searchsorted(numbers, saved))

        return replace(
            self,
            numbers=moved(self.numbers),
            mates=moved(self.mates),
            other_numbers=moved(self.other_numbers),
        )

    @classmethod
    def of(cls, rollout: Rollout, baselines: Floats, returns: Floats) -> TeamSteps:
        """A rollout's steps with the critic's evaluation."""
        own, other = slice(rollout.steps), slice(rollout.steps, None)
        mates = rollout.mates
        if mates is None:
            mates = np.zeros((rollout.steps, 0), dtype=np.int64)
        return cls(
            numbers=rollout.numbers[own],
            mates=np.where(mates < 0, -1, rollout.numbers[mates]),
            obs=[o[own] for o in rollout.obs],
            continuous=rollout.continuous[own],
            discrete=rollout.discrete[own],
            log_probs=rollout.log_probs[own],
            action_mask=None if rollout.action_mask is None else rollout.action_mask[own],
            baselines=baselines,
            returns=returns,
            advantages=(returns - baselines).mean(axis=1),
            other_numbers=rollout.numbers[other],
            other_obs=[o[other] for o in rollout.obs],
            other_continuous=rollout.continuous[other],
            other_discrete=rollout.discrete[other],
        )


def padded(
    steps: TeamSteps,
    rollout: Rollout,
    sequence_length: int,
    value_memory: Floats,
    baseline_memory: Floats,
) -> TeamSteps:
    """The steps of a rollout as whole sequences, with the states before these.

    Padding is zeros; it is of the same row, and forbids the same actions, as the step before it.
    """
    assert rollout.memory is not None
    sequences = pad_sequences(rollout.lengths, sequence_length)
    mask = steps.action_mask
    return replace(
        steps,
        numbers=sequences.column(steps.numbers, repeat_last=True),
        mates=sequences.column(steps.mates, repeat_last=True),
        obs=[sequences.column(o, repeat_last=True) for o in steps.obs],
        continuous=sequences.column(steps.continuous, repeat_last=True),
        discrete=sequences.column(steps.discrete, repeat_last=True),
        log_probs=sequences.column(steps.log_probs),
        action_mask=None if mask is None else sequences.column(mask, repeat_last=True),
        baselines=sequences.column(steps.baselines),
        returns=sequences.column(steps.returns),
        advantages=sequences.column(steps.advantages),
        real=sequences.real,
        memory=rollout.memory[first_of_sequences(rollout, sequence_length)],
        value_memory=value_memory,
        baseline_memory=baseline_memory,
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """The R different rows that some steps and their teammates make up."""

    obs: list[ObsArray]
    continuous: Floats
    discrete: NDArray[np.int32]
    own: Ints
    """[N] each step's row."""
    teammates: Ints
    """[N, M] the rows of its teammates, -1 where there is none."""

    @classmethod
    def of(cls, steps: TeamSteps) -> Rows:
        """Every row once, in order of first appearance: it does not depend on how they are numbered."""
        numbers, first = np.unique(np.concatenate([steps.numbers, steps.other_numbers]), return_index=True)
        order = np.argsort(first)
        index = np.empty(len(order), dtype=np.int64)
        index[order] = np.arange(len(order))
        first = first[order]
        present = steps.mates >= 0
        mates = np.searchsorted(numbers, np.where(present, steps.mates, numbers[0]))
        return cls(
            obs=[np.concatenate(both)[first] for both in zip(steps.obs, steps.other_obs)],
            continuous=np.concatenate([steps.continuous, steps.other_continuous])[first],
            discrete=np.concatenate([steps.discrete, steps.other_discrete])[first],
            own=index[np.searchsorted(numbers, steps.numbers)],
            teammates=np.where(present, index[mates], -1),
        )
