"""The reward that the environment gives."""

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.sequences import of_mates
from ...agent_processor.trajectory import Rollout


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
