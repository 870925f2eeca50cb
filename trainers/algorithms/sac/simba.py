"""Soft actor-critic by the recipe of SimBa (Lee et al. 2025, arXiv 2410.09754).

SAC without V (Haarnoja et al. 2018, arXiv 1812.05905), on networks of residual blocks
(`network_settings.residual`) that read normalized observations, with AdamW (Loshchilov and Hutter 2019, arXiv
1711.05101). The losses are those of `losses.py`, with its notation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....agent_processor.trajectory import Rollout
from ...buffers.replay.sampler import ReplayBatch
from ...networks.actor import Actor
from ...networks.critics import Temperatures, TwinQ
from ...networks.modules.passes import chunked_forward, widened
from ...networks.observations import as_float, require_equal_groups, to_tensors
from ...settings.models.algorithms import SACSettings
from ...settings.models.behavior import TrainerSettings
from ..base import OffPolicyAlgorithm, UpdateResult
from ..common.actions import require_some_actions
from ..common.optim import CheckedAdam, TargetNetwork
from .losses import (
    BranchSums,
    SampledActions,
    entropy_penalty,
    expected_q,
    policy_loss,
    q_targets,
    sample_actions,
    squared_error,
    temperature_loss,
    value_targets,
)

WEIGHT_DECAY = 0.01
TARGET_ENTROPY = -0.5
"""The target entropy of each continuous component."""


class SimbaSAC(OffPolicyAlgorithm):
    """A policy, Q1 and Q2 with targets, and the entropy coefficients."""

    name = "SAC"
    network: Actor
    hyper: SACSettings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and register policy, Q, its target, the temperatures and the optimizers."""
        hyper, network = settings.hyperparameters, settings.network_settings
        assert isinstance(hyper, SACSettings)
        require_some_actions(self.spec.action_spec, settings.network_settings)
        init, actions = torch.Generator().manual_seed(seed), self.spec.action_spec
        actor = Actor(self.spec, network, init, squashed=True, sigma_of_state=True)
        q = TwinQ(self.spec, network.critic or network, self.signals, init)
        require_equal_groups(actor.encoder, q.encoder(0))
        self.network, self.q = actor.to(self.device), q.to(self.device)
        self.target = TargetNetwork(self.q)
        sizes = actions.continuous_size, actions.discrete_branches
        target = TARGET_ENTROPY * sizes[0] if hyper.target_entropy is None else hyper.target_entropy
        self.temperatures = Temperatures(*sizes, hyper.init_entcoef, target).to(self.device)
        self.branches = BranchSums(self.network.actions.branches.sizes, self.device)
        self.actor_optimizer = self._adam(self.network, WEIGHT_DECAY)
        self.critic_optimizer = self._adam(self.q, WEIGHT_DECAY)
        self.temperature_optimizer = self._adam(self.temperatures, 0.0)
        self._actor_parameters = [p for p in self.network.parameters() if p.requires_grad]
        self.noise = torch.Generator().manual_seed(seed + 1)
        self.register(
            {"Policy": self.network, "Q": self.q, "Temperatures": self.temperatures},
            {
                "Optimizer": self.actor_optimizer,
                "Optimizer:critics": self.critic_optimizer,
                "Optimizer:temperatures": self.temperature_optimizer,
            },
            {"noise": self.noise},
            {"Target": self.target.network},
        )

    def _adam(self, network: nn.Module, weight_decay: float) -> CheckedAdam:
        rate = self.hyper.learning_rate
        return CheckedAdam(network.parameters(), rate, self.non_finite, weight_decay=weight_decay)

    @torch.no_grad()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """min(Q1, Q2) of the policy's mean actions at the own steps [steps, signals], to be reported."""
        self.warn_of_group_rewards(rollout)
        inputs = self.network.prepare(to_tensors([o[: rollout.steps] for o in rollout.obs], self.device))

        def values(rows: Sequence[Tensor]) -> Tensor:
            noise = torch.zeros((len(rows[0]), self.network.actions.continuous_size), device=self.device)
            return self._expected_q(self.q, rows, self._sample(rows, None, noise)).amin(0)

        return {"Value": chunked_forward(values, inputs).cpu().numpy()}

    # The update ---------------------------------------------------------------------------------------

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """One gradient step on Q1 and Q2, one on the policy, one on the temperatures; then of the target.

        Raises:
            FloatingPointError: the gradient is not finite, and `non_finite` is STOP.
        """
        inputs, next_inputs = (
            [as_float(rows) for rows in self.network.prepare(obs)] for obs in (batch.obs, batch.next_obs)
        )
        fixed = self.hyper.entropy_coefficient
        if fixed is not None:
            self.temperatures.hold(fixed)
        rate, alpha = self.learning_rate(policy_step), self.temperatures.alpha
        taken = None
        if self.branches.count:
            taken = self.branches.taken_weights(batch.actions.discrete)
        with self.precision.passes(self.device):
            # y = r + gamma (min(Q1', Q2')(o', a') - alpha ln pi(a' | o')) with a' ~ pi
            with torch.no_grad():
                following = self._sample(next_inputs, batch.next_action_mask)
                next_q = self._expected_q(self.target.network, next_inputs, following)
            q_taken = widened(self.q(self.q.encode(inputs), batch.actions.continuous))
        penalty = entropy_penalty(alpha, following.log_probs, self.branches)
        target_q = q_targets(batch.rewards, batch.discounts, value_targets(next_q, penalty))
        q = expected_q(q_taken, taken)
        q1_loss, q2_loss = (squared_error(twin, target_q, batch.weights) for twin in q)
        self.critic_optimizer.zero_grad()
        (q1_loss + q2_loss).backward()  # type: ignore[no-untyped-call]
        self.critic_optimizer.step(rate, policy_step)
        # E [alpha ln pi - min(Q1, Q2)], and -E [ln alpha (ln pi + target entropy)]
        with self.precision.passes(self.device):
            sampled = self._sample(inputs, batch.action_mask)
            with torch.no_grad():
                encodings = self.q.encode(inputs)
            q_sampled = widened(self.q(encodings, sampled.continuous)).amin(0)
        actor_loss = policy_loss(alpha, sampled.log_probs, q_sampled, self.branches)
        self.actor_optimizer.zero_grad()
        actor_loss.backward(inputs=self._actor_parameters)  # type: ignore[no-untyped-call]
        self.actor_optimizer.step(rate, policy_step)
        if fixed is None:
            entropies, log_alpha = self.temperatures.entropies, self.temperatures.log_alpha
            self.temperature_optimizer.zero_grad()
            alpha_loss = temperature_loss(log_alpha, entropies, sampled.log_probs, self.branches)
            alpha_loss.backward()  # type: ignore[no-untyped-call]
            self.temperature_optimizer.step(rate, policy_step)
        self.target.update(self.critic_optimizer.flat, self.hyper.tau)
        td_errors = (target_q - q.detach()).abs().mean((0, 2))
        policy, q1, q2 = torch.stack((actor_loss, q1_loss, q2_loss)).detach().tolist()
        losses = {"Losses/Policy Loss": policy, "Losses/Q1 Loss": q1, "Losses/Q2 Loss": q2}
        return UpdateResult(losses | self.temperatures.metrics() | {"Policy/Learning Rate": rate}, td_errors)

    def _sample(
        self, inputs: Sequence[Tensor], action_mask: Tensor | None, noise: Tensor | None = None
    ) -> SampledActions:
        """The policy's actions at prepared observations; `noise` [B, A]: zeros for its means."""
        if noise is None:
            size = (len(inputs[0]), self.network.actions.continuous_size)
            noise = torch.randn(size, generator=self.noise).to(self.device)
        return sample_actions(self.network.act(inputs, action_mask).widened(), noise)

    def _expected_q(self, q: TwinQ, inputs: Sequence[Tensor], policy: SampledActions) -> Tensor:
        """Q1 and Q2 of the policy's actions, with the expectation over discrete ones: [2, B, S]."""
        p = policy.log_probs.discrete
        likely = None if p is None else p.exp() / self.branches.count
        return expected_q(widened(q(q.encode(inputs), policy.continuous)), likely)

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """The target becomes a copy of Q."""
        self.target.copy_from(self.q)
        return []
