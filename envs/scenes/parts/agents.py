"""What agents have earned and which request decisions: agents on their own, and agents in groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...protocol.engine import AgentBatch, Observed
from ..world import EndedAgents, Statistic, take_averages, without_groups
from .physics2d import Indices

Observations = Sequence[NDArray[np.float32]]


class IndependentAgents:
    """The rewards, ended episodes and decision requests of n agents without groups.

    As in Unity, an agent keeps its id when it changes its behavior between two episodes: the end is reported
    under the old behavior, the next decision requested under the new one.
    """

    def __init__(self, count: int, behaviors: int = 1) -> None:
        self.behavior: Indices = np.zeros(count, np.intp)
        """The number of each agent's behavior, [n]; change it only where an episode has just ended."""
        self.asking: list[Indices] = [np.arange(count)] + [np.arange(0)] * (behaviors - 1)
        """The agents of each behavior whose actions come next, in the order of the actions."""
        self._ids = np.arange(count, dtype=np.int32)
        self._reward = np.zeros(count)
        self._ended: list[list[EndedAgents]] = [[] for _ in range(behaviors)]

    def reset(self) -> None:
        """Discard all rewards and ended episodes."""
        self._reward[:] = 0
        for ended in self._ended:
            ended.clear()

    def add_reward(self, amount: float | NDArray[np.float64]) -> None:
        """Add this reward to every agent, or to each its own [n]."""
        self._reward += amount

    def set_reward(self, which: Indices, amount: float) -> None:
        """Replace the rewards of these agents [k] since their last decision."""
        self._reward[which] = amount

    def end_episodes(self, which: Indices, obs: Observations, interrupted: bool = False) -> None:
        """End the episodes of these agents [k] and start the next ones.

        Args:
            which: The agents, each once.
            obs: Their last observations, [k, ...] for each sensor.
            interrupted: The limit of steps ended them.
        """
        for number, ended in enumerate(self._ended):
            (rows,) = np.nonzero(self.behavior[which] == number)
            if len(rows):
                agents = which[rows]
                ended.append(
                    EndedAgents(
                        self._ids[agents],
                        [seen[rows] for seen in obs],
                        self._reward[agents].astype(np.float32),
                        np.full(len(rows), interrupted),
                    )
                )
        self._reward[which] = 0

    def request_decisions(self, obs: Observations) -> list[AgentBatch]:
        """The agents of each behavior that ended since the last call, then those that request a decision.

        `obs`: the observations of all agents, [n, ...] for each sensor.
        """
        batches = []
        for number, ended in enumerate(self._ended):
            (asking,) = np.nonzero(self.behavior == number)
            self.asking[number] = asking
            rows = [seen if len(asking) == len(seen) else seen[asking] for seen in obs]
            owed = self._reward[asking].astype(np.float32)
            batches.append(without_groups(self._ids[asking], rows, owed, ended))
            ended.clear()
        self._reward[:] = 0
        return batches


GROUP_RETURN = "Environment/Group Return"
"""The statistic of a group's return."""

GroupObservations = Sequence[Observed]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Agents that report together."""

    agent_id: NDArray[np.int32]
    group_id: NDArray[np.int32]
    group_reward: NDArray[np.float32]
    reward: NDArray[np.float32]
    obs: GroupObservations
    done: bool
    interrupted: bool


class AgentGroups:
    """Which agents live, under which ids, and the rewards of their groups since their last decision.

    Group ids are 1 for the first area, 2 for the second and so on, as Unity counts them. An agent keeps its
    id as long as it lives, also from one episode of its group to the next; an agent that returns after its
    death gets a new one.
    """

    def __init__(self, areas: int, members: int, team: int = 0, teams: int = 1) -> None:
        """Start with all alive; `team` of `teams`: for areas with several groups, which share no ids."""
        self.alive: NDArray[np.bool_] = np.ones((areas, members), np.bool_)
        """Which agents live, [areas, members]."""
        ids = np.arange(areas * teams * members, dtype=np.int32).reshape(areas, teams, members)
        self._ids = ids[:, team].copy()
        self._next_id, self._id_step = areas * teams * members + team, teams
        group = np.arange(1 + team, 1 + areas * teams, teams, dtype=np.int32)
        self._group = np.repeat(group, members).reshape(areas, members)
        self._reward = np.zeros((areas, members))
        self._own = np.zeros((areas, members))
        self._earned = np.zeros(areas)
        self._returns: list[float] = []
        self._ended: list[_Rows] = []
        self.asking: Indices = np.arange(areas * members)
        """Flat indices [n] of the agents whose actions come next, in the order of the actions."""

    def reset(self) -> None:
        """Let all agents live again; discard rewards and ended episodes."""
        self._earned[:] = 0
        self._respawn(np.arange(len(self.alive)))
        self._ended.clear()

    def add_reward(self, amount: float | NDArray[np.float64]) -> None:
        """Add this reward to every group, or to each its own [areas]; living agents report it."""
        self._reward += np.multiply(self.alive, np.asarray(amount).reshape(-1, 1))
        self._earned += amount

    def add_agent_rewards(self, amount: NDArray[np.float64]) -> None:
        """Add individual rewards [areas, members], which groups and teammates do not share."""
        self._own += amount

    def remove(self, areas: Indices, members: Indices, obs: GroupObservations) -> None:
        """End these agents' episodes, but not their groups'. `obs`: [k, ...], their last observations."""
        self._end_rows(areas, members, obs, interrupted=False)
        self.alive[areas, members] = False

    def end_episodes(self, areas: Indices, obs: GroupObservations, interrupted: bool = False) -> None:
        """End the episodes of these groups and start the next ones.

        Args:
            areas: [k], the areas of these groups.
            obs: The last observations of all members, the dead included, [k, members, ...] each.
            interrupted: The limit of steps ended them.
        """
        self._returns += self._earned[areas].tolist()
        self._earned[areas] = 0
        row, member = np.nonzero(self.alive[areas])
        self._end_rows(areas[row], member, [seen[row, member] for seen in obs], interrupted)
        self._respawn(areas)

    def take_returns(self) -> list[Statistic]:
        """The returns of the groups whose episodes ended since the last call, whichever agents lived."""
        return take_averages(GROUP_RETURN, self._returns)

    def request_decisions(self, obs: GroupObservations) -> AgentBatch:
        """The agents that ended since the last call, then the living; `obs`: [areas, members, ...] each."""
        alive = self.alive.reshape(-1)
        flat = [seen.reshape(alive.size, *seen.shape[2:]) for seen in obs]
        self.asking = np.flatnonzero(alive)
        if len(self.asking) < alive.size:
            flat = [seen[self.asking] for seen in flat]
        asking = _Rows(
            self._ids.reshape(-1)[self.asking],
            self._group.reshape(-1)[self.asking],
            self._reward.reshape(-1)[self.asking].astype(np.float32),
            self._own.reshape(-1)[self.asking].astype(np.float32),
            flat,
            done=False,
            interrupted=False,
        )
        self._reward[:] = 0
        self._own[:] = 0
        batch = _batch([*self._ended, asking])
        self._ended.clear()
        return batch

    def _end_rows(self, areas: Indices, members: Indices, obs: GroupObservations, interrupted: bool) -> None:
        ids, group = self._ids[areas, members], self._group[areas, members]
        owed, own = (paid[areas, members].astype(np.float32) for paid in (self._reward, self._own))
        self._ended.append(_Rows(ids, group, owed, own, obs, True, interrupted))

    def _respawn(self, areas: Indices) -> None:
        row, member = np.nonzero(~self.alive[areas])
        self._ids[areas[row], member] = self._next_id + self._id_step * np.arange(len(row))
        self._next_id += self._id_step * len(row)
        self.alive[areas] = True
        self._reward[areas] = 0
        self._own[areas] = 0


def _batch(rows: Sequence[_Rows]) -> AgentBatch:
    if len(rows) == 1:
        obs = list(rows[0].obs)
    else:
        obs = [np.concatenate(seen) for seen in zip(*(part.obs for part in rows))]
    counts = [len(part.agent_id) for part in rows]
    return AgentBatch(
        obs=obs,
        reward=np.concatenate([part.reward for part in rows]),
        done=np.repeat([part.done for part in rows], counts),
        interrupted=np.repeat([part.interrupted for part in rows], counts),
        agent_id=np.concatenate([part.agent_id for part in rows]),
        group_id=np.concatenate([part.group_id for part in rows]),
        group_reward=np.concatenate([part.group_reward for part in rows]),
    )
