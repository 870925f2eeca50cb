"""The columns that POCA holds until its update, and the minibatches that they are learned in.

The actor learns from single steps in random order, which come from as many moments. The critic learns from
whole group-steps: there each member's row is encoded once for the value and the baselines of all members,
which is n times less work than a set of n rows for each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.rows import RESTORED_STORE, STORE_BITS
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ...buffers.rollout_buffer import (
    PolicySteps,
    RolloutBatch,
    explained_variance,
    learned_advantages,
    shuffled_units,
)
from ...networks.modules.distributions import Actions
from ...settings.models.algorithms import AdvantageNormalization
from .team_values import GroupSteps, TeamEvaluator, TeamRows, group_by_time

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class TeamSteps(PolicySteps):
    """N steps of trajectories, and E rows of teammates whose own trajectories came at other times.

    Rows are identified by their numbers, which mean the same in every rollout of a process: so a teammate's
    observation and action is stored once, however many steps refer to it.
    """

    numbers: Ints
    """[N] the numbers of the steps' rows."""
    teammates: Ints
    """[N, M] the numbers of the teammates' rows, -1 where there is none."""
    baselines: Floats
    """[N, S] the critic's baselines when the steps came in: what advantages are measured against."""
    other_numbers: Ints
    """[E] the numbers of the teammates' E rows."""
    other_obs: list[ObsArray]
    other_continuous: Floats
    other_discrete: NDArray[np.int32]
    value_memory: Floats | None = None
    baseline_memory: Floats | None = None
    """[sequences, memory_size], the critic's two states before each sequence."""
    saved_names: ClassVar = {"teammates": "mates"}
    estimate: ClassVar[str] = "Baseline"
    """What the baselines are, in the names of statistics."""

    def explained_variances(self) -> dict[str, float]:
        """How well the baselines predicted the returns, by the statistic's name."""
        name = f"Losses/{self.estimate} Explained Variance"
        return explained_variance(name, self.baselines, self.returns, self.real)

    def restored(self) -> TeamSteps:
        """The steps under numbers that no row of this process gets: the one that saved them counted alike."""
        numbers = np.unique(np.concatenate([self.numbers, self.other_numbers]))
        first = RESTORED_STORE << STORE_BITS

        def moved(saved: Ints) -> Ints:
            return np.where(saved < 0, -1, first + np.searchsorted(numbers, saved))

        return replace(
            self,
            numbers=moved(self.numbers),
            teammates=moved(self.teammates),
            other_numbers=moved(self.other_numbers),
        )

    @classmethod
    def of(cls, rollout: Rollout, baselines: Floats, returns: Floats) -> TeamSteps:
        """A rollout's steps with the critic's evaluation."""
        own, other = slice(rollout.steps), slice(rollout.steps, None)
        teammates = rollout.teammates
        if teammates is None:
            teammates = np.zeros((rollout.steps, 0), dtype=np.int64)
        return cls(
            **rollout.own("obs", "continuous", "discrete", "log_probs", "action_mask"),
            numbers=rollout.numbers[own],
            teammates=np.where(teammates < 0, -1, rollout.numbers[teammates]),
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


REPEATED_IN_PADDING = {"numbers", "teammates", "obs", "continuous", "discrete", "action_mask"}
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
    """[N, M] the rows of each step's teammates, -1 where there is none."""

    @classmethod
    def of(cls, steps: TeamSteps) -> Rows:
        """Every row once, in order of first appearance, which does not depend on how rows are numbered."""
        numbers, first = np.unique(np.concatenate([steps.numbers, steps.other_numbers]), return_index=True)
        order = np.argsort(first)
        index = np.empty(len(order), dtype=np.int64)
        index[order] = np.arange(len(order))
        first = first[order]
        present = steps.teammates >= 0
        teammates = np.searchsorted(numbers, np.where(present, steps.teammates, numbers[0]))
        return cls(
            obs=[np.concatenate(both)[first] for both in zip(steps.obs, steps.other_obs)],
            continuous=np.concatenate([steps.continuous, steps.other_continuous])[first],
            discrete=np.concatenate([steps.discrete, steps.other_discrete])[first],
            own=index[np.searchsorted(numbers, steps.numbers)],
            teammates=np.where(present, index[teammates], -1),
        )


class CriticBatch(NamedTuple):
    """About B steps, all those of some group-steps; with a memory whole sequences of them."""

    rows: TeamRows
    """All rows of the update."""
    groups: GroupSteps
    """The group-steps to which the steps belong."""
    returns: Tensor
    """[B, S] the returns."""
    old_baselines: Tensor
    """[B, S] the critic's baselines when the steps came in; of MAPPO they are the values."""
    order: Tensor | None = None
    """[B] the index of each step among those of `groups`; None: they are in that order."""
    real: Tensor | None = None
    """A mask [B] bool, False for padding; None without a memory, as are the next two."""
    value_states: Tensor | None = None
    baseline_states: Tensor | None = None
    """[sequences, memory_size] the states before the sequences of which the steps then consist."""


class TeamMinibatch(NamedTuple):
    """What one gradient step learns from."""

    policy: RolloutBatch
    """The actor's B steps; the critic's columns are not for it."""
    critic: CriticBatch


class TeamMinibatches:
    """The columns of one update, which do not change during it."""

    def __init__(
        self,
        evaluator: TeamEvaluator,
        steps: TeamSteps,
        *,
        normalization: AdvantageNormalization = AdvantageNormalization.BUFFER,
        normalize_padding: bool = True,
    ) -> None:
        """Prepare the columns; `normalization` and `normalize_padding` as of `RolloutBatch.of`."""
        self._device = evaluator.device
        self._length = evaluator.sequence_length
        self._found = Rows.of(steps)
        with torch.no_grad():
            self._rows = evaluator.rows(self._found.obs, self._found.continuous, self._found.discrete)
        masked = steps.action_mask is not None and steps.action_mask.any()
        advantages, weights = learned_advantages(steps, normalization, normalize_padding=normalize_padding)
        self._baselines, self._returns = self._tensor(steps.baselines), self._tensor(steps.returns)
        self._policy = RolloutBatch(
            [self._tensor(self._found.own)],  # rows, which `_inputs` looks up minibatch by minibatch
            Actions(self._tensor(steps.continuous), self._tensor(steps.discrete.astype(np.int64))),
            self._tensor(steps.action_mask) if masked else None,
            self._tensor(steps.log_probs),
            self._tensor(advantages),
            self._baselines,
            self._returns,
            None if steps.real is None else self._tensor(steps.real),
            None if weights is None else self._tensor(weights),
            None if steps.memory is None else self._tensor(steps.memory),
        )
        self._steps = steps

    def _tensor(self, column: NDArray[Any] | None) -> Tensor:
        assert column is not None
        return torch.from_numpy(column).to(self._device)

    def minibatches(self, size: int, generator: torch.Generator) -> Iterator[TeamMinibatch]:
        """One epoch: steps and group-steps, or sequences of both, each in a random order of its own.

        The only step of a set of n members costs as much as n steps that share theirs: where many are alone,
        as in teams whose members decide at different times, a minibatch takes up to n times the memory.
        """
        policy = self._policy.minibatches(size, generator, self._length or 1)
        critic = self._critic_minibatches(size, generator)
        for batch, values in zip(policy, critic):
            yield TeamMinibatch(batch._replace(inputs=self._inputs(batch.inputs[0])), values)

    def _critic_minibatches(self, size: int, generator: torch.Generator) -> Iterator[CriticBatch]:
        """Repeat epochs: where teams are larger than a minibatch, the actor's epoch has more minibatches."""
        while True:
            yield from (
                self._sequences(size, generator) if self._length else self._group_steps(size, generator)
            )

    def _inputs(self, rows: Tensor) -> list[Tensor]:
        return [x.index_select(0, rows) for x in self._rows.inputs]

    def _group_steps(self, size: int, generator: torch.Generator) -> Iterator[CriticBatch]:
        groups = group_by_time(self._found.own, self._found.teammates)
        for sets in shuffled_units(groups.counts, size, generator):
            chosen = groups.take(sets)
            steps = self._tensor(chosen.steps)
            yield CriticBatch(self._rows, chosen, self._returns[steps], self._baselines[steps])

    def _sequences(self, size: int, generator: torch.Generator) -> Iterator[CriticBatch]:
        """Sequences that start in one group-step stay together."""
        length, steps, found = self._length, self._steps, self._found
        assert steps.real is not None
        first = np.arange(0, len(steps), length)
        starts = group_by_time(found.own[first], found.teammates[first])
        for sets in shuffled_units(starts.counts, max(size // length, 1), generator):
            chosen = starts.take(sets).steps
            rows: Ints = (chosen[:, None] * length + np.arange(length)).ravel()
            real, sequences, of_steps = steps.real[rows], self._tensor(chosen), self._tensor(rows)
            baseline_memory = steps.baseline_memory
            groups = group_by_time(found.own[rows[real]], found.teammates[rows[real]])
            yield CriticBatch(
                self._rows,
                groups,
                self._returns[of_steps],
                self._baselines[of_steps],
                self._tensor(_padded_order(groups, real)),
                self._tensor(real),
                self._tensor(steps.value_memory)[sequences],
                None if baseline_memory is None else self._tensor(baseline_memory)[sequences],
            )


def _padded_order(groups: GroupSteps, real: NDArray[np.bool_]) -> Ints:
    """[B] the index of each row of whole sequences among the groups' steps, which are the `real` [B] ones.

    Padding gets the index of the last real row before it.
    """
    index = np.empty(len(groups.steps), dtype=np.int64)
    index[groups.steps] = np.arange(len(index))
    padded: Ints = index[np.cumsum(real) - 1]
    return padded
