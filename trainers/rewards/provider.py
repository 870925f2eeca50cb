"""What a trainer asks of a reward signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.trajectory import Rollout

if TYPE_CHECKING:
    from torch import Tensor

    from ..replay.batch import ReplayBatch


class RewardProvider(Protocol):
    """A reward signal, one of several that a trainer may add up."""

    ignores_done: bool
    """The signal goes on behind an episode's end, so values are bootstrapped there too (curiosity, RND)."""

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[rollout.steps] rewards of the trajectories' own steps, before `strength`."""
        ...


@runtime_checkable
class LearnedReward(RewardProvider, Protocol):
    """A signal with a network of its own, which off-policy trainers ask anew whenever steps are drawn."""

    def of_batch(self, batch: ReplayBatch) -> Tensor:
        """[B] rewards of the steps from `obs` to `next_obs`, before `strength`."""
        ...

    def learn(self, batch: ReplayBatch) -> dict[str, float]:
        """One gradient step of its network; figures by statistics' names."""
        ...
