"""Trains reward signals with networks of their own beside an on-policy trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ...agent_processor.trajectory import Rollout
from ..buffers.rollout_buffer import RolloutBuffer
from ..utils.distributed import in_step
from .base import LearnedReward, has_absorbing_states
from .transitions import SignalSteps, minibatches


class SignalTrainer:
    """Collects the steps of the next update, and trains each signal with minibatches of them.

    ML-Agents alternates a gradient step of the policy and one of each signal on the same minibatches. Since
    neither depends on the other within an update, this is equivalent: as many gradient steps of as many
    steps, shuffled independently. The padding of recurrent policies is excluded.
    """

    def __init__(
        self,
        signals: Mapping[str, LearnedReward],
        batch_size: int,
        epochs: int,
        device: torch.device,
        seed: int,
    ) -> None:
        """Start without steps.

        Args:
            signals: at least one.
            batch_size: steps in one minibatch.
            epochs: passes over all steps in an update.
            device: the learner's.
            seed: of the order of the steps.
        """
        self.signals = signals
        self.batch_size, self.epochs, self.device = batch_size, epochs, device
        self.buffer = RolloutBuffer(SignalSteps)
        self.shuffler = torch.Generator().manual_seed(seed)
        self._with_next = any(signal.needs_next_obs for signal in signals.values())
        self._with_ends = any(has_absorbing_states(signal) for signal in signals.values())

    def append(self, rollout: Rollout) -> None:
        """Collect the trajectories' own steps."""
        self.buffer.append(SignalSteps.of(rollout, with_ends=self._with_ends))

    def learn(self, policy_step: int) -> dict[str, float]:
        """Learn from all collected steps and discard them; mean metrics by statistics' names."""
        steps = self.buffer.columns().on(self.device, with_next=self._with_next)
        self.buffer.clear()
        metrics: dict[str, list[float]] = {}
        for _ in range(self.epochs):
            for minibatch in in_step(minibatches(steps, self.batch_size, self.shuffler)):
                for signal in self.signals.values():
                    for key, value in signal.learn(minibatch, policy_step).items():
                        metrics.setdefault(key, []).append(value)
        return {key: float(np.mean(values)) for key, values in metrics.items()}

    def state_dict(self) -> dict[str, Any]:
        """The collected steps, and the random state."""
        return {"steps": self.buffer.state_dict(), "shuffler": self.shuffler.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.buffer.load_state_dict(state["steps"])
        self.shuffler.set_state(state["shuffler"].cpu())
