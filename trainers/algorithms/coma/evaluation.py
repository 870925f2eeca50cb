"""Evaluation of trajectories by the critics, with their recurrent states of living agents, and advantages.

Counterfactual advantages (Foerster et al. 2018, equation 4):

    A_k(u) = Q_k(u_k) - sum over u' of pi'_k(u') Q_k(u')

for every branch k of an agent's action: how much better the action was than the agent's average action, all
others acting as they did. Under pi' its expectation is zero, so that the baseline adds no bias.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....agent_processor.rollout import first_steps, runs
from ....agent_processor.trajectory import AgentKey, Rollout
from ...networks.modules.memory import PackedSequences
from ...networks.modules.passes import chunk_size
from ..common.recurrent import CriticStates, waves
from .critic import COMANetworks, Steps, flat
from .minibatches import Floats, Ints, slots_of


class ActionValues(NamedTuple):
    """A critic's values at B agent-steps, [B, signals, branches] each."""

    taken: Tensor
    """The values of the actions that were taken."""
    expected: Tensor
    """The values of the policy's actions on average."""

    @property
    def advantages(self) -> Tensor:
        """The values of the actions taken less those of the average action, [B, signals, branches]."""
        return self.taken - self.expected


def action_values(
    values: Tensor, probabilities: Tensor, actions: Tensor, branches: Sequence[int]
) -> ActionValues:
    """Values of the actions taken and of the average action.

    Args:
        values: [B, signals, sum of branch sizes].
        probabilities: [B, sum of branch sizes], of pi'.
        actions: [B, branches] int64.
        branches: their sizes.
    """
    return ActionValues(of_actions(values, actions, branches), on_average(values, probabilities, branches))


def of_actions(values: Tensor, actions: Tensor, branches: Sequence[int]) -> Tensor:
    """The values [B, signals, sum b] of these actions [B, branches]: [B, signals, branches]."""
    sizes = torch.tensor(branches, device=values.device)
    columns = actions + (torch.cumsum(sizes, 0) - sizes)
    return values.gather(2, columns.unsqueeze(1).expand(-1, values.shape[1], -1))


def on_average(values: Tensor, probabilities: Tensor, branches: Sequence[int]) -> Tensor:
    """The values [B, signals, sum b] under the policy [B, sum b]: [B, signals, branches]."""
    weighted = torch.split(values * probabilities.unsqueeze(1), list(branches), dim=2)
    return torch.stack([branch.sum(2) for branch in weighted], 2)


class NextMembers:
    """The E group members that continue after the trajectories of a rollout, trajectory by trajectory."""

    def __init__(self, rollout: Rollout) -> None:
        assert rollout.next_roster is not None
        self.rollout = rollout
        self.end, self.slot = np.nonzero(rollout.next_roster >= 0)
        """[E] the trajectory after which each member continues, and the member's slot."""
        self.rows = rollout.next_roster[self.end, self.slot]

    def read(self, memories: CriticStates) -> Floats:
        """[E, size] the members' states as stored before the rollout; zeros for unknown agents."""
        return memories.read(self._agents())

    def latest(self, earlier: Floats, final: Floats) -> Floats:
        """[E, size] the latest known state of each member.

        That is the final state of its own trajectory, if that ends in this very row; else of its last
        trajectory before this one; else the `earlier` state [E, size], from `read`. A member whose episode
        has ended starts the next one with zeros. `final` [J, size] are the states after the trajectories.
        """
        rollout, states = self.rollout, earlier.copy()
        assert rollout.next_place is not None and rollout.next_roster is not None
        goes_on = np.flatnonzero(rollout.next_place >= 0)
        their_rows = rollout.next_roster[goes_on, rollout.next_place[goes_on]]
        of_row = dict(zip(their_rows.tolist(), goes_on.tolist()))
        so_far: dict[AgentKey, int] = {}
        counted = 0
        members = zip(self.end.tolist(), self.rows.tolist(), self._agents(), strict=True)
        for i, (end, row, agent) in enumerate(members):
            for j in range(counted, end + 1):
                so_far[rollout.agents[j]] = j
            counted = end + 1
            own = of_row.get(row)
            last = so_far.get(agent)
            if own is not None:
                states[i] = final[own]
            elif last is not None:
                states[i] = 0.0 if rollout.episode_over[last] else final[last]
        return states

    def _agents(self) -> list[AgentKey]:
        assert self.rollout.next_agents is not None
        ids = self.rollout.next_agents[self.end, self.slot].tolist()
        agents = self.rollout.agents
        return [AgentKey(agents[j].env, agent) for j, agent in zip(self.end.tolist(), ids, strict=True)]


AT_ONCE = 4096
"""The number of steps that are evaluated in one pass; the critic's input for each grows with the slots."""


@dataclass(frozen=True, slots=True)
class CounterfactualEstimates:
    """The critics' estimates for the own steps of a rollout, for S signals."""

    taken: Floats
    """[steps, S] the target critic's values of the actions taken."""
    expected: Floats
    """[steps, S] the critic's values of the average action."""
    following: Floats
    """[J, S] the target critic's expectation after each trajectory; 0 where no member continues."""
    critic_states: Floats | None
    """[J, memory_size] the critic's state before each trajectory; None without a memory."""


class CounterfactualEvaluator:
    """Evaluates rollouts, and keeps the recurrent states of the critics for living agents."""

    def __init__(self, networks: COMANetworks, sampler: torch.Generator) -> None:
        """Keep the networks; `sampler` draws the next actions of members from the policy."""
        self.networks = networks
        self.sampler = sampler
        size = networks.critic.memory_size
        self.memories, self.target_memories = CriticStates(size), CriticStates(size)

    @torch.no_grad()
    def __call__(self, rollout: Rollout, exploration: float) -> CounterfactualEstimates:
        """Evaluate a rollout; `exploration` is that of the members' next actions."""
        assert rollout.roster is not None and rollout.exploration is not None
        nets, lengths = self.networks, rollout.lengths
        obs, actions = [nets.tensor(o) for o in rollout.obs], nets.discrete(rollout.discrete)
        inputs = nets.actors.prepare(obs)
        table, target_table = (nets.table_of(n, obs, actions) for n in (nets.critic, nets.target))
        rows = np.arange(rollout.steps)
        steps = Steps(
            nets.tensor(rows),
            nets.tensor(np.where(rollout.roster >= 0, rollout.roster, len(rollout.reward))),
            nets.tensor(slots_of(rows, rollout.roster)),
        )
        mask, explored = nets.mask(rollout.action_mask), nets.tensor(rollout.exploration)
        before = _States(nets, len(lengths))
        final = _States(nets, len(lengths))
        following = NextMembers(rollout)
        earlier = following.read(self.target_memories) if nets.target.memories else None
        starts = first_steps(lengths)
        taken = torch.empty(rollout.steps, len(nets.critic.signals), device=nets.device)
        expected = torch.empty_like(taken)
        at_once = min(AT_ONCE, chunk_size(inputs) or AT_ONCE)
        for some in self._chunks(rollout, at_once):
            part_rows = nets.tensor(runs(starts[some], lengths[some]))
            part = steps.take(part_rows)
            here = None if mask is None else mask[part.own]
            sequences = self._sequences(rollout, some, before)
            policy = nets.policy(inputs, part, here, explored[part.own], self._actor_sequences(rollout, some))
            values, critic_states = nets.critic.forward_with_states(table, part, sequences[0])
            target_values, target_states = nets.target.forward_with_states(target_table, part, sequences[1])
            taken[part_rows] = of_actions(target_values, actions[part.own], nets.branches).mean(2)
            expected[part_rows] = on_average(values, flat(policy), nets.branches).mean(2)
            if critic_states is not None and target_states is not None:
                final.keep(some, critic_states, target_states)
                self._store(rollout, some, final)
        return CounterfactualEstimates(
            taken.cpu().numpy(),
            expected.cpu().numpy(),
            self._following(following, exploration, earlier, final.target.cpu().numpy()),
            before.critic.cpu().numpy() if nets.critic.memories else None,
        )

    def _chunks(self, rollout: Rollout, at_once: int) -> Iterator[Ints]:
        """The trajectories in chunks of about `at_once` steps; an agent's in order where critics remember."""
        together = [np.arange(len(rollout.lengths))]
        for wave in waves(rollout.agents) if self.networks.critic.memories else together:
            portion = (np.cumsum(rollout.lengths[wave]) - 1) // at_once
            yield from np.split(wave, np.flatnonzero(np.diff(portion)) + 1)

    def _actor_sequences(self, rollout: Rollout, some: Ints) -> PackedSequences | None:
        if rollout.memory is None:
            return None
        states = rollout.memory[first_steps(rollout.lengths)[some]]
        return PackedSequences(rollout.lengths[some].tolist(), self.networks.tensor(states))

    def _sequences(
        self, rollout: Rollout, some: Ints, before: _States
    ) -> tuple[PackedSequences | None, PackedSequences | None]:
        """These trajectories as sequences from the current states of the critic and of the target."""
        if not self.networks.critic.memories:
            return None, None
        agents = [rollout.agents[j] for j in some.tolist()]
        critic, target = (self.networks.tensor(m.read(agents)) for m in (self.memories, self.target_memories))
        before.keep(some, critic, target)
        lengths = rollout.lengths[some].tolist()
        return PackedSequences(lengths, critic), PackedSequences(lengths, target)

    def _store(self, rollout: Rollout, some: Ints, final: _States) -> None:
        agents, ended = [rollout.agents[j] for j in some.tolist()], rollout.episode_over[some]
        self.memories.write(agents, final.critic[some].cpu().numpy(), ended)
        self.target_memories.write(agents, final.target[some].cpu().numpy(), ended)

    def _following(
        self, following: NextMembers, exploration: float, earlier: Floats | None, final: Floats
    ) -> Floats:
        """[J, S] the target critic's expectation of the states after the trajectories.

        Every member that continues counts equally: they earn the same. The actions of the others are sampled
        from pi'; those of the member itself are summed over. Each is valued with the target's recurrent state
        of it: `earlier` and `final` as of `NextMembers.latest`.
        """
        rollout, end, slot = following.rollout, following.end, following.slot
        assert rollout.next_roster is not None
        nets, ends = self.networks, len(rollout.lengths)
        expected = np.zeros((ends, len(nets.critic.signals)), np.float32)
        if not len(end):
            return expected
        rows, at = np.unique(following.rows, return_inverse=True)
        at = at.reshape(-1)
        number = np.full(len(rollout.reward) + 1, len(rows), dtype=np.int64)  # also of -1: the row of zeros
        number[rows] = np.arange(len(rows))
        obs = [nets.tensor(o[rows]) for o in rollout.obs]
        slot_of_row = np.empty(len(rows), dtype=np.int64)
        slot_of_row[at] = slot
        own = nets.tensor(np.arange(len(rows)))
        alone = Steps(own, own[:, None], nets.tensor(slot_of_row))
        mask = None if rollout.action_mask is None else nets.mask(rollout.action_mask[rows])
        sequences = None
        if rollout.memory is not None:
            sequences = PackedSequences([1] * len(rows), nets.tensor(rollout.memory[rows]))
        policy = nets.policy(nets.actors.prepare(obs), alone, mask, exploration, sequences)
        table = nets.table_of(nets.target, obs, policy.sample(self.sampler).discrete)
        members = Steps(nets.tensor(at), nets.tensor(number[rollout.next_roster[end]]), nets.tensor(slot))
        remembered = None
        if earlier is not None:
            remembered = PackedSequences([1] * len(end), nets.tensor(following.latest(earlier, final)))
        values = nets.target(table, members, remembered)
        found = on_average(values, flat(policy)[members.own], nets.branches).mean(2).cpu().numpy()
        counts = np.maximum(np.bincount(end, minlength=ends), 1)
        for s in range(found.shape[1]):
            expected[:, s] = np.bincount(end, weights=found[:, s], minlength=ends) / counts
        return expected


class _States:
    """A state of the critic's and the target's memory for each of J trajectories."""

    def __init__(self, networks: COMANetworks, ends: int) -> None:
        self.critic = torch.zeros(ends, networks.critic.memory_size, device=networks.device)
        self.target = torch.zeros_like(self.critic)

    def keep(self, some: Ints, critic: Tensor, target: Tensor) -> None:
        rows = torch.from_numpy(some).to(self.critic.device)
        self.critic[rows], self.target[rows] = critic, target
