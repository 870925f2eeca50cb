"""What the agents of a behaviour earn in a test.

What groups earn from the moment their first member appears until their last one has ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps

from ...callbacks.events import EpisodeScore


@dataclass
class GroupEpisode:
    """A group's episode as far as it has come."""

    counted: bool
    earned: float = 0.0
    members: set[int] = field(default_factory=set)
    """Living agents."""


class GroupReturns:
    """The groups of one behaviour in one environment.

    A group is paid once, however many members are told of it. Members that decide at different times are told
    at different times; then the one who is told most at a moment speaks for all.
    """

    def __init__(self) -> None:
        self.finished: list[float] = []
        """Returns of the counted groups whose members have all ended."""
        self.begun = 0
        """Groups that have begun and are counted."""
        self._living: dict[int, GroupEpisode] = {}

    @property
    def waiting(self) -> bool:
        """A counted group has not ended yet."""
        return any(group.counted for group in self._living.values())

    def counts(self, group_id: int) -> bool:
        """Whether the group is there and counted."""
        return group_id in self._living and self._living[group_id].counted

    def cut(self, group_id: int) -> None:
        """Count the group as it stands; it may go on for ever."""
        group = self._living.get(group_id)
        if group is not None and group.counted:
            group.counted = False
            self.finished.append(group.earned)

    def cut_all(self) -> None:
        """The same of every group that is counted and goes on."""
        for group_id in self._living:
            self.cut(group_id)

    def take(
        self, decisions: DecisionSteps, terminals: TerminalSteps, counting: bool, most: float = math.inf
    ) -> None:
        """Take in a step; the first `most` groups that begin with it are counted if `counting`."""
        told: dict[int, float] = {}
        for steps in (terminals, decisions):
            rows = zip(steps.agent_id.tolist(), steps.group_id.tolist(), steps.group_reward.tolist())
            for agent, group_id, reward in rows:
                group = self._living.get(group_id)
                if group is not None and agent in group.members:
                    told[group_id] = max(told.get(group_id, 0.0), reward, key=abs)
                    if steps is terminals:
                        group.members.discard(agent)
        for group_id, reward in told.items():
            group = self._living[group_id]
            group.earned += reward
            if not group.members:
                del self._living[group_id]
                if group.counted:
                    self.finished.append(group.earned)
        for agent, group_id in zip(decisions.agent_id.tolist(), decisions.group_id.tolist()):
            if group_id > 0:
                if group_id not in self._living:
                    counted = counting and most > 0
                    self._living[group_id] = GroupEpisode(counted)
                    self.begun += counted
                    most -= counted
                self._living[group_id].members.add(agent)


@dataclass
class _Episode:
    """An agent's episode as far as it has come."""

    counted: bool
    group: int
    first: int
    reward: float = 0.0
    length: int = 0


class Scores:
    """Counts the first episodes that begin, each to its end: those that end first would be the short ones.

    Of agents in groups an episode is the group's, from its first member to its last.
    """

    def __init__(self, behavior: str, episodes: int, most_decisions: int = 5000) -> None:
        """`episodes`: how many are counted; one of `most_decisions` as it stands."""
        self.behavior = behavior
        self.episodes = episodes
        self.most_decisions = most_decisions
        self.rewards: list[float] = []
        """Of the counted agents' episodes that are over, in the order in which they ended."""
        self.lengths: list[int] = []
        """Decisions in each of them."""
        self.cut = 0
        """How many of them were counted as they stood."""
        self._alone = 0
        """Counted agents without a group that have begun."""
        self._groups: dict[str, GroupReturns] = {}
        self._running: dict[tuple[str, int], _Episode] = {}

    @property
    def group_rewards(self) -> list[float]:
        """Of the counted groups that are over."""
        return [reward for groups in self._groups.values() for reward in groups.finished]

    @property
    def over(self) -> bool:
        """Whether all counted episodes have begun and ended."""
        goes_on = any(episode.counted for episode in self._running.values())
        return not (self._left or goes_on or any(groups.waiting for groups in self._groups.values()))

    @property
    def judged_by(self) -> list[float]:
        """The rewards of groups where they earn any, else those of agents."""
        groups = self.group_rewards
        return groups if any(groups) else self.rewards

    def mean(self) -> float:
        """Of what the policy is judged by; NaN of nothing."""
        return float(np.mean(self.judged_by)) if self.judged_by else float("nan")

    def spread(self) -> float:
        """Its standard deviation (divided by n)."""
        return float(np.std(self.judged_by)) if self.judged_by else float("nan")

    def firsts(self) -> list[int]:
        """The numbers of the steps with which the counted episodes began that go on."""
        return [one.first for one in self._running.values() if one.counted]

    def take(
        self, behavior_id: str, decisions: DecisionSteps, terminals: TerminalSteps, number: int
    ) -> list[EpisodeScore]:
        """Take in what the agents of one of the behaviour's ids say in step `number`; what ends with it."""
        groups = self._groups.setdefault(behavior_id, GroupReturns())
        groups.take(decisions, terminals, counting=True, most=self._left)
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
                episode = self._running[behavior_id, agent] = self._begin(groups, group, number)
            assert episode is not None
            episode.length += 1
        return ended

    def cut_all(self, number: int) -> list[EpisodeScore]:
        """Count all that go on as they stand."""
        counted = [key for key, episode in self._running.items() if episode.counted]
        ended = [score for key in counted for score in self._cut(*key, number)]
        for groups in self._groups.values():
            groups.cut_all()
        return ended

    @property
    def _left(self) -> int:
        """How many of the counted episodes have not begun."""
        begun = self._alone + sum(groups.begun for groups in self._groups.values())
        return max(0, self.episodes - begun)

    def _begin(self, groups: GroupReturns, group: int, number: int) -> _Episode:
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
