"""The reward that the environment gives.

The reward of a team.
"""

import logging

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.sequences import of_mates
from ...agent_processor.trajectory import Rollout
from ..algorithms.coma.steps import places_of
from ..settings.models.algorithms import TeamRewardKind


class ExtrinsicReward:
    """The agent's own reward and its group's; for teams also what its teammates earned themselves."""

    ignores_done = False

    def __init__(self, with_mates: bool = False) -> None:
        self.with_mates = with_mates

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[steps]; one number per step of the trajectories."""
        steps = rollout.steps
        reward: NDArray[np.float32] = rollout.reward[:steps] + rollout.group_reward[:steps]
        if self.with_mates and rollout.mates is not None:
            reward = reward + of_mates(rollout.reward, rollout.mates, 0.0).sum(axis=1)
        return reward


logger = logging.getLogger(__name__)


class TeamReward:
    """What the environment gives the group, and what it gives its members, as one number for all of them.

    A mate's reward is that of the step in which it stood when this one began. So where members decide at
    different times the reward of a slow one counts in several steps of a quick one, and those of a quick one
    not all in a step of a slow one; what the group itself earns is counted well. This is warned of once.
    """

    ignores_done = False

    def __init__(self, kind: TeamRewardKind) -> None:
        """`kind`: whether the members' own rewards count by their mean or their sum."""
        self.kind = kind
        self._warned = False

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[steps]; the members of a step are those who were there when it began."""
        assert rollout.roster is not None, "a team's reward needs its roster"
        if not self._warned and _staggered(rollout):
            self._warned = True
            logger.warning(
                "Members of a group decide at different times, and get rewards of their own. With "
                "trainer_type: coma these are counted too often or not at all in what the team earns: let "
                "all members of a group request their decisions together, or give group rewards."
            )
        members = of_mates(rollout.reward, rollout.roster, 0.0).sum(axis=1)
        if self.kind is TeamRewardKind.MEAN:
            members = members / (rollout.roster >= 0).sum(axis=1)
        reward: NDArray[np.float32] = (members + rollout.group_reward[: rollout.steps]).astype(np.float32)
        return reward


def _staggered(rollout: Rollout) -> bool:
    """Whether somebody stands in a step with a mate that, in that step of its own, did not stand with it."""
    roster, own = rollout.roster, np.arange(rollout.steps)
    assert roster is not None
    if not rollout.reward.any():
        return False
    places = np.broadcast_to(places_of(own, roster)[:, None], roster.shape)
    known = (roster >= 0) & (roster < rollout.steps)  # of other rows the roster is not here
    apart = roster[roster[known], places[known]] != np.broadcast_to(own[:, None], roster.shape)[known]
    return bool(apart.any())
