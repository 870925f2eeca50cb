"""Evaluation of teams by the critic: from rows to sets, from sets to values and baselines.

Group-steps: the steps of a group's members that belong to one time.

A step's set is the agent's own row with those of its teammates. Steps with the same set belong to one
group-step, whose value is computed once. Where sets differ (a dying member sees its teammates one step old,
members decide at different times, trajectories were cut apart) a step has a group-step of its own.
"""

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
from ...networks.actor import Actor
from ...networks.modules.distributions import flat_actions
from ...networks.modules.passes import chunk_size
from ...networks.observations import to_tensors
from ...networks.team_critic import Members, TeamCritic
from ..common.recurrent import CriticStates, unroll
from .steps import Floats, Ints

EVALUATED_AT_ONCE = 8192
"""Pairs of members that the critic compares in one pass: n * n in each set of n. Memory grows with their
number times n."""


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """G sets of rows, and the W steps that belong to them, one set after another."""

    members: Ints
    """[G, n] rows in ascending order, then -1."""
    steps: Ints
    """[W] steps, those of set 0 first."""
    slots: Ints
    """[W] the index of each of these steps among the members of its set."""
    counts: Ints
    """[G] the number of steps that belong to each set."""

    def __len__(self) -> int:
        return len(self.members)

    def take(self, which: Ints) -> GroupSteps:
        """Some of the sets, in this order."""
        counts = self.counts[which]
        at = runs(first_steps(self.counts)[which], counts)
        members = self.members[which]
        widest = int((members >= 0).sum(1).max(initial=1))
        return GroupSteps(members[:, :widest], self.steps[at], self.slots[at], counts)

    def chunks(self, size: int) -> Iterator[GroupSteps]:
        """All sets in order, in chunks of at most `size` pairs of members, or of one set.

        The baselines of a set of n members compare n * n pairs, however few of its steps there are; smaller
        sets in the same chunk are padded to as many.
        """
        members = (self.members >= 0).sum(1)
        start = 0
        while start < len(self):
            widest = np.maximum.accumulate(members[start : start + size])
            pairs = widest**2 * np.arange(1, len(widest) + 1)
            stop = start + max(1, int(np.searchsorted(pairs, size, side="right")))
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
    """The different rows [G, n] of a table [W, n], and for each of its rows which that is [W]."""
    if not len(rows):
        return rows, np.zeros(0, dtype=np.int64)
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    return ordered[new], which


class TeamRows(NamedTuple):
    """Rows on the learner's device, as actor and critic read them."""

    inputs: list[Tensor]
    actions: Tensor
    """[R, action size], see `flat_actions`."""

    def take(self, which: Tensor) -> TeamRows:
        """Some of the rows, in this order."""
        return TeamRows([x.index_select(0, which) for x in self.inputs], self.actions.index_select(0, which))


class Encodings(NamedTuple):
    """Of W steps, before the critic's memory or its heads."""

    values: Tensor
    baselines: Tensor | None
    """[W, hidden] each; None of a critic without baselines."""
    counts: Tensor
    """[W] the numbers of members of their sets."""

    def take(self, which: Tensor) -> Encodings:
        """Those of some of the steps, in this order."""
        baselines = None if self.baselines is None else self.baselines.index_select(0, which)
        return Encodings(self.values.index_select(0, which), baselines, self.counts.index_select(0, which))


class TeamEstimates(NamedTuple):
    """The critic's estimates for a rollout's steps."""

    values: Floats
    baselines: Floats
    """[steps, S] each; the baselines of a critic without any are its values."""
    next_values: Floats
    """[J, S]."""
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
        members, chosen = members_of(groups, self.device)
        picked = rows.take(chosen)
        set_of_step = np.repeat(np.arange(len(groups)), groups.counts)
        of_set = torch.from_numpy(set_of_step).to(self.device)
        if not self.critic.has_baselines:
            values, counts = self.critic.encode_values(picked.inputs, members)
            return Encodings(values, None, counts).take(of_set)
        values, baselines, counts = self.critic.encode(picked.inputs, picked.actions, members)
        at = torch.from_numpy(set_of_step * members.width + groups.slots).to(self.device)
        return Encodings(
            values.index_select(0, of_set),
            baselines.flatten(0, 1).index_select(0, at),
            counts.index_select(0, of_set),
        )

    @torch.inference_mode()
    def evaluate(self, rollout: Rollout) -> TeamEstimates:
        """Values and baselines of the trajectories' own steps, and the values of what follows them."""
        encodings = self._encode_steps(rollout)
        next_inputs, next_members = self._next_sets(rollout)
        following, next_counts = self.critic.encode_values(next_inputs, next_members)
        of_values, of_baselines, counts = encodings
        value_starts = baseline_starts = None
        if self.sequence_length:
            length, memory = self.sequence_length, self.critic.memory()
            outputs = unroll(memory, self.value_states, rollout, length, of_values, following)
            assert outputs.following is not None
            of_values, following, value_starts = outputs.steps, outputs.following, outputs.starts
            if of_baselines is not None:
                outputs = unroll(memory, self.baseline_states, rollout, length, of_baselines)
                of_baselines, baseline_starts = outputs.steps, outputs.starts

        def heads(encoded: Tensor, of: Tensor) -> Floats:
            found: Floats = self.critic.heads(encoded, of).cpu().numpy()
            return found

        values = heads(of_values, counts)
        return TeamEstimates(
            values,
            values if of_baselines is None else heads(of_baselines, counts),
            heads(following, next_counts),
            value_starts,
            baseline_starts,
        )

    def _encode_steps(self, rollout: Rollout) -> Encodings:
        rows = self.rows(rollout.obs, rollout.continuous, rollout.discrete)
        groups = group_by_time(np.arange(rollout.steps), rollout.mates)
        at_once = min(EVALUATED_AT_ONCE, chunk_size(rows.inputs) or EVALUATED_AT_ONCE)
        chunks = [self.encode(rows, chunk) for chunk in groups.chunks(at_once)]
        order = torch.from_numpy(np.argsort(groups.steps)).to(self.device)
        baselines = [chunk.baselines for chunk in chunks if chunk.baselines is not None]
        return Encodings(
            torch.cat([chunk.values for chunk in chunks]),
            torch.cat(baselines) if baselines else None,
            torch.cat([chunk.counts for chunk in chunks]),
        ).take(order)

    def _next_sets(self, rollout: Rollout) -> tuple[list[Tensor], Members]:
        """The next observations of each trajectory's agent and of its teammates."""
        ends = len(rollout.lengths)
        if rollout.next_mates_obs is None:
            inputs = self.actor.prepare(to_tensors(rollout.next_obs, self.device))
            return inputs, Members(None, None, ends, 1)
        both = zip(rollout.next_obs, rollout.next_mates_obs, strict=True)
        obs = [np.concatenate([own[:, None], mates], 1).reshape(-1, *own.shape[1:]) for own, mates in both]
        width = 1 + rollout.next_mates_obs[0].shape[1]
        absent = torch.from_numpy(np.arange(width) > rollout.next_mates[:, None]).to(self.device)
        return self.actor.prepare(to_tensors(obs, self.device)), Members(None, absent, ends, width)


def members_of(groups: GroupSteps, device: torch.device) -> tuple[Members, Tensor]:
    """The sets of some group-steps, and the rows that they consist of.

    Usually each row is in one set, and rows are taken in the sets' order; where many are in several, each is
    taken once.
    """
    sets, width = groups.members.shape
    present = groups.members >= 0
    rows: Ints = np.where(present, groups.members, groups.members[:, :1])
    absent = None if present.all() else torch.from_numpy(~present).to(device)
    distinct, at = np.unique(rows, return_inverse=True)
    if 4 * len(distinct) > 3 * rows.size:
        return Members(None, absent, sets, width), torch.from_numpy(rows.ravel()).to(device)
    index = torch.from_numpy(at.reshape(rows.shape)).to(device)
    return Members(index, absent, sets, width), torch.from_numpy(distinct).to(device)
