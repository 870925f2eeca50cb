"""What `robust_ppo` computes; imported when a run trains with it."""

from collections.abc import Mapping

import numpy as np
from lanista.agent_processor.trajectory import Rollout
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps, RolloutEvaluation
from numpy.typing import NDArray

from .trainer import RobustPPOSettings


class RobustPPO(PPO):
    """PPO with bounded advantages."""

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> RolloutEvaluation[EvaluatedSteps]:
        """As PPO, the advantages cut off on both sides."""
        assert isinstance(self.hyper, RobustPPOSettings)
        evaluation = super().evaluate(rollout, rewards, ignores_done)
        advantages, bound = evaluation.steps.advantages, self.hyper.largest_advantage
        np.clip(advantages, -bound, bound, out=advantages)
        return evaluation
