"""Deep deterministic policy gradients (Lillicrap et al. 2015, arXiv 1509.02971)."""

from __future__ import annotations

import torch

from ...buffers.replay.sampler import ReplayBatch
from ...networks.modules.precision import widened
from ..base import UpdateResult
from .base import DeterministicActorCritic, action


class DDPG(DeterministicActorCritic):
    """One critic, and a policy step with each of its own."""

    name = "DDPG"

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """One gradient step of the critic, one of the policy, and a Polyak step of both targets."""
        with torch.no_grad():
            inputs = self.network.prepare(batch.obs)
            with self.precision.passes(self.device):
                next_inputs = self.network.prepare(batch.next_obs)
                next_actions = action(self.target.network, next_inputs)
                next_q = self.target_critics.network.first(next_inputs, next_actions)
            target_q = batch.rewards + batch.discounts * widened(next_q)
        # E (Q(o, a) - y)^2 with y = r + gamma Q'(o', mu'(o')), then -E Q(o, mu(o))
        (critic_loss,), td_errors = self.critic_step(inputs, batch, target_q, policy_step)
        actor_loss = self.actor_step(inputs, policy_step)
        self.update_targets()
        actor, critic = torch.stack((actor_loss, critic_loss)).tolist()
        return UpdateResult({"Losses/Policy Loss": actor, "Losses/Value Loss": critic}, td_errors)
