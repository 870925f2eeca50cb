"""The rewards that the environment gives, to an agent and to a team."""

import logging

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.rollout import gather_teammates
from ...agent_processor.trajectory import Rollout
from ..algorithms.coma.minibatches import slots_of
from ..settings.models.algorithms import TeamRewardKind


class ExtrinsicReward:
    """The agent's own reward and its group's; for teams also what its teammates earned themselves."""

    ignores_done = False

    def __init__(self, with_teammates: bool = False) -> None:
        self.with_teammates = with_teammates

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[steps], one reward per step of the trajectories."""
        steps = rollout.steps
        reward: NDArray[np.float32] = rollout.reward[:steps] + rollout.group_reward[:steps]
        if self.with_teammates and rollout.teammates is not None:
            reward = reward + gather_teammates(rollout.reward, rollout.teammates, 0.0).sum(axis=1)
        return reward


logger = logging.getLogger(__name__)


class TeamReward:
    """The rewards of a group and of its members, combined to one for all of them.

    A teammate's reward is that of its step at the time when this one starts. If members decide at different
    times, the reward of a slow one therefore counts in several steps of a quick one, and not all rewards of a
    quick one count in a step of a slow one; the group's own reward is counted correctly. A warning says so
    once.
    """

    ignores_done = False

    def __init__(self, kind: TeamRewardKind) -> None:
        """`kind`: whether the mean or the sum of the members' own rewards counts."""
        self.kind = kind
        self._warned = False

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[steps]; the members of a step are those that were present when it started."""
        assert rollout.roster is not None, "a team's reward needs its roster"
        if not self._warned and _staggered(rollout):
            self._warned = True
            logger.warning(
                "Members of a group decide at different times and get rewards of their own. With "
                "trainer_type: coma these count several times or not at all in the team's reward: let all "
                "members of a group request their decisions together, or give group rewards."
            )
        members = gather_teammates(rollout.reward, rollout.roster, 0.0).sum(axis=1)
        if self.kind is TeamRewardKind.MEAN:
            members = members / (rollout.roster >= 0).sum(axis=1)
        reward: NDArray[np.float32] = (members + rollout.group_reward[: rollout.steps]).astype(np.float32)
        return reward


def _staggered(rollout: Rollout) -> bool:
    """Whether a step refers to a teammate's step that does not refer back to it."""
    roster, rows = rollout.roster, np.arange(rollout.steps)
    assert roster is not None
    if not rollout.reward.any():
        return False
    slots = np.broadcast_to(slots_of(rows, roster)[:, None], roster.shape)
    known = (roster >= 0) & (roster < rollout.steps)  # of other rows the roster is not here
    apart = roster[roster[known], slots[known]] != np.broadcast_to(rows[:, None], roster.shape)[known]
    return bool(apart.any())
