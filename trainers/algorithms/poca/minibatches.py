"""One update's steps on the learner's device, and the minibatches that they are learned in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...buffers.rollout_buffer import RolloutBatch, normalized, shuffled_units
from ...networks.modules.distributions import Actions
from .steps import Ints, Rows, TeamSteps
from .team_values import GroupSteps, TeamEvaluator, TeamRows, group_by_time


class TeamMinibatch(NamedTuple):
    """B steps of some group-steps; with a memory whole sequences of them."""

    steps: RolloutBatch
    """The B steps; their `old_values` are the baselines of when they came in."""
    rows: TeamRows
    """All rows of the update."""
    groups: GroupSteps
    """The group-steps to which the steps belong."""
    order: Tensor | None
    """[B] the index of each step among those of `groups`; None: they are in that order."""
    baseline_states: Tensor | None = None
    """[sequences, memory_size], of the baselines' memory, where `steps.critic_states` are the values'."""


class TeamMinibatches:
    """The columns of one update, which do not change during it."""

    def __init__(self, evaluator: TeamEvaluator, steps: TeamSteps, *, normalize_padding: bool = True) -> None:
        """`normalize_padding`: padded steps count in the mean and deviation of the advantages."""
        self._device = evaluator.device
        self._length = evaluator.sequence_length
        self._found = Rows.of(steps)
        with torch.no_grad():
            self._rows = evaluator.rows(self._found.obs, self._found.continuous, self._found.discrete)
        self._own = self._tensor(self._found.own)
        masked = steps.action_mask is not None and steps.action_mask.any()
        self._actions = Actions(self._tensor(steps.continuous), self._tensor(steps.discrete.astype(np.int64)))
        self._action_mask = self._tensor(steps.action_mask) if masked else None
        self._log_probs = self._tensor(steps.log_probs)
        counted = None if normalize_padding else steps.real
        self._advantages = self._tensor(normalized(steps.advantages, counted)[:, None])
        self._baselines, self._returns = self._tensor(steps.baselines), self._tensor(steps.returns)
        self._steps = steps

    def _tensor(self, column: NDArray[Any] | None) -> Tensor:
        assert column is not None
        return torch.from_numpy(column).to(self._device)

    def minibatches(self, size: int, generator: torch.Generator) -> Iterator[TeamMinibatch]:
        """One epoch: group-steps, or sequences that start in one group-step, in random order.

        The only step of a set of n members costs as much as n steps that share theirs: where many are alone,
        as in teams whose members decide at different times, a minibatch takes up to n times the memory.
        """
        if self._length:
            yield from self._sequences(size, generator)
            return
        groups = group_by_time(self._found.own, self._found.teammates)
        for which in shuffled_units(groups.counts, size, generator):
            chosen = groups.take(which)
            yield TeamMinibatch(self._batch(self._tensor(chosen.steps)), self._rows, chosen, None)

    def _sequences(self, size: int, generator: torch.Generator) -> Iterator[TeamMinibatch]:
        length, steps, found = self._length, self._steps, self._found
        assert steps.real is not None
        first = np.arange(0, len(steps), length)
        starts = group_by_time(found.own[first], found.teammates[first])
        for which in shuffled_units(starts.counts, max(size // length, 1), generator):
            chosen = starts.take(which).steps
            rows: Ints = (chosen[:, None] * length + np.arange(length)).ravel()
            real, sequences = steps.real[rows], self._tensor(chosen)
            groups = group_by_time(found.own[rows[real]], found.teammates[rows[real]])
            batch = self._batch(self._tensor(rows))._replace(
                real=self._tensor(real),
                actor_states=self._tensor(steps.memory)[sequences],
                critic_states=self._tensor(steps.value_memory)[sequences],
            )
            order = self._tensor(_padded_order(groups, real))
            states = self._tensor(steps.baseline_memory)[sequences]
            yield TeamMinibatch(batch, self._rows, groups, order, states)

    def _batch(self, which: Tensor) -> RolloutBatch:
        own = self._own[which]
        return RolloutBatch(
            [x.index_select(0, own) for x in self._rows.inputs],
            Actions(self._actions.continuous[which], self._actions.discrete[which]),
            None if self._action_mask is None else self._action_mask[which],
            self._log_probs[which],
            self._advantages[which],
            self._baselines[which],
            self._returns[which],
        )


def _padded_order(groups: GroupSteps, real: NDArray[np.bool_]) -> Ints:
    """[B] the index of each row of whole sequences among the groups' steps, which are the `real` [B] ones.

    Padding gets the index of the last real row before it.
    """
    index = np.empty(len(groups.steps), dtype=np.int64)
    index[groups.steps] = np.arange(len(index))
    padded: Ints = index[np.cumsum(real) - 1]
    return padded
