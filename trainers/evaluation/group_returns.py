"""What groups earn from the moment their first member appears until their last one has ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from mlagents_envs.base_env import DecisionSteps, TerminalSteps


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
