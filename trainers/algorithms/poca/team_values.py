"""Evaluation of teams by the critic: from rows to sets, from sets to values and baselines.

Group-steps: the steps of a group's members that belong to one time.

A step's set is the agent's own row with those of its teammates. Steps with the same set belong to one
group-step, whose value is computed once. Where sets differ (a dying member sees its teammates one step old,
members decide at different times, trajectories were cut apart) a step has a group-step of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.rollout import first_steps, runs
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ...networks.actor import Actor
from ...networks.fast.onednn import shape_multiple
from ...networks.modules.distributions import flat_actions
from ...networks.modules.passes import chunk_size
from ...networks.observations import to_tensors
from ...networks.team_critic import TeamCritic, TeamSets
from ..common.recurrent import CriticStates, unroll

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

EVALUATED_AT_ONCE = 8192
"""The number of pairs of members that the critic compares in one pass: n * n in each set of n. Memory grows
with this number times n."""


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """G sets of rows, and the W steps that belong to them, one set after another."""

    members: Ints
    """[G, n] the rows of each set in ascending order, then -1."""
    steps: Ints
    """[W] steps, those of set 0 first."""
    slots: Ints
    """[W] the index of each of these steps among the members of its set."""
    counts: Ints
    """[G] the number of steps that belong to each set."""

    def __len__(self) -> int:
        return len(self.members)

    def take(self, sets: Ints) -> GroupSteps:
        """Select sets by their indices, in this order."""
        counts = self.counts[sets]
        at = runs(first_steps(self.counts)[sets], counts)
        members = self.members[sets]
        widest = int((members >= 0).sum(1).max(initial=1))
        return GroupSteps(members[:, :widest], self.steps[at], self.slots[at], counts)

    def chunks(self, size: int) -> Iterator[GroupSteps]:
        """All sets in order, in chunks of at most `size` pairs of members, or of one set.

        The baselines of a set of n members compare n * n pairs, however few of its steps there are.
        """
        ends = np.cumsum((self.members >= 0).sum(1) ** 2)
        start = 0
        while start < len(self):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + size, side="right")))
            yield self.take(np.arange(start, stop))
            start = stop


def group_by_time(own: Ints, teammates: Ints | None) -> GroupSteps:
    """Sort steps into group-steps.

    Args:
        own: [W] each step's row.
        teammates: [W, M] the rows of its teammates, -1 where there is none; None: no step has any.
    """
    sets = own[:, None] if teammates is None else np.concatenate([own[:, None], teammates], axis=1)
    none = np.iinfo(np.int64).max
    ordered = np.sort(np.where(sets < 0, none, sets), axis=1)
    members, of_step = _distinct(ordered)
    steps = np.argsort(of_step, kind="stable")
    slots = (members[of_step[steps]] < own[steps, None]).sum(1)
    members = np.where(members == none, -1, members)
    return GroupSteps(members, steps, slots, np.bincount(of_step, minlength=len(members)))


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The different rows [G, n] of a table [W, n], and the index [W] of each row of the table among them."""
    if not len(rows):
        return rows, np.zeros(0, dtype=np.int64)
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    index = np.empty(len(rows), dtype=np.int64)
    index[order] = np.cumsum(new) - 1
    return ordered[new], index


class TeamRows(NamedTuple):
    """Rows on the learner's device, as actor and critic read them."""

    inputs: list[Tensor]
    actions: Tensor
    """The actions [R, action size], see `flat_actions`."""

    def take(self, rows: Tensor) -> TeamRows:
        """Select rows by their indices, in this order."""
        return TeamRows([x.index_select(0, rows) for x in self.inputs], self.actions.index_select(0, rows))


class Encodings(NamedTuple):
    """The critic's encodings of W steps, before its memory or its heads."""

    distinct: Tensor
    """The different encodings [E, hidden]: what several steps share is there once."""
    counts: Tensor
    """[E] the number of members of each encoding's set."""
    of_values: Tensor
    of_baselines: Tensor | None
    """[W] the index of the encoding of each step's value and baseline; None without baselines."""

    @classmethod
    def joined(cls, parts: Sequence[Encodings]) -> Encodings:
        """The encodings of several parts as one, their steps one part after another."""
        starts = first_steps(np.array([len(part.distinct) for part in parts])).tolist()
        of_values = [part.of_values + start for part, start in zip(parts, starts, strict=True)]
        of_baselines = [
            part.of_baselines + start
            for part, start in zip(parts, starts, strict=True)
            if part.of_baselines is not None
        ]
        return cls(
            torch.cat([part.distinct for part in parts]),
            torch.cat([part.counts for part in parts]),
            torch.cat(of_values),
            torch.cat(of_baselines) if of_baselines else None,
        )

    def steps(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The encodings and numbers of members at these indices."""
        return self.distinct.index_select(0, indices), self.counts.index_select(0, indices)

    def take(self, steps: Tensor) -> Encodings:
        """The encodings of some of the steps, by their indices, in this order."""
        of_values = self.of_values.index_select(0, steps)
        of_baselines = None if self.of_baselines is None else self.of_baselines.index_select(0, steps)
        return self._replace(of_values=of_values, of_baselines=of_baselines)


class TeamEstimates(NamedTuple):
    """The critic's estimates for a rollout's steps."""

    values: Floats
    baselines: Floats
    """The values and baselines, [steps, S] each; the baselines of a critic without any are its values."""
    next_values: Floats
    """[J, S] the values of what follows each trajectory."""
    value_starts: Floats | None
    baseline_starts: Floats | None
    """[sequences, memory_size], the states before each sequence; None without a memory, or baselines."""


class TeamEvaluator:
    """A critic with its recurrent states of the living agents."""

    def __init__(self, actor: Actor, critic: TeamCritic, device: torch.device, sequence_length: int) -> None:
        """`actor` prepares the observations; `sequence_length` is 0 without a memory."""
        self.actor = actor
        self.critic = critic
        self.device = device
        self.sequence_length = sequence_length
        size = critic.memory_size
        self.value_states, self.baseline_states = CriticStates(size), CriticStates(size)

    def rows(self, obs: list[ObsArray], continuous: Floats, discrete: NDArray[np.int32]) -> TeamRows:
        """Observations and actions of agents as rows."""
        branches = self.actor.spec.action_spec.discrete_branches
        actions = flat_actions(torch.from_numpy(continuous), torch.from_numpy(discrete), branches)
        return TeamRows(self.actor.prepare(to_tensors(obs, self.device)), actions.to(self.device))

    def encode(self, rows: TeamRows, groups: GroupSteps) -> Encodings:
        """Encodings of the steps of some group-steps, in their order."""
        compact = compact_sets(groups, self.device, shape_multiple(self.device))
        picked = rows.take(compact.rows)
        if self.critic.has_baselines:
            encodings, counts = self.critic.encode(picked.inputs, picked.actions, compact.sets)
            return Encodings(encodings, counts, compact.of_values, compact.of_baselines)
        encodings, counts = self.critic.encode_values(picked.inputs, compact.sets)
        return Encodings(encodings, counts, compact.of_values, None)

    def estimate(self, encodings: Encodings) -> tuple[Tensor, Tensor | None]:
        """Values and baselines of the steps [W, S], of a critic without a memory."""
        heads = self.critic.heads(encodings.distinct, encodings.counts)
        of_baselines = encodings.of_baselines
        baselines = None if of_baselines is None else heads.index_select(0, of_baselines)
        return heads.index_select(0, encodings.of_values), baselines

    @torch.inference_mode()
    def evaluate(self, rollout: Rollout) -> TeamEstimates:
        """Values and baselines of the trajectories' own steps, and the values of what follows them."""
        encodings, following = self._encode_steps(rollout), self._encode_following(rollout)
        if self.sequence_length:
            return self._unrolled(rollout, encodings, following)
        values, baselines = self.estimate(encodings)
        next_values, _ = self.estimate(following)
        return _estimates(values, baselines, next_values)

    def _unrolled(self, rollout: Rollout, encodings: Encodings, following: Encodings) -> TeamEstimates:
        """Run the encodings through the memory, whose states of values and of baselines go on."""
        length, memory = self.sequence_length, self.critic.memory()
        of_values, counts = encodings.steps(encodings.of_values)
        of_next, next_counts = following.steps(following.of_values)
        outputs = unroll(memory, self.value_states, rollout, length, of_values, of_next)
        assert outputs.following is not None
        values = self.critic.heads(outputs.steps, counts)
        baselines = baseline_starts = None
        if encodings.of_baselines is not None:
            of_baselines, _ = encodings.steps(encodings.of_baselines)
            alone = unroll(memory, self.baseline_states, rollout, length, of_baselines)
            baselines, baseline_starts = self.critic.heads(alone.steps, counts), alone.starts
        next_values = self.critic.heads(outputs.following, next_counts)
        return _estimates(values, baselines, next_values, outputs.starts, baseline_starts)

    def _encode_steps(self, rollout: Rollout) -> Encodings:
        rows = self.rows(rollout.obs, rollout.continuous, rollout.discrete)
        groups = group_by_time(np.arange(rollout.steps), rollout.teammates)
        at_once = min(EVALUATED_AT_ONCE, chunk_size(rows.inputs) or EVALUATED_AT_ONCE)
        encodings = Encodings.joined([self.encode(rows, chunk) for chunk in groups.chunks(at_once)])
        return encodings.take(torch.from_numpy(np.argsort(groups.steps)).to(self.device))

    def _encode_following(self, rollout: Rollout) -> Encodings:
        """The encodings, for values alone, of what each trajectory's agent and its teammates observe next."""
        ends, obs = len(rollout.lengths), list(rollout.next_obs)
        members = np.arange(ends)[:, None]
        if rollout.next_teammates_obs is not None:
            both = zip(obs, rollout.next_teammates_obs, strict=True)
            width = 1 + rollout.next_teammates_obs[0].shape[1]
            obs = [
                np.concatenate([own[:, None], teammates], 1).reshape(ends * width, *own.shape[1:])
                for own, teammates in both
            ]
            rows = np.arange(ends * width).reshape(ends, width)
            members = np.where(np.arange(width) > rollout.next_teammates[:, None], -1, rows)
        steps, ones = np.arange(ends), np.ones(ends, dtype=np.int64)
        each_alone = GroupSteps(members, steps, 0 * ones, ones)
        sets = compact_sets(each_alone, self.device, shape_multiple(self.device))
        inputs = self.actor.prepare(to_tensors([o[sets.rows.cpu().numpy()] for o in obs], self.device))
        encodings, counts = self.critic.encode_values(inputs, sets.sets)
        return Encodings(encodings, counts, sets.of_values, None)


def _estimates(
    values: Tensor,
    baselines: Tensor | None,
    next_values: Tensor,
    value_starts: Floats | None = None,
    baseline_starts: Floats | None = None,
) -> TeamEstimates:
    of_values: Floats = values.cpu().numpy()
    of_baselines = of_values if baselines is None else baselines.cpu().numpy()
    return TeamEstimates(of_values, of_baselines, next_values.cpu().numpy(), value_starts, baseline_starts)


class CompactSets(NamedTuple):
    """The sets of some group-steps as the critic takes them, and where their W steps are found."""

    sets: TeamSets
    rows: Tensor
    """The rows that the critic needs, in its order."""
    of_values: Tensor
    of_baselines: Tensor
    """[W] the index of the encoding of each step's value and baseline, see `Encodings`."""


def compact_sets(groups: GroupSteps, device: torch.device, multiple: int = 1) -> CompactSets:
    """Arrange group-steps by the size of their sets, as the critic takes them.

    Usually each row is in one set, and rows are taken in the sets' order; where many are in several, each is
    taken once. `multiple`: numbers of rows are to be filled up to multiples of it.
    """
    size = (groups.members >= 0).sum(1)
    order = np.argsort(size, kind="stable")
    numbers, counts = np.unique(size[order], return_counts=True)
    members, size = groups.members[order], size[order]
    rows: Ints = members[members >= 0]
    distinct, at = np.unique(rows, return_inverse=True)
    index, alone = None, int((size == 1).sum())
    if 4 * len(distinct) <= 3 * len(rows):
        rows, index, alone = distinct, torch.from_numpy(at).to(device), 0
    padding = -alone % multiple, -(len(rows) - alone) % multiple
    sets = TeamSets(tuple(zip(numbers.tolist(), counts.tolist(), strict=True)), index, padding)
    position = np.empty(len(groups), dtype=np.int64)
    position[order] = np.arange(len(order))
    of_values = np.repeat(position, groups.counts)
    first = len(order) - sets.alone + first_steps(size)  # encoding of the baseline of a team's first member
    of_baselines = np.where(of_values < sets.alone, of_values, first[of_values] + groups.slots)
    tensors = (torch.from_numpy(column).to(device) for column in (rows, of_values, of_baselines))
    return CompactSets(sets, *tensors)
