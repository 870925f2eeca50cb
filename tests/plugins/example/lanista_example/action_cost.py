"""The reward signal `action_cost`: acting costs something."""

import numpy as np
import torch
from lanista.agent_processor.trajectory import Rollout
from lanista.envs.validation import NonFinitePolicy
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from .signal import ActionCostSettings


class ActionCost:
    """Minus the square of each continuous action, and 1 less for each discrete one that is not 0."""

    ignores_done = False

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: ActionCostSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
    ) -> None:
        self.free = settings.free

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """One reward per step of the trajectories, before `strength`."""
        own = rollout.own("continuous", "discrete")
        effort = np.square(own["continuous"]).sum(axis=1) + (own["discrete"] != 0).sum(axis=1)
        return -np.maximum(effort - self.free, 0.0).astype(np.float32)
