"""Twin delayed deterministic policy gradients (Fujimoto et al. 2018, arXiv 1802.09477)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...buffers.replay.sampler import ReplayBatch
from ...networks.modules.precision import widened
from ...settings.models.algorithms import TD3Settings
from ...settings.models.behavior import TrainerSettings
from ..base import UpdateResult
from .base import DeterministicActorCritic, action

TWINS = 2


class TD3(DeterministicActorCritic):
    """Two critics, of which the lower one counts; smoothed targets; a policy that learns less often."""

    name = "TD3"
    critic_count = TWINS
    hyper: TD3Settings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        super().build(settings, seed)
        assert isinstance(settings.hyperparameters, TD3Settings)
        self.smoother = torch.Generator().manual_seed(seed + 5)
        """Of the noise on target actions."""
        self.updates = 0
        """Gradient steps of the critics so far."""

    def generators(self) -> dict[str, torch.Generator]:
        """See `Algorithm.generators`."""
        return {"smoother": self.smoother}

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """One gradient step of the critics; of the policy and the targets every `policy_delay`-th time."""
        with torch.no_grad():
            inputs = self.network.prepare(batch.obs)
        losses, errors = self.critic_step(inputs, batch, self.targets(batch), policy_step)
        self.updates += 1
        figures = {}
        if self.updates % self.hyper.policy_delay == 0:
            figures["Losses/Policy Loss"] = self.policy_step(inputs, policy_step).item()
            self.let_targets_follow()
        first, second = losses.tolist()
        return UpdateResult(figures | {"Losses/Q1 Loss": first, "Losses/Q2 Loss": second}, errors)

    @torch.no_grad()
    def targets(self, batch: ReplayBatch) -> Tensor:
        """Y = r + discount * min over both of Q'(o', clip(mu'(o') + noise, -1, 1)): [B, signals]."""
        shape = (len(batch), batch.actions.continuous.shape[1])
        noise = torch.randn(shape, generator=self.smoother) * self.hyper.target_noise
        noise = noise.clamp_(-self.hyper.target_noise_clip, self.hyper.target_noise_clip).to(self.device)
        with self.precision.passes(self.device):
            following = self.network.prepare(batch.next_obs)
            smoothed = (action(self.target.network, following) + noise).clamp_(-1.0, 1.0)
            values = self.target_critics.network(following, smoothed).amin(0)
        return batch.rewards + batch.discounts * widened(values)

    def state_dict(self) -> dict[str, Any]:
        """See `Algorithm.state_dict`."""
        return super().state_dict() | {"gradient_steps": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.updates = int(state["gradient_steps"])
