"""The returns of agents and groups in an evaluation.

A group's episode lasts from the moment its first member appears until its last one has ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps

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
    it at different times; the largest report of a step, by absolute value, then stands for all.
    """

    def __init__(self) -> None:
        self.finished: list[float] = []
        """Returns of the counted groups whose members have all ended."""
        self.started = 0
        """Counted groups that have started."""
        self._running_groups: dict[int, GroupEpisode] = {}

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
            self.finished.append(group.reward)

    def cut_all(self) -> None:
        """The same for every counted group that is still running."""
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
                group = self._running_groups.get(group_id)
                if group is not None and agent in group.members:
                    reported[group_id] = max(reported.get(group_id, 0.0), reward, key=abs)
                    if steps is terminals:
                        group.members.discard(agent)
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


@dataclass
class _Episode:
    """An agent's running episode."""

    counted: bool
    group: int
    first: int
    reward: float = 0.0
    length: int = 0


class Scores:
    """Counts the first episodes that start, each to its end: those that end first would be the short ones.

    For agents in groups an episode is the group's, from its first member to its last.
    """

    def __init__(self, behavior: str, episodes: int, most_decisions: int = 5000) -> None:
        """Start counting.

        Args:
            behavior: its name.
            episodes: how many are counted.
            most_decisions: an episode of this length is cut and counted with its reward so far.
        """
        self.behavior = behavior
        self.episodes = episodes
        self.most_decisions = most_decisions
        self.rewards: list[float] = []
        """Returns of the counted agents' finished episodes, in the order in which they ended."""
        self.lengths: list[int] = []
        """Decisions in each of them."""
        self.cut = 0
        """How many of them were cut."""
        self._alone = 0
        """Counted agents without a group that have started."""
        self._groups: dict[str, GroupReturns] = {}
        self._running: dict[tuple[str, int], _Episode] = {}

    @property
    def group_rewards(self) -> list[float]:
        """Returns of the counted groups that have ended."""
        return [reward for groups in self._groups.values() for reward in groups.finished]

    @property
    def complete(self) -> bool:
        """Whether all counted episodes have started and ended."""
        running = any(episode.counted for episode in self._running.values())
        return not (self._left or running or any(groups.running for groups in self._groups.values()))

    @property
    def returns(self) -> list[float]:
        """The returns that the policy is scored by: of groups if they earn rewards, else of agents."""
        groups = self.group_rewards
        return groups if any(groups) else self.rewards

    def mean(self) -> float:
        """Mean of `returns`; NaN if there are none."""
        return float(np.mean(self.returns)) if self.returns else float("nan")

    def std(self) -> float:
        """Standard deviation of `returns` (divided by n); NaN if there are none."""
        return float(np.std(self.returns)) if self.returns else float("nan")

    def firsts(self) -> list[int]:
        """The numbers of the steps with which the counted episodes that are still running started."""
        return [one.first for one in self._running.values() if one.counted]

    def add(
        self, behavior_id: str, decisions: DecisionSteps, terminals: TerminalSteps, number: int
    ) -> list[EpisodeScore]:
        """Add step `number` of the agents of one of the behavior's ids; the counted episodes that it ends."""
        groups = self._groups.setdefault(behavior_id, GroupReturns())
        groups.add(decisions, terminals, counting=True, most=self._left)
        ended = []
        for agent, reward in zip(terminals.agent_id.tolist(), terminals.reward.tolist()):
            episode = self._running.pop((behavior_id, agent), None)
            if episode is not None:
                episode.reward += reward
                ended += self._count(agent, episode, number)
        rows = zip(decisions.agent_id.tolist(), decisions.group_id.tolist(), decisions.reward.tolist())
        for agent, group, reward in rows:
            episode = self._running.get((behavior_id, agent))
            if episode is not None:
                episode.reward += reward
                if episode.counted and episode.length >= self.most_decisions:
                    ended += self._cut(behavior_id, agent, number)
            if (behavior_id, agent) not in self._running:
                episode = self._running[behavior_id, agent] = self._start(groups, group, number)
            assert episode is not None
            episode.length += 1
        return ended

    def cut_all(self, number: int) -> list[EpisodeScore]:
        """Cut all counted episodes that are still running."""
        counted = [key for key, episode in self._running.items() if episode.counted]
        ended = [score for key in counted for score in self._cut(*key, number)]
        for groups in self._groups.values():
            groups.cut_all()
        return ended

    @property
    def _left(self) -> int:
        """How many of the counted episodes have not started."""
        started = self._alone + sum(groups.started for groups in self._groups.values())
        return max(0, self.episodes - started)

    def _start(self, groups: GroupReturns, group: int, number: int) -> _Episode:
        if group > 0:
            return _Episode(groups.counts(group), group, number)
        counted = self._left > 0
        self._alone += counted
        return _Episode(counted, 0, number)

    def _count(self, agent: int, episode: _Episode, number: int) -> list[EpisodeScore]:
        if not episode.counted:
            return []
        self.rewards.append(episode.reward)
        self.lengths.append(episode.length)
        return [EpisodeScore(self.behavior, agent, episode.reward, episode.length, episode.first, number)]

    def _cut(self, behavior_id: str, agent: int, number: int) -> list[EpisodeScore]:
        """Count an episode, of a group those of all its members, as it stands."""
        group = self._running[behavior_id, agent].group
        mates = [(behavior_id, agent)]
        if group > 0:
            mates = [
                key for key, one in self._running.items() if key[0] == behavior_id and one.group == group
            ]
            self._groups[behavior_id].cut(group)
        ended = []
        for key in mates:
            score = self._count(key[1], self._running.pop(key), number)
            self.cut += len(score)
            ended += score
        return ended
