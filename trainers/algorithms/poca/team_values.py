"""Evaluation of teams by the critic: from rows to sets, from sets to values and baselines."""

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
from ..common.recurrent import CriticStates, unroll
from .group_steps import GroupSteps, group_by_time
from .steps import Floats, Ints

EVALUATED_AT_ONCE = 8192
"""Pairs of members that the critic compares in one pass: n * n in each set of n. Memory grows with their
number times n."""


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
    """The critic's estimates for a rollout's steps."""

    values: Floats
    baselines: Floats
    """[steps, S] each."""
    next_values: Floats
    """[J, S]."""
    value_starts: Floats | None
    baseline_starts: Floats | None
    """[sequences, memory_size], the states before each sequence; None without a memory."""


class TeamEvaluator:
    """A critic with its recurrent states of the living agents."""

    def __init__(self, actor: Actor, critic: TeamCritic, device: torch.device, sequence_length: int) -> None:
        """`actor` prepares the observations; `sequence_length` is 0 without a memory."""
        self.actor = actor
        self.critic = critic
        self.device = device
        self.sequence_length = sequence_length
        size = critic.memory.size if sequence_length else 0
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
        values, baselines, counts = self.critic.encode(picked.inputs, picked.actions, members)
        set_of_step = np.repeat(np.arange(len(groups)), groups.counts)
        at = torch.from_numpy(set_of_step * members.width + groups.slots).to(self.device)
        of_set = torch.from_numpy(set_of_step).to(self.device)
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
            length, memory = self.sequence_length, self.critic.memory
            outputs = unroll(memory, self.value_states, rollout, length, of_values, following)
            assert outputs.following is not None
            of_values, following, value_starts = outputs.steps, outputs.following, outputs.starts
            outputs = unroll(memory, self.baseline_states, rollout, length, of_baselines)
            of_baselines, baseline_starts = outputs.steps, outputs.starts

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
        groups = group_by_time(np.arange(rollout.steps), rollout.mates)
        at_once = min(EVALUATED_AT_ONCE, chunk_size(rows.inputs) or EVALUATED_AT_ONCE)
        chunks = [self.encode(rows, chunk) for chunk in groups.chunks(at_once)]
        order = torch.from_numpy(np.argsort(groups.steps)).to(self.device)
        return Encodings(*(torch.cat(columns).index_select(0, order) for columns in zip(*chunks)))

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

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the states of these agents; see `Algorithm.reset_agents`."""
        self.value_states.reset_agents(env, agent_ids)
        self.baseline_states.reset_agents(env, agent_ids)


def members_of(groups: GroupSteps, device: torch.device) -> tuple[Members, Tensor]:
    """The sets of some group-steps, and the rows that they consist of.

    Usually each row stands in one set, and rows are taken in the sets' order; where many stand in several,
    each is taken once.
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
