"""The returns of agents and groups in an evaluation, by seat.

A group's episode lasts from the moment its first member appears until its last one has ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps

from ....envs.base import BehaviorName
from ...callbacks.events import EpisodeScore


@dataclass
class GroupEpisode:
    """A group's running episode."""

    counted: bool
    reward: float = 0.0
    members: set[int] = field(default_factory=set)
    """Ids of the agents that are still in it."""


class GroupReturns:
    """The groups of one behavior in one environment.

    A group reward counts once, however many members report it. Members that decide at different times report
    it at different times; the largest report of a step, by absolute value, then stands for all. An agent that
    is in another group, or in none, has left its former one.
    """

    def __init__(self) -> None:
        self.finished: list[float] = []
        """Returns of the counted groups whose members have all ended, or that were cut."""
        self.num_cut = 0
        """Counted groups that were cut."""
        self.started = 0
        """Counted groups that have started."""
        self._running_groups: dict[int, GroupEpisode] = {}
        self._group_of: dict[int, int] = {}
        """The running group of each member; a group may end without a member that is unregistered."""

    @property
    def running(self) -> bool:
        """Whether a counted group has not ended yet."""
        return any(group.counted for group in self._running_groups.values())

    def counts(self, group_id: int) -> bool:
        """Whether the group is running and counted."""
        return group_id in self._running_groups and self._running_groups[group_id].counted

    def cut(self, group_id: int) -> None:
        """Count the group's reward so far; its episode may never end."""
        group = self._running_groups.get(group_id)
        if group is not None and group.counted:
            group.counted = False
            self.num_cut += 1
            self.finished.append(group.reward)

    def cut_all(self) -> None:
        """Count the rewards so far of all counted groups that are still running."""
        for group_id in self._running_groups:
            self.cut(group_id)

    def add(
        self, decisions: DecisionSteps, terminals: TerminalSteps, counting: bool, most: float = math.inf
    ) -> None:
        """Add a step; the first `most` groups that start with it are counted if `counting`."""
        reported: dict[int, float] = {}
        for steps in (terminals, decisions):
            rows = zip(steps.agent_id.tolist(), steps.group_id.tolist(), steps.group_reward.tolist())
            for agent, group_id, reward in rows:
                own = self._group_of.get(agent)
                if own is None:
                    continue
                earned = reported.get(own, 0.0)
                reported[own] = max(earned, reward, key=abs) if own == group_id else earned
                if steps is terminals or own != group_id:
                    self._running_groups[own].members.discard(agent)
                    del self._group_of[agent]
        for group_id, reward in reported.items():
            group = self._running_groups[group_id]
            group.reward += reward
            if not group.members:
                del self._running_groups[group_id]
                if group.counted:
                    self.finished.append(group.reward)
        for agent, group_id in zip(decisions.agent_id.tolist(), decisions.group_id.tolist()):
            if group_id > 0:
                if group_id not in self._running_groups:
                    counted = counting and most > 0
                    self._running_groups[group_id] = GroupEpisode(counted)
                    self.started += counted
                    most -= counted
                self._running_groups[group_id].members.add(agent)
                self._group_of[agent] = group_id


@runtime_checkable
class GameIndex(Protocol):
    """What an environment knows about the games that its agents play; see `TurnBasedEnvironment`."""

    def seat_name(self, behavior_id: str) -> str:
        """The name of the seat whose agents have this behavior id."""

    def game_of(self, agent_id: int) -> int:
        """The number of the game that an agent plays."""


@dataclass
class _Episode:
    """An agent's running episode."""

    counted: bool
    group: int
    first: int
    reward: float = 0.0
    decisions: int = 0


@dataclass
class SeatScores:
    """The counted episodes of the agents with one behavior id: of one team, or one seat of a game."""

    name: str
    rewards: list[float] = field(default_factory=list)
    """Returns of the counted agents' finished episodes, in the order in which they ended."""
    groups: GroupReturns = field(default_factory=GroupReturns)
    alone: int = 0
    """The number of counted agents without a group that have started."""
    games: set[int] = field(default_factory=set)
    """The games of these agents, if the environment knows them: an episode that was cut counts once."""
    num_cut: int = 0
    """The number of agents' episodes that were cut."""
    running: dict[int, _Episode] = field(default_factory=dict)
    """The running episodes by agent id."""

    @property
    def started(self) -> int:
        """Counted episodes that have started, of groups and of agents without one."""
        return self.alone + self.groups.started

    @property
    def any_counted(self) -> bool:
        """Whether a counted episode has not ended yet."""
        return self.groups.running or any(episode.counted for episode in self.running.values())

    def firsts(self) -> list[int]:
        """The numbers of the steps with which the counted running episodes started."""
        return [episode.first for episode in self.running.values() if episode.counted]


class Scores:
    """Counts the first episodes that start, each to its end: those that end first would be the short ones.

    For agents in groups an episode is the group's, from its first member to its last. If a behavior has
    several teams or seats, this many episodes of each are counted, and the score is the mean over them: in a
    zero-sum game the seats that happen to start first would otherwise decide. Where the environment knows
    its games, the same games are counted for all seats.
    """

    def __init__(
        self, behavior: str, episodes: int, most_decisions: int = 5000, games: GameIndex | None = None
    ) -> None:
        """Start counting.

        Args:
            behavior: the behavior's name.
            episodes: how many are counted, of each seat.
            most_decisions: an episode of this length is cut and counted with its reward so far.
            games: the environment's games, if it knows them.
        """
        self.behavior = behavior
        self.episodes = episodes
        self.most_decisions = most_decisions
        self.rewards: list[float] = []
        """Returns of the counted agents' finished episodes of all seats, in the order in which they ended."""
        self.lengths: list[int] = []
        """Decisions but the last in each of them, as `Environment/Episode Length` counts."""
        self._games = games
        self._counted_games: set[int] = set()
        self._seats: dict[str, SeatScores] = {}

    @property
    def group_rewards(self) -> list[float]:
        """Returns of the counted groups that have ended."""
        return [reward for seat in self._seats.values() for reward in seat.groups.finished]

    @property
    def complete(self) -> bool:
        """Whether all counted episodes have started and ended.

        A seat that is empty once another one has all its episodes counts with those that it has.
        """
        seats = self._seats.values()
        if any(seat.any_counted for seat in seats):
            return False
        full = [not self._left(seat) for seat in seats]
        return any(full) and not any(seat.running for seat, done in zip(seats, full) if not done)

    @property
    def by_groups(self) -> bool:
        """Whether the policy is scored by the returns of groups, because these earn rewards."""
        return any(self.group_rewards)

    @property
    def returns(self) -> list[float]:
        """The returns that the policy is scored by: of groups if they earn rewards, else of agents."""
        return self.group_rewards if self.by_groups else self.rewards

    def returns_by_seat(self) -> dict[str, list[float]]:
        """`returns` by the name of the seat, in the order of the teams' numbers; without empty ones."""
        by_groups, found = self.by_groups, dict[str, list[float]]()
        for behavior_id in sorted(self._seats, key=lambda one: BehaviorName.parse(one).team_id):
            seat = self._seats[behavior_id]
            if returns := seat.groups.finished if by_groups else seat.rewards:
                found.setdefault(seat.name, []).extend(returns)
        return found

    @property
    def num_episodes(self) -> int:
        """The number of episodes of the seat with the most."""
        return max(map(len, self.returns_by_seat().values()), default=0)

    @property
    def num_seats(self) -> int:
        """How many teams or seats have appeared."""
        return len(self._seats)

    @property
    def num_cut(self) -> int:
        """How many of `returns` were cut, of the seat with the most."""
        by_groups = self.by_groups
        return max((s.groups.num_cut if by_groups else s.num_cut for s in self._seats.values()), default=0)

    def mean(self) -> float:
        """Mean over the seats of the means of their `returns`; NaN if there are none."""
        means = [np.mean(returns) for returns in self.returns_by_seat().values()]
        return float(np.mean(means)) if means else float("nan")

    def std(self) -> float:
        """Standard deviation of `returns` (divided by n); NaN if there are none."""
        return float(np.std(self.returns)) if self.returns else float("nan")

    def firsts(self) -> list[int]:
        """The numbers of the steps with which the counted episodes that are still running started."""
        return [first for seat in self._seats.values() for first in seat.firsts()]

    def add(
        self, behavior_id: str, decisions: DecisionSteps, terminals: TerminalSteps, number: int
    ) -> list[EpisodeScore]:
        """Add step `number` of the agents of one of the behavior's ids; return counted episodes it ends."""
        if behavior_id not in self._seats:
            if not len(decisions):
                return []
            self._seats[behavior_id] = SeatScores(self._seat_name(behavior_id))
        seat = self._seats[behavior_id]
        seat.groups.add(decisions, terminals, counting=True, most=self._left(seat))
        ended = []
        for agent, reward in zip(terminals.agent_id.tolist(), terminals.reward.tolist()):
            episode = seat.running.pop(agent, None)
            if episode is not None:
                episode.reward += reward
                ended += self._count(seat, agent, episode, number)
        rows = zip(decisions.agent_id.tolist(), decisions.group_id.tolist(), decisions.reward.tolist())
        for agent, group, reward in rows:
            episode = seat.running.get(agent)
            if episode is not None:
                episode.reward += reward
                if episode.counted and episode.decisions >= self.most_decisions:
                    ended += self._cut(seat, agent, number)
            if agent not in seat.running:
                episode = seat.running[agent] = self._start(seat, agent, group, number)
            assert episode is not None
            episode.decisions += 1
        return ended

    def cut_all(self, number: int) -> list[EpisodeScore]:
        """Cut all counted episodes that are still running."""
        ended = []
        for seat in self._seats.values():
            for agent in [agent for agent, episode in seat.running.items() if episode.counted]:
                if agent in seat.running:
                    ended += self._cut(seat, agent, number)
            seat.groups.cut_all()
        return ended

    def _seat_name(self, behavior_id: str) -> str:
        if self._games is not None:
            return self._games.seat_name(behavior_id)
        return f"{self.behavior}_{BehaviorName.parse(behavior_id).team_id}"

    def _left(self, seat: SeatScores) -> int:
        """How many of the seat's counted episodes have not started."""
        started = seat.started if self._games is None else len(self._counted_games)
        return max(0, self.episodes - started)

    def _start(self, seat: SeatScores, agent: int, group: int, number: int) -> _Episode:
        if group > 0:
            return _Episode(seat.groups.counts(group), group, number)
        counted = self._left(seat) > 0
        if self._games is not None:
            game = self._games.game_of(agent)
            if len(self._counted_games) < self.episodes:
                self._counted_games.add(game)
            counted = game in self._counted_games - seat.games
            seat.games.add(game)
        seat.alone += counted
        return _Episode(counted, 0, number)

    def _count(self, seat: SeatScores, agent: int, episode: _Episode, number: int) -> list[EpisodeScore]:
        if not episode.counted:
            return []
        length = episode.decisions - 1
        seat.rewards.append(episode.reward)
        self.rewards.append(episode.reward)
        self.lengths.append(length)
        return [EpisodeScore(self.behavior, agent, episode.reward, length, episode.first, number)]

    def _cut(self, seat: SeatScores, agent: int, number: int) -> list[EpisodeScore]:
        """Count an episode, of a group those of all its members, as it stands."""
        group = seat.running[agent].group
        members = [agent]
        if group > 0:
            members = [other for other, episode in seat.running.items() if episode.group == group]
            seat.groups.cut(group)
        ended = []
        for member in members:
            score = self._count(seat, member, seat.running.pop(member), number)
            seat.num_cut += len(score)
            ended += score
        return ended
