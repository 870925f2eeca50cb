"""The columns that POCA holds until its update, and the distinct rows of which they consist."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.rows import RESTORED_STORE, STORE_BITS
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ...buffers.rollout_buffer import PolicySteps, explained_variance

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class TeamSteps(PolicySteps):
    """N steps of trajectories, and E rows of teammates whose own trajectories came at other times.

    Rows are identified by their numbers, which mean the same in every rollout of a process: so a teammate's
    observation and action is stored once, however many steps refer to it.
    """

    numbers: Ints
    """[N]."""
    mates: Ints
    """[N, M] the numbers of the teammates' rows, -1 where there is none."""
    baselines: Floats
    """[N, S], of the critic when the steps came in: what advantages are measured against."""
    other_numbers: Ints
    """[E]."""
    other_obs: list[ObsArray]
    other_continuous: Floats
    other_discrete: NDArray[np.int32]
    value_memory: Floats | None = None
    baseline_memory: Floats | None = None
    """[sequences, memory_size], the critic's two states before each sequence."""
    estimate: ClassVar[str] = "Baseline"
    """What the baselines are, in the names of statistics."""

    def explained_variances(self) -> dict[str, float]:
        """See `OnPolicySteps.explained_variances`."""
        name = f"Losses/{self.estimate} Explained Variance"
        return explained_variance(name, self.baselines, self.returns, self.real)

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
            **rollout.own("obs", "continuous", "discrete", "log_probs", "action_mask"),
            numbers=rollout.numbers[own],
            mates=np.where(mates < 0, -1, rollout.numbers[mates]),
            baselines=baselines,
            returns=returns,
            advantages=(returns - baselines).mean(axis=1),
            other_numbers=rollout.numbers[other],
            other_obs=[o[other] for o in rollout.obs],
            other_continuous=rollout.continuous[other],
            other_discrete=rollout.discrete[other],
        )


class TeamValueSteps(TeamSteps):
    """Steps whose baselines are the team's values."""

    __slots__ = ()
    estimate = "Value"


REPEATED_IN_PADDING = {"numbers", "mates", "obs", "continuous", "discrete", "action_mask"}
"""The columns in which padding is of the same row as the step before it."""


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
