"""The reward that the environment gives."""

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.trajectory import Rollout


class ExtrinsicReward:
    """The agent's own reward and its group's."""

    ignores_done = False

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[steps]; one number per step of the trajectories."""
        steps = rollout.steps
        return rollout.reward[:steps] + rollout.group_reward[:steps]
