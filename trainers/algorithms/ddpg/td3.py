"""Twin delayed deterministic policy gradients (Fujimoto et al. 2018, arXiv 1802.09477)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...buffers.replay.sampler import ReplayBatch
from ...networks.modules.precision import widened
from ...settings.models.algorithms import TD3Settings
from ...settings.models.behavior import TrainerSettings
from ..base import UpdateResult
from .base import DeterministicActorCritic, action

TWINS = 2


class TD3(DeterministicActorCritic):
    """Two critics, of which the smaller value counts; smoothed targets; delayed policy updates."""

    name = "TD3"
    critic_count = TWINS
    hyper: TD3Settings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        super().build(settings, seed)
        assert isinstance(settings.hyperparameters, TD3Settings)
        self.smoother = torch.Generator().manual_seed(seed + 5)
        """The generator of the noise on target actions."""
        self.updates = 0
        """Gradient steps of the critics so far."""

    def generators(self) -> dict[str, torch.Generator]:
        """See `Algorithm.generators`."""
        return {"smoother": self.smoother}

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """One gradient step of both critics; of the policy and the targets every `policy_delay`-th time."""
        with torch.no_grad():
            inputs = self.network.prepare(batch.obs)
            noise = torch.randn(batch.actions.continuous.shape, generator=self.smoother)
            noise = noise * self.hyper.target_noise
            clip = self.hyper.target_noise_clip
            noise = noise.clamp_(-clip, clip).to(self.device)
            with self.precision.passes(self.device):
                next_inputs = self.network.prepare(batch.next_obs)
                next_actions = (action(self.target.network, next_inputs) + noise).clamp_(-1.0, 1.0)
                next_q = self.target_critics.network(next_inputs, next_actions).amin(0)
            target_q = batch.rewards + batch.discounts * widened(next_q)
        # E (Q(o, a) - y)^2 with y = r + gamma min(Q1', Q2')(o', clip(mu'(o') + noise, -1, 1))
        critic_losses, td_errors = self.critic_step(inputs, batch, target_q, policy_step)
        self.updates += 1
        metrics = {}
        if self.updates % self.hyper.policy_delay == 0:
            metrics["Losses/Policy Loss"] = self.actor_step(inputs, policy_step).item()  # -E Q1(o, mu(o))
            self.update_targets()
        q1, q2 = critic_losses.tolist()
        return UpdateResult(metrics | {"Losses/Q1 Loss": q1, "Losses/Q2 Loss": q2}, td_errors)

    def state_dict(self) -> dict[str, Any]:
        """See `Algorithm.state_dict`."""
        return super().state_dict() | {"gradient_steps": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.updates = int(state["gradient_steps"])
