"""The groups of one behavior id: which agents are their members, and what the groups earn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from mlagents_envs.base_env import DecisionSteps, TerminalSteps


def last_rewards(terminals: TerminalSteps) -> list[float]:
    """What each agent earned with its last step, itself and its group together; 0 if it was interrupted."""
    earned: list[float] = np.where(
        terminals.interrupted, 0.0, terminals.reward + terminals.group_reward
    ).tolist()
    return earned


@dataclass(slots=True)
class GroupEpisode:
    """A group's running episode, from the moment its first member appears until its last one has left."""

    counted: bool
    reward: float = 0.0
    last_reward: float = 0.0
    """The reward of the last step of the member that left last; see `GroupReturns.last_rewards`."""
    members: set[int] = field(default_factory=set)
    """Ids of the agents that are still in it."""


class GroupReturns:
    """The groups of one behavior id in one environment.

    A group reward counts once, however many members report it. Members that decide at different times report
    it at different times; the largest report of a step, by absolute value, then stands for all. An agent that
    is in another group, or in none, has left its former one.
    """

    def __init__(self) -> None:
        self.finished: list[float] = []
        """Returns of the counted groups whose members have all left, or that were cut."""
        self.last_rewards: list[float] = []
        """What the last step of each of these groups earned, the member's and the group's reward together; 0
        of a group that was cut or interrupted, or whose last member changed its group."""
        self.num_cut = 0
        """The number of counted groups that were cut."""
        self.ended: dict[int, float] = {}
        """What each counted group earned that ended with the last step, by the members that were left."""
        self.started = 0
        """The number of counted groups that have started."""
        self._running: dict[int, GroupEpisode] = {}
        self._group_of: dict[int, int] = {}
        """The running group of each member. One that is unregistered ends without it."""

    @property
    def running(self) -> bool:
        """Whether a counted group has not ended yet."""
        return any(group.counted for group in self._running.values())

    def has(self, agent: int) -> bool:
        """Whether the agent is a member of a running group."""
        return agent in self._group_of

    def add(self, decisions: DecisionSteps, terminals: TerminalSteps) -> None:
        """Add what a step earned the running groups; members that ended, or are in another group, leave."""
        earned, left = dict[int, float](), dict[int, list[int]]()
        self.ended = {}
        for steps, lasts in ((terminals, last_rewards(terminals)), (decisions, repeat(0.0))):
            rows = zip(steps.agent_id.tolist(), steps.group_id.tolist(), steps.group_reward.tolist(), lasts)
            for agent, group_id, reward, last in rows:
                own = self._group_of.get(agent)
                if own is None:
                    continue
                most = earned.get(own, 0.0)
                earned[own] = max(most, reward, key=abs) if own == group_id else most
                if steps is terminals or own != group_id:
                    left.setdefault(own, []).append(agent)
                    self._running[own].members.discard(agent)
                    self._running[own].last_reward = last
                    del self._group_of[agent]
        for group_id, reward in earned.items():
            group = self._running[group_id]
            group.reward += reward
            if not group.members:
                self._finish(group_id, left[group_id])

    def join(self, agent: int, group_id: int, *, counting: bool) -> bool:
        """Make an agent a member of a group, which starts with its first one; whether the group is counted.

        `counting`: whether the group is counted if it starts now.
        """
        if group_id not in self._running:
            self._running[group_id] = GroupEpisode(counting)
            self.started += counting
        self._running[group_id].members.add(agent)
        self._group_of[agent] = group_id
        return self._running[group_id].counted

    def cut(self, agent: int) -> set[int]:
        """End the episode of an agent's group, which may never end, and return its members.

        The group starts anew when one of them decides again. An agent without a group is returned alone.
        """
        if agent not in self._group_of:
            return {agent}
        group_id = self._group_of[agent]
        group = self._running[group_id]
        group.last_reward = 0.0
        for member in group.members:
            del self._group_of[member]
        self.num_cut += group.counted
        self._finish(group_id, group.members)
        return group.members

    def cut_all(self) -> None:
        """Cut every counted group that is still running."""
        for group in [group for group in self._running.values() if group.counted]:
            self.cut(next(iter(group.members)))

    def _finish(self, group_id: int, members: Iterable[int]) -> None:
        """End a group's episode; `members`: those that were left."""
        group = self._running.pop(group_id)
        if group.counted:
            self.ended.update(dict.fromkeys(members, group.reward))
            self.finished.append(group.reward)
            self.last_rewards.append(group.last_reward)
