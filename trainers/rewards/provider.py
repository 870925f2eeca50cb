"""What a trainer asks of a reward signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.trajectory import Rollout

if TYPE_CHECKING:
    from torch import Tensor

    from .transitions import Transitions


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

    looks_ahead: bool
    """It reads what followed a step too."""

    def observe(self, rollout: Rollout) -> None:
        """Let its running observation statistics take in these steps; they change nowhere else."""
        ...

    def rewards(self, steps: Transitions) -> Tensor:
        """[B] rewards of any steps, before `strength`."""
        ...

    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """One gradient step of its network; figures by statistics' names.

        Where the steps are a part of a minibatch, the step is by all of it, and figures are of these steps.
        """
        ...

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`, or {}; what does not, with the reasons."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Weights, normalisers, optimiser: all that the next step depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        ...
