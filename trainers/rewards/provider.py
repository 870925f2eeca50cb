"""What a trainer asks of a reward signal."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.trajectory import Rollout


class RewardProvider(Protocol):
    """A reward signal, one of several that a trainer may add up."""

    ignores_done: bool
    """The signal goes on behind an episode's end, so values are bootstrapped there too (curiosity, RND)."""

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[rollout.steps] rewards of the trajectories' own steps, before `strength`."""
        ...
