"""The reward of a team."""

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.sequences import of_mates
from ...agent_processor.trajectory import Rollout
from .settings import TeamRewardKind


class TeamReward:
    """What the environment gives the group, and what it gives its members, as one number for all of them."""

    ignores_done = False

    def __init__(self, kind: TeamRewardKind) -> None:
        """`kind`: whether the members' own rewards count by their mean or their sum."""
        self.kind = kind

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[steps]; the members of a step are those who were there when it began."""
        assert rollout.roster is not None, "a team's reward needs its roster"
        members = of_mates(rollout.reward, rollout.roster, 0.0).sum(axis=1)
        if self.kind is TeamRewardKind.MEAN:
            members = members / (rollout.roster >= 0).sum(axis=1)
        reward: NDArray[np.float32] = (members + rollout.group_reward[: rollout.steps]).astype(np.float32)
        return reward
