"""Deep deterministic policy gradients (Lillicrap et al. 2015, arXiv 1509.02971)."""

from __future__ import annotations

import torch
from torch import Tensor

from ...buffers.replay.sampler import ReplayBatch
from ...networks.modules.precision import widened
from ..base import UpdateResult
from .base import DeterministicActorCritic, action


class DDPG(DeterministicActorCritic):
    """One critic, and a step of the policy with each of its own."""

    name = "DDPG"

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """One gradient step of the critic, one of the policy, and the targets'."""
        with torch.no_grad():
            inputs = self.network.prepare(batch.obs)
        (value_loss,), errors = self.critic_step(inputs, batch, self.targets(batch), policy_step)
        policy_loss = self.policy_step(inputs, policy_step)
        self.let_targets_follow()
        policy, value = torch.stack((policy_loss, value_loss)).tolist()
        return UpdateResult({"Losses/Policy Loss": policy, "Losses/Value Loss": value}, errors)

    @torch.no_grad()
    def targets(self, batch: ReplayBatch) -> Tensor:
        """Y = r + discount * Q'(o', mu'(o')): [B, signals]."""
        with self.precision.passes(self.device):
            following = self.network.prepare(batch.next_obs)
            values = self.target_critics.network.first(following, action(self.target.network, following))
        return batch.rewards + batch.discounts * widened(values)
