"""What the critic makes of teams: rows to sets, sets to values and baselines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ...networks.actor import Actor
from ...networks.modules.chunking import chunk_size
from ...networks.team_critic import Members, TeamCritic, flat_actions
from ..common.observations import to_tensors
from ..common.recurrent import CriticStates, remember
from .group_steps import GroupSteps, group_by_time
from .steps import Floats, Ints

EVALUATED_AT_ONCE = 8192
"""Pairs of members of sets that the critic looks at in one pass: n * n in each set of n. Memory grows with
their number, and with that of the members once more."""


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
    baselines: Tensor
    """[W, hidden] each."""
    counts: Tensor
    """[W] the numbers of members of their sets."""


class TeamEstimates(NamedTuple):
    """Of a rollout's steps."""

    values: Floats
    baselines: Floats
    """[steps, S] each."""
    next_values: Floats
    """[J, S]."""
    value_starts: Floats | None
    baseline_starts: Floats | None
    """[sequences, memory_size], the states before each sequence; None without a memory."""


class TeamEvaluator:
    """A critic with what it remembers of the living agents."""

    def __init__(self, actor: Actor, critic: TeamCritic, device: torch.device, sequence_length: int) -> None:
        """`actor` prepares the observations; `sequence_length` is 0 without a memory."""
        self.actor = actor
        self.critic = critic
        self.device = device
        self.sequence_length = sequence_length
        size = critic.memory.size if sequence_length else 0
        self.value_memories, self.baseline_memories = CriticStates(size), CriticStates(size)

    def rows(self, obs: list[ObsArray], continuous: Floats, discrete: NDArray[np.int32]) -> TeamRows:
        """Rows of what agents saw and did."""
        branches = self.actor.spec.action_spec.discrete_branches
        actions = flat_actions(torch.from_numpy(continuous), torch.from_numpy(discrete), branches)
        return TeamRows(self.actor.prepare(to_tensors(obs, self.device)), actions.to(self.device))

    def encode(self, rows: TeamRows, part: GroupSteps) -> Encodings:
        """The steps of some moments, in the moments' order."""
        members, chosen = members_of(part, self.device)
        picked = rows.take(chosen)
        values, baselines, counts = self.critic.encode(picked.inputs, picked.actions, members)
        moment = np.repeat(np.arange(len(part)), part.counts)
        at = torch.from_numpy(moment * members.width + part.places).to(self.device)
        of_moment = torch.from_numpy(moment).to(self.device)
        return Encodings(
            values.index_select(0, of_moment),
            baselines.flatten(0, 1).index_select(0, at),
            counts.index_select(0, of_moment),
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
            length, memory = self.sequence_length, self.critic.memory
            said = remember(memory, self.value_memories, rollout, length, of_values, following)
            assert said.following is not None
            of_values, following, value_starts = said.steps, said.following, said.starts
            said = remember(memory, self.baseline_memories, rollout, length, of_baselines)
            of_baselines, baseline_starts = said.steps, said.starts

        def heads(encoded: Tensor, of: Tensor) -> Floats:
            found: Floats = self.critic.heads(encoded, of).cpu().numpy()
            return found

        return TeamEstimates(
            heads(of_values, counts),
            heads(of_baselines, counts),
            heads(following, next_counts),
            value_starts,
            baseline_starts,
        )

    def _encode_steps(self, rollout: Rollout) -> Encodings:
        rows = self.rows(rollout.obs, rollout.continuous, rollout.discrete)
        moments = group_by_time(np.arange(rollout.steps), rollout.mates)
        at_once = min(EVALUATED_AT_ONCE, chunk_size(rows.inputs) or EVALUATED_AT_ONCE)
        parts = [self.encode(rows, part) for part in moments.portions(at_once)]
        order = torch.from_numpy(np.argsort(moments.steps)).to(self.device)
        return Encodings(*(torch.cat(columns).index_select(0, order) for columns in zip(*parts)))

    def _next_sets(self, rollout: Rollout) -> tuple[list[Tensor], Members]:
        """What each trajectory's agent and its teammates saw behind it."""
        ends = len(rollout.lengths)
        if rollout.next_mates_obs is None:
            inputs = self.actor.prepare(to_tensors(rollout.next_obs, self.device))
            return inputs, Members(None, None, ends, 1)
        both = zip(rollout.next_obs, rollout.next_mates_obs, strict=True)
        obs = [np.concatenate([own[:, None], mates], 1).reshape(-1, *own.shape[1:]) for own, mates in both]
        width = 1 + rollout.next_mates_obs[0].shape[1]
        absent = torch.from_numpy(np.arange(width) > rollout.next_mates[:, None]).to(self.device)
        return self.actor.prepare(to_tensors(obs, self.device)), Members(None, absent, ends, width)

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """These agents' unfinished episodes will never end."""
        self.value_memories.reset_agents(env, agent_ids)
        self.baseline_memories.reset_agents(env, agent_ids)


def members_of(part: GroupSteps, device: torch.device) -> tuple[Members, Tensor]:
    """The sets of some moments, and the rows that they are made of.

    Usually each row stands in one set, and rows are taken in the sets' order; where many stand in several,
    each is taken once.
    """
    sets, width = part.members.shape
    there = part.members >= 0
    rows: Ints = np.where(there, part.members, part.members[:, :1])
    absent = None if there.all() else torch.from_numpy(~there).to(device)
    distinct, at = np.unique(rows, return_inverse=True)
    if 4 * len(distinct) > 3 * rows.size:
        return Members(None, absent, sets, width), torch.from_numpy(rows.ravel()).to(device)
    index = torch.from_numpy(at.reshape(rows.shape)).to(device)
    return Members(index, absent, sets, width), torch.from_numpy(distinct).to(device)
