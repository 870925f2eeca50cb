"""What groups earn from the moment their first member appears until their last one has ended."""

from __future__ import annotations

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
        self._living: dict[int, GroupEpisode] = {}

    @property
    def waiting(self) -> bool:
        """A counted group has not ended yet."""
        return any(group.counted for group in self._living.values())

    def take(self, decisions: DecisionSteps, terminals: TerminalSteps, counting: bool) -> None:
        """Take in a step; groups that begin with it are counted if `counting`."""
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
                self._living.setdefault(group_id, GroupEpisode(counting)).members.add(agent)
