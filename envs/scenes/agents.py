"""The agents of scenes in which each is on its own: no groups.

The agents of areas in which each area's agents are one group.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base import StatsAggregationMethod
from ..protocol.engine import AgentBatch, Observed
from .world import EndedEpisodes, Statistic, without_groups

Indices = NDArray[np.intp]
Observations = Sequence[NDArray[np.float32]]


class IndependentAgents:
    """What each of n agents has earned since it was last told, whose episodes ended, and who asks.

    An agent keeps its id, as in Unity, also where it changes its behavior between two episodes: it is told
    of the end under the old one and asks under the new one.
    """

    def __init__(self, count: int, behaviors: int = 1) -> None:
        self.behavior: Indices = np.zeros(count, np.intp)
        """[n], the number of each agent's behavior; change it only where an episode has just ended."""
        self.asking: list[Indices] = [np.arange(count)] + [np.arange(0)] * (behaviors - 1)
        """For each behavior the agents that were asked for actions last, in the order of the actions."""
        self._ids = np.arange(count, dtype=np.int32)
        self._reward = np.zeros(count)
        self._ended: list[list[EndedEpisodes]] = [[] for _ in range(behaviors)]

    def reset(self) -> None:
        """Nothing is told of what was before."""
        self._reward[:] = 0
        for ended in self._ended:
            ended.clear()

    def add_reward(self, amount: float | NDArray[np.float64]) -> None:
        """Pay every agent this amount, or each its own [n]."""
        self._reward += amount

    def set_reward(self, which: Indices, amount: float) -> None:
        """Replace what these agents [k] have earned since they were last told."""
        self._reward[which] = amount

    def end_episodes(self, which: Indices, obs: Observations, interrupted: bool = False) -> None:
        """End the episodes of these agents [k]; the next ones begin.

        Args:
            which: Who, each once.
            obs: What they saw last, [k, ...] for each sensor.
            interrupted: The limit of steps ended them.
        """
        for number, ended in enumerate(self._ended):
            (rows,) = np.nonzero(self.behavior[which] == number)
            if len(rows):
                agents = which[rows]
                ended.append(
                    EndedEpisodes(
                        self._ids[agents],
                        [seen[rows] for seen in obs],
                        self._reward[agents].astype(np.float32),
                        np.full(len(rows), interrupted),
                    )
                )
        self._reward[which] = 0

    def request_decisions(self, obs: Observations) -> list[AgentBatch]:
        """For each behavior who ended since the last call, then its agents and what they see.

        `obs`: what all agents see, [n, ...] for each sensor.
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
"""The statistic of what a group has earned in its episode."""

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
    """Who lives, under which id, and what each group has earned since its agents were last told.

    Group ids are 1 for the first area, 2 for the second and so on, as Unity counts them. An agent keeps its
    id for as long as it lives, also from one episode of its group to the next; who comes back from the dead
    gets a new one.
    """

    def __init__(self, areas: int, members: int, team: int = 0, teams: int = 1) -> None:
        """`team` of `teams`: where areas hold several groups, whose agents and groups share no ids."""
        self.alive: NDArray[np.bool_] = np.ones((areas, members), np.bool_)
        """[areas, members]."""
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
        """Flat indices [n] of the agents that were asked for actions last, in the order of the actions."""

    def reset(self) -> None:
        """Everybody lives again; nothing is told of what was before."""
        self._earned[:] = 0
        self._respawn(np.arange(len(self.alive)))
        self._ended.clear()

    def add_reward(self, amount: float | NDArray[np.float64]) -> None:
        """Pay every group this amount, or each its own [areas]; the living are told."""
        self._reward += np.multiply(self.alive, np.asarray(amount).reshape(-1, 1))
        self._earned += amount

    def add_agent_rewards(self, amount: NDArray[np.float64]) -> None:
        """Pay agents on their own, [areas, members]; their groups and mates get nothing of it."""
        self._own += amount

    def remove(self, areas: Indices, members: Indices, obs: GroupObservations) -> None:
        """The episodes of these agents end, not of their groups. `obs`: [k, ...], what they saw last."""
        self._end_rows(areas, members, obs, interrupted=False)
        self.alive[areas, members] = False

    def end_episodes(self, areas: Indices, obs: GroupObservations, interrupted: bool = False) -> None:
        """End the episodes of these groups and begin the next ones.

        Args:
            areas: [k], whose groups.
            obs: [k, members, ...] each; what all of their members saw last, the dead included.
            interrupted: The limit of steps ended them.
        """
        self._returns += self._earned[areas].tolist()
        self._earned[areas] = 0
        row, member = np.nonzero(self.alive[areas])
        self._end_rows(areas[row], member, [seen[row, member] for seen in obs], interrupted)
        self._respawn(areas)

    def take_returns(self) -> list[Statistic]:
        """What each group has earned whose episode ended since the last call, whoever lived to be told."""
        returns: list[Statistic] = [
            (GROUP_RETURN, value, StatsAggregationMethod.AVERAGE) for value in self._returns
        ]
        self._returns.clear()
        return returns

    def request_decisions(self, obs: GroupObservations) -> AgentBatch:
        """Who ended since the last call, then all who live and what they see ([areas, members, ...] each)."""
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
