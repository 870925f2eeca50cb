"""How reward signals with networks of their own learn beside an on-policy trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ...agent_processor.trajectory import Rollout
from ..buffers.rollout_buffer import RolloutBuffer
from .base import LearnedReward
from .transitions import SignalSteps, minibatches


class SignalLearning:
    """Keeps the steps of the next update for the signals too, and lets each learn from minibatches of them.

    ML-Agents goes through the policy's own minibatches, one step of the policy and one of each signal in
    turn. As neither depends on the other within an update, it comes to the same here: as many gradient steps
    of as many steps, in an order of their own. Padding, which recurrent policies have, is not among them.
    """

    def __init__(
        self,
        signals: Mapping[str, LearnedReward],
        batch_size: int,
        epochs: int,
        device: torch.device,
        seed: int,
    ) -> None:
        """Begin without steps.

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
        self._ahead = any(signal.looks_ahead for signal in signals.values())

    def keep(self, rollout: Rollout) -> None:
        """Keep the trajectories' own steps."""
        self.buffer.append(SignalSteps.of(rollout))

    def learn(self, policy_step: int) -> dict[str, float]:
        """Learn from all steps that were kept, and forget them; mean figures by statistics' names."""
        steps = self.buffer.columns().on(self.device, ahead=self._ahead)
        self.buffer.clear()
        told: dict[str, list[float]] = {}
        for _ in range(self.epochs):
            for minibatch in minibatches(steps, self.batch_size, self.shuffler):
                for signal in self.signals.values():
                    for key, value in signal.learn(minibatch, policy_step).items():
                        told.setdefault(key, []).append(value)
        return {key: float(np.mean(values)) for key, values in told.items()}

    def state_dict(self) -> dict[str, Any]:
        """The steps that wait, and the random state."""
        return {"steps": self.buffer.state_dict(), "shuffler": self.shuffler.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.buffer.load_state_dict(state["steps"])
        self.shuffler.set_state(state["shuffler"].cpu())
