"""One update's steps on the learner's device, and the minibatches that they are learnt in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...networks.modules.distributions import Actions
from .group_steps import GroupSteps, group_by_time
from .steps import Ints, Rows, TeamSteps
from .team_values import TeamEvaluator, TeamRows


class TeamMinibatch(NamedTuple):
    """B steps of some moments; with a memory whole sequences of them."""

    rows: TeamRows
    moments: GroupSteps
    order: Tensor | None
    """[B] where each row stands among the moments' steps; None: they are in the moments' order."""
    inputs: list[Tensor]
    """What the actor reads."""
    actions: Actions
    action_mask: Tensor | None
    old_log_probs: Tensor
    advantages: Tensor
    """[B, 1], normalised."""
    old_baselines: Tensor
    returns: Tensor
    real: Tensor | None = None
    """[B] bool, False for padding; None without a memory, as are the next three."""
    actor_states: Tensor | None = None
    value_states: Tensor | None = None
    baseline_states: Tensor | None = None
    """[sequences, memory_size], before each of the sequences of which the rows then consist."""


class TeamMinibatches:
    """The columns of one update. Nothing in it changes."""

    def __init__(self, judge: TeamEvaluator, steps: TeamSteps) -> None:
        self._device = judge.device
        self._length = judge.sequence_length
        self._found = Rows.of(steps)
        with torch.no_grad():
            self._rows = judge.rows(self._found.obs, self._found.continuous, self._found.discrete)
        self._own = self._tensor(self._found.own)
        spread = steps.advantages - steps.advantages.mean()
        advantages = (spread / (steps.advantages.std() + 1e-10)).astype(np.float32)
        masked = steps.action_mask is not None and steps.action_mask.any()
        self._actions = Actions(self._tensor(steps.continuous), self._tensor(steps.discrete.astype(np.int64)))
        self._action_mask = self._tensor(steps.action_mask) if masked else None
        self._log_probs = self._tensor(steps.log_probs)
        self._advantages = self._tensor(advantages[:, None])
        self._baselines, self._returns = self._tensor(steps.baselines), self._tensor(steps.returns)
        self._steps = steps

    def _tensor(self, column: NDArray[Any] | None) -> Tensor:
        assert column is not None
        return torch.from_numpy(column).to(self._device)

    def minibatches(self, size: int, shuffler: torch.Generator) -> Iterator[TeamMinibatch]:
        """One epoch: moments, or sequences that begin at one moment, in a fresh order."""
        if self._length:
            yield from self._of_sequences(size, shuffler)
            return
        moments = group_by_time(self._found.own, self._found.mates)
        order = torch.randperm(len(moments), generator=shuffler, device="cpu").numpy()
        for some in moments.minibatches(order, size):
            yield self._minibatch(self._tensor(some.steps), some)

    def _of_sequences(self, size: int, shuffler: torch.Generator) -> Iterator[TeamMinibatch]:
        length, steps, found = self._length, self._steps, self._found
        assert steps.real is not None
        first = np.arange(0, len(steps), length)
        beginnings = group_by_time(found.own[first], found.mates[first])
        order = torch.randperm(len(beginnings), generator=shuffler, device="cpu").numpy()
        for some in beginnings.minibatches(order, max(size // length, 1)):
            taken = (some.steps[:, None] * length + np.arange(length)).ravel()
            real = steps.real[taken]
            moments = group_by_time(found.own[taken[real]], found.mates[taken[real]])
            which, sequences = self._tensor(taken), self._tensor(some.steps)
            batch = self._minibatch(which, moments)
            yield batch._replace(
                order=self._tensor(_padded_order(moments, real)),
                real=self._tensor(real),
                actor_states=self._tensor(steps.memory)[sequences],
                value_states=self._tensor(steps.value_memory)[sequences],
                baseline_states=self._tensor(steps.baseline_memory)[sequences],
            )

    def _minibatch(self, which: Tensor, moments: GroupSteps) -> TeamMinibatch:
        mask = self._action_mask
        own = self._own[which]
        return TeamMinibatch(
            self._rows,
            moments,
            None,
            [x.index_select(0, own) for x in self._rows.inputs],
            Actions(self._actions.continuous[which], self._actions.discrete[which]),
            None if mask is None else mask[which],
            self._log_probs[which],
            self._advantages[which],
            self._baselines[which],
            self._returns[which],
        )


def _padded_order(moments: GroupSteps, real: NDArray[np.bool_]) -> Ints:
    """[B] where each row of whole sequences stands among the moments' steps, which are the `real` [B] ones.

    Padding is given what the real row before it is.
    """
    place = np.empty(len(moments.steps), dtype=np.int64)
    place[moments.steps] = np.arange(len(place))
    found: Ints = place[np.cumsum(real) - 1]
    return found
