"""The returns of agents and groups in counted episodes, by team or seat: one rule for all that play.

Tests during training, `lanista play` and tournaments count with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps

from ...envs.base import MAX_IDLE_STEPS, BehaviorId, BehaviorName, BehaviorSteps
from . import MAX_DECISIONS
from .groups import GroupReturns, last_rewards


@runtime_checkable
class GameIndex(Protocol):
    """What an environment knows about the games that its agents play; see `TurnBasedEnvironment`."""

    def seat_name(self, behavior_id: str) -> str:
        """The name of the seat whose agents have this behavior id."""

    def game_of(self, agent_id: int) -> int:
        """The number of the game that an agent plays."""


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """A counted episode of an agent that has ended."""

    behavior: str
    agent: int
    reward: float
    length: int
    """The number of decisions but the last, as in `Environment/Episode Length`."""
    first: int
    """The number of the environment's step with which it started."""
    last: int
    """The number of the environment's step with which it ended."""
    group_reward: float | None = None
    """What the agent's group earned, if that has ended with this episode."""


@dataclass(slots=True)
class _Episode:
    """An agent's running episode."""

    counted: bool
    alone: bool
    """Whether the agent had no group when the episode started, which then counts by itself."""
    first: int
    reward: float = 0.0
    decisions: int = 0


@dataclass
class SeatScores:
    """The counted episodes of the agents with one behavior id: of one team, or one seat of a game."""

    name: str
    rewards: list[float] = field(default_factory=list)
    """Returns of the counted agents' finished episodes, in the order in which they ended."""
    decisions: list[int] = field(default_factory=list)
    """The number of decisions in each of these episodes."""
    groups: GroupReturns = field(default_factory=GroupReturns)
    alone: int = 0
    """The number of counted agents without a group that have started."""
    last_rewards_alone: list[float] = field(default_factory=list)
    """The reward of the last step of each of these agents' episodes; 0 if it was cut or interrupted."""
    games: set[int] = field(default_factory=set)
    """The games of these agents, if the environment knows them: an episode that was cut counts once."""
    num_cut: int = 0
    """The number of agents' episodes that were cut."""
    cut_agents: set[int] = field(default_factory=set)
    """The agents of these episodes, until whoever records them takes them out."""
    running: dict[int, _Episode] = field(default_factory=dict)
    """The running episodes by agent id."""

    @property
    def started(self) -> int:
        """Counted episodes that have started, of groups and of agents without one."""
        return self.alone + self.groups.started

    @property
    def last_rewards(self) -> list[float]:
        """What each counted episode, of a group or of an agent without one, earned with its last step.

        0 of an episode that was cut or interrupted: it has no result.
        """
        return [*self.groups.last_rewards, *self.last_rewards_alone]

    @property
    def any_counted(self) -> bool:
        """Whether a counted episode has not ended yet."""
        return self.groups.running or any(episode.counted for episode in self.running.values())

    def counted_agents(self) -> list[int]:
        """The agents whose running episodes are counted."""
        return [agent for agent, episode in self.running.items() if episode.counted]


class Scores:
    """Counts the first episodes that start, each to its end: those that end first would be the short ones.

    For agents in groups an episode is the group's, from its first member to its last, and what is counted of
    a group is counted of its members. If a behavior has several teams or seats, this many episodes of each
    are counted, and the score is the mean over them: in a zero-sum game the seats that happen to start first
    would otherwise decide. Where the environment knows its games, the same games are counted for all seats.
    """

    def __init__(
        self,
        behavior: str,
        episodes: int,
        most_decisions: int = MAX_DECISIONS,
        games: object = None,
        *,
        groups_earn: bool = False,
    ) -> None:
        """Start counting.

        Args:
            behavior: the behavior's name.
            episodes: how many are counted, of each team or seat.
            most_decisions: an episode of this length is cut and counted with its reward so far.
            games: the environment, which may know its games (`GameIndex`).
            groups_earn: groups of this behavior have earned rewards before.
        """
        self.behavior = behavior
        self.episodes = episodes
        self.most_decisions = most_decisions
        self.rewards: list[float] = []
        """Returns of the counted agents' finished episodes of all seats, in the order in which they ended."""
        self.lengths: list[int] = []
        """Decisions but the last in each of them, as `Environment/Episode Length` counts."""
        self.seats: dict[BehaviorId, SeatScores] = {}
        """The seats that have appeared, by behavior id."""
        self._groups_earn = groups_earn
        self._games = games if isinstance(games, GameIndex) else None
        self._counted_games: set[int] = set()

    @property
    def group_rewards(self) -> list[float]:
        """Returns of the counted groups that have ended."""
        return [reward for seat in self.seats.values() for reward in seat.groups.finished]

    @property
    def complete(self) -> bool:
        """Whether all counted episodes have started and ended.

        A seat that is empty once another one has all its episodes counts with those that it has.
        """
        seats = self.seats.values()
        if any(seat.any_counted for seat in seats):
            return False
        full = [not self._left(seat) for seat in seats]
        return any(full) and not any(seat.running for seat, done in zip(seats, full) if not done)

    @property
    def by_groups(self) -> bool:
        """Whether the policy is scored by the returns of groups, because these earn rewards."""
        of_groups = self.group_rewards
        return bool(of_groups) if self._groups_earn else any(of_groups)

    @property
    def returns(self) -> list[float]:
        """The returns that the policy is scored by: of groups if they earn rewards, else of agents."""
        return self.group_rewards if self.by_groups else self.rewards

    def returns_of(self, seat: SeatScores) -> list[float]:
        """One seat's `returns`: of groups if those of any seat earn rewards, else of agents."""
        return seat.groups.finished if self.by_groups else seat.rewards

    def returns_by_seat(self) -> dict[str, list[float]]:
        """`returns` by the name of the seat, in the order of the teams' numbers; without empty ones."""
        found = dict[str, list[float]]()
        for behavior_id in sorted(self.seats, key=lambda one: BehaviorName.parse(one).team_id):
            seat = self.seats[behavior_id]
            if returns := self.returns_of(seat):
                found.setdefault(seat.name, []).extend(returns)
        return found

    @property
    def num_episodes(self) -> int:
        """The number of episodes of the seat with the most."""
        return max(map(len, self.returns_by_seat().values()), default=0)

    @property
    def num_cut(self) -> int:
        """The number of `returns` that were cut, of the seat with the most."""
        by_groups = self.by_groups
        return max((s.groups.num_cut if by_groups else s.num_cut for s in self.seats.values()), default=0)

    def mean(self) -> float:
        """Mean over the seats of the means of their `returns`; NaN if there are none."""
        means = [np.mean(returns) for returns in self.returns_by_seat().values()]
        return float(np.mean(means)) if means else float("nan")

    def std(self) -> float:
        """Standard deviation of `returns` (divided by n); NaN if there are none."""
        return float(np.std(self.returns)) if self.returns else float("nan")

    def add(
        self, behavior_id: BehaviorId, decisions: DecisionSteps, terminals: TerminalSteps, number: int
    ) -> list[EpisodeScore]:
        """Add step `number` of the agents of one of the behavior's ids; return counted episodes it ends."""
        if behavior_id not in self.seats:
            if not len(decisions):
                return []
            self.seats[behavior_id] = SeatScores(self._seat_name(behavior_id))
        seat = self.seats[behavior_id]
        seat.groups.add(decisions, terminals)
        ended = []
        ends = zip(terminals.agent_id.tolist(), terminals.reward.tolist(), last_rewards(terminals))
        for agent, reward, last in ends:
            episode = seat.running.pop(agent, None)
            if episode is not None:
                episode.reward += reward
                ended += self._count(seat, agent, episode, number, last)
        agents = decisions.agent_id.tolist()
        for agent, reward in zip(agents, decisions.reward.tolist()):
            if agent in seat.running:
                seat.running[agent].reward += reward
        for agent, group in zip(agents, decisions.group_id.tolist()):
            episode = seat.running.get(agent)
            if episode is not None and episode.counted and episode.decisions >= self.most_decisions:
                ended += self._cut(seat, agent, number)
            if agent not in seat.running:
                seat.running[agent] = self._start(seat, agent, group, number)
            elif group > 0 and not seat.groups.has(agent):
                seat.groups.join(agent, group, counting=self._left(seat) > 0)
            seat.running[agent].decisions += 1
        return ended

    def cut_all(self, number: int) -> list[EpisodeScore]:
        """Cut all counted episodes that are still running."""
        ended = []
        for seat in self.seats.values():
            for agent in seat.counted_agents():
                if agent in seat.running:
                    ended += self._cut(seat, agent, number)
            seat.groups.cut_all()
        return ended

    def _seat_name(self, behavior_id: BehaviorId) -> str:
        if self._games is not None:
            return self._games.seat_name(behavior_id)
        return f"{self.behavior}_{BehaviorName.parse(behavior_id).team_id}"

    def _left(self, seat: SeatScores) -> int:
        """How many of the seat's counted episodes have not started."""
        started = seat.started if self._games is None else len(self._counted_games)
        return max(0, self.episodes - started)

    def _start(self, seat: SeatScores, agent: int, group: int, number: int) -> _Episode:
        counted = self._left(seat) > 0
        if group > 0:
            return _Episode(seat.groups.join(agent, group, counting=counted), False, number)
        if self._games is not None:
            game = self._games.game_of(agent)
            if counted:
                self._counted_games.add(game)
            counted = game in self._counted_games - seat.games
            seat.games.add(game)
        seat.alone += counted
        return _Episode(counted, True, number)

    def _count(
        self, seat: SeatScores, agent: int, episode: _Episode, number: int, last_reward: float
    ) -> list[EpisodeScore]:
        if not episode.counted:
            return []
        length = episode.decisions - 1
        seat.rewards.append(episode.reward)
        seat.decisions.append(episode.decisions)
        if episode.alone:
            seat.last_rewards_alone.append(last_reward)
        self.rewards.append(episode.reward)
        self.lengths.append(length)
        of_group = seat.groups.ended.get(agent)
        return [EpisodeScore(self.behavior, agent, episode.reward, length, episode.first, number, of_group)]

    def _cut(self, seat: SeatScores, agent: int, number: int) -> list[EpisodeScore]:
        """Count an episode, of a group those of all its members, as it stands."""
        ended = []
        members = seat.groups.cut(agent)
        for member in [member for member in seat.running if member in members]:
            score = self._count(seat, member, seat.running.pop(member), number, 0.0)
            seat.num_cut += len(score)
            seat.cut_agents.update(one.agent for one in score)
            ended += score
        return ended


class EpisodeCounter:
    """Counts the episodes of several behaviors in one environment, and tells when all are over."""

    def __init__(self, scores: Iterable[Scores] = ()) -> None:
        """Start counting for these behaviors; others may be put into `scores` as they appear."""
        self.scores = {one.behavior: one for one in scores}
        """The scores by the behavior's name."""
        self.number = -1
        """The number of the last step; 0 for the first observations."""
        self._asked: dict[str, int] = {}
        """The number of the last step in which agents of a behavior requested a decision."""
        self._busy_steps = 0
        """The number of steps in which a counted behavior's agents requested a decision."""

    @property
    def seats(self) -> dict[BehaviorId, SeatScores]:
        """The teams and seats of all behaviors, by behavior id."""
        return {name: seat for scores in self.scores.values() for name, seat in scores.seats.items()}

    @property
    def idle_steps(self) -> int:
        """How many steps have passed since an agent of a counted behavior requested a decision."""
        return self.number - max(self._asked.values(), default=0)

    @property
    def over(self) -> bool:
        """Whether no episode is awaited any more.

        A behavior that has been silent for `MAX_IDLE_STEPS` counts with the episodes that it has once another
        one has all of its own.
        """
        if self._exhausted:
            return True
        done = {name: scores.complete for name, scores in self.scores.items()}
        return any(done.values()) and all(
            whole or self.number - self._asked.get(name, 0) > MAX_IDLE_STEPS for name, whole in done.items()
        )

    @property
    def _exhausted(self) -> bool:
        """Whether there were enough steps for all episodes of all seats one after another."""
        scores = self.scores.values()
        longest = max((one.most_decisions for one in scores), default=0)
        most = max((one.episodes for one in scores), default=0)
        seats = sum(len(one.seats) for one in scores)
        return bool(seats) and self._busy_steps > (1 + most) * longest * seats

    def add(self, steps: Mapping[BehaviorId, BehaviorSteps]) -> list[EpisodeScore]:
        """Add the environment's next step; return the counted episodes that it ends."""
        self.number += 1
        ended, busy = [], False
        for behavior_id, (decisions, terminals) in steps.items():
            name = BehaviorName.parse(behavior_id).name
            if name in self.scores:
                if len(decisions):
                    self._asked[name], busy = self.number, True
                ended += self.scores[name].add(behavior_id, decisions, terminals, self.number)
        self._busy_steps += busy
        if self._exhausted:
            for scores in self.scores.values():
                ended += scores.cut_all(self.number)
        return ended
