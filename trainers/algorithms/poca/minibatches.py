"""One update's steps on the learner's device, and the minibatches that they are learned in.

The actor learns from single steps in random order, which come from as many moments. The critic learns from
whole group-steps: there each member's row is encoded once for the value and the baselines of all members,
which is n times less work than a set of n rows for each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...buffers.rollout_buffer import RolloutBatch, learned_advantages, shuffled_units
from ...networks.modules.distributions import Actions
from .steps import Ints, Rows, TeamSteps
from .team_values import GroupSteps, TeamEvaluator, TeamRows, group_by_time


class CriticBatch(NamedTuple):
    """About B steps, all those of some group-steps; with a memory whole sequences of them."""

    rows: TeamRows
    """All rows of the update."""
    groups: GroupSteps
    """The group-steps to which the steps belong."""
    returns: Tensor
    """[B, S]."""
    old_baselines: Tensor
    """[B, S], of the critic when the steps came in; of MAPPO they are the values."""
    order: Tensor | None = None
    """[B] the index of each step among those of `groups`; None: they are in that order."""
    real: Tensor | None = None
    """[B] bool, False for padding; None without a memory, as are the next two."""
    value_states: Tensor | None = None
    baseline_states: Tensor | None = None
    """[sequences, memory_size], before each of the sequences of which the steps then consist."""


class TeamMinibatch(NamedTuple):
    """What one gradient step learns from."""

    policy: RolloutBatch
    """The actor's B steps; the critic's columns are not for it."""
    critic: CriticBatch


class TeamMinibatches:
    """The columns of one update, which do not change during it."""

    def __init__(self, evaluator: TeamEvaluator, steps: TeamSteps, *, normalize_padding: bool = True) -> None:
        """`normalize_padding`: padded steps count in the mean and deviation of the advantages."""
        self._device = evaluator.device
        self._length = evaluator.sequence_length
        self._found = Rows.of(steps)
        with torch.no_grad():
            self._rows = evaluator.rows(self._found.obs, self._found.continuous, self._found.discrete)
        masked = steps.action_mask is not None and steps.action_mask.any()
        counted = None if normalize_padding else steps.real
        self._baselines, self._returns = self._tensor(steps.baselines), self._tensor(steps.returns)
        self._policy = RolloutBatch(
            [self._tensor(self._found.own)],  # rows, which `_inputs` looks up minibatch by minibatch
            Actions(self._tensor(steps.continuous), self._tensor(steps.discrete.astype(np.int64))),
            self._tensor(steps.action_mask) if masked else None,
            self._tensor(steps.log_probs),
            self._tensor(learned_advantages(steps, counted)[:, None]),
            self._baselines,
            self._returns,
            None if steps.real is None else self._tensor(steps.real),
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
        """One epoch after another: of teams that are larger than a minibatch the actor's has more of them."""
        while True:
            yield from (
                self._sequences(size, generator) if self._length else self._group_steps(size, generator)
            )

    def _inputs(self, rows: Tensor) -> list[Tensor]:
        return [x.index_select(0, rows) for x in self._rows.inputs]

    def _group_steps(self, size: int, generator: torch.Generator) -> Iterator[CriticBatch]:
        groups = group_by_time(self._found.own, self._found.teammates)
        for which in shuffled_units(groups.counts, size, generator):
            chosen = groups.take(which)
            steps = self._tensor(chosen.steps)
            yield CriticBatch(self._rows, chosen, self._returns[steps], self._baselines[steps])

    def _sequences(self, size: int, generator: torch.Generator) -> Iterator[CriticBatch]:
        """Sequences that start in one group-step stay together."""
        length, steps, found = self._length, self._steps, self._found
        assert steps.real is not None
        first = np.arange(0, len(steps), length)
        starts = group_by_time(found.own[first], found.teammates[first])
        for which in shuffled_units(starts.counts, max(size // length, 1), generator):
            chosen = starts.take(which).steps
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
