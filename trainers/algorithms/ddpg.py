"""Deep deterministic policy gradients, alone and with twin critics.

DDPG: Lillicrap et al. 2015, arXiv 1509.02971. TD3: Fujimoto et al. 2018, arXiv 1802.09477.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...agent_processor.trajectory import Rollout
from ..buffers.replay.sampler import ReplayBatch
from ..networks.actor import Actor
from ..networks.critics import ActionCritics
from ..networks.modules.heads import HeadConfig
from ..networks.modules.passes import chunked_forward, widened
from ..networks.observations import require_equal_groups, to_tensors
from ..policies.exploration import ActionNoise, action_noise
from ..settings.models.algorithms import DeterministicPolicySettings, TD3Settings
from ..settings.models.behavior import TrainerSettings
from .base import OffPolicyAlgorithm, Traits, UpdateResult
from .common.actions import require_actions
from .common.optim import CheckedAdam, TargetNetwork


class DeterministicActorCritic(OffPolicyAlgorithm):
    """The networks mu and Q, their targets mu' and Q', and the gradient steps of both.

    The return of an agent is the sum of all signals: the policy maximizes the sum of their values.
    """

    traits = Traits(is_greedy=True)
    network: Actor
    critic_count: ClassVar[int] = 1

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and register policy, critics, their targets, optimizers and the exploration noise."""
        hyper, actions = settings.hyperparameters, self.spec.action_spec
        assert isinstance(hyper, DeterministicPolicySettings)
        require_actions(
            actions,
            "continuous",
            f"{self.name} follows the gradient of a value by the action, so it needs continuous actions only",
            "Use trainer_type: dqn, sac or ppo for discrete actions; sac or ppo for both kinds.",
        )
        self.tau = hyper.tau
        init, network = torch.Generator().manual_seed(seed), settings.network_settings
        self.network = Actor(self.spec, network, init, head=HeadConfig(deterministic=True)).to(self.device)
        of_critics = network.critic or network
        critics = ActionCritics(self.critic_count, self.spec, of_critics, len(self.signals), init)
        require_equal_groups(self.network.encoder, critics.encoder(0))
        self.critics = critics.to(self.device)
        self.target = TargetNetwork(self.network)
        self.target_critics = TargetNetwork(self.critics)
        self.actor_optimizer = CheckedAdam(self.network.parameters(), hyper.learning_rate, self.non_finite)
        self.critic_optimizer = CheckedAdam(self.critics.parameters(), hyper.learning_rate, self.non_finite)
        self._actor_parameters = [p for p in self.network.parameters() if p.requires_grad]
        self.explorer: ActionNoise = action_noise(actions, hyper)
        self.register(
            {"Policy": self.network, "Critics": self.critics},
            {"Optimizer": self.actor_optimizer, "Optimizer:critics": self.critic_optimizer},
            targets={"Target": self.target.network, "Target critics": self.target_critics.network},
        )

    @torch.no_grad()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """Q(o, mu(o)) of each step, [steps, signals], by the first critic."""
        inputs = self.network.prepare(to_tensors([o[: rollout.steps] for o in rollout.obs], self.device))
        values = chunked_forward(lambda rows: self.critics.first(rows, action(self.network, rows)), inputs)
        return {"Value": values.cpu().numpy()}

    # Gradient steps -----------------------------------------------------------------------------------

    def critic_step(
        self, inputs: Sequence[Tensor], batch: ReplayBatch, targets: Tensor, policy_step: int
    ) -> tuple[Tensor, Tensor]:
        """One gradient step of all critics on E (Q(o, a) - y)^2, with the targets y [B, signals].

        Returns:
            The loss of each critic [C], weighted by importance; and [B] the mean absolute errors.
        """
        with self.precision.passes(self.device):
            values = self.critics(inputs, batch.actions.continuous)
        errors = targets - widened(values)
        squares = errors.square().mean(2)
        losses = (squares if batch.weights is None else squares * batch.weights).mean(1)
        self.critic_optimizer.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.critic_optimizer.step(self.learning_rate(policy_step), policy_step)
        return losses.detach(), errors.detach().abs().mean((0, 2))

    def actor_step(self, inputs: Sequence[Tensor], policy_step: int) -> Tensor:
        """One gradient step of the policy on -E Q1(o, mu(o)), which is returned."""
        with self.precision.passes(self.device):
            values = self.critics.first(inputs, action(self.network, inputs))
        loss = -widened(values).sum(1).mean()
        self.actor_optimizer.zero_grad()
        # The critics' own gradients are not needed and not computed.
        loss.backward(inputs=self._actor_parameters)  # type: ignore[no-untyped-call]
        self.actor_optimizer.step(self.learning_rate(policy_step), policy_step)
        return loss.detach()

    def update_targets(self) -> None:
        """Take a Polyak step of both targets."""
        self.target.update(self.actor_optimizer.flat, self.tau)
        self.target_critics.update(self.critic_optimizer.flat, self.tau)

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """The targets become copies of the networks."""
        self.target.copy_from(self.network)
        self.target_critics.copy_from(self.critics)
        return []


def action(network: Actor, inputs: Sequence[Tensor]) -> Tensor:
    """mu(o): [B, A], from prepared observations."""
    return network.actions.columns(network.actor_encoding(inputs)).tanh()


class DDPG(DeterministicActorCritic):
    """DDPG: one critic, and a policy step with each step of the critic."""

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


TWINS = 2


class TD3(DeterministicActorCritic):
    """TD3: two critics, of which the smaller value counts; smoothed targets; delayed policy updates."""

    name = "TD3"
    critic_count = TWINS
    saved_numbers: Mapping[str, str] = {"gradient_steps": "updates"}
    hyper: TD3Settings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create what all algorithms of this kind have, and the generator of the noise on target actions."""
        super().build(settings, seed)
        assert isinstance(settings.hyperparameters, TD3Settings)
        self.smoother = torch.Generator().manual_seed(seed + 5)
        """The generator of the noise on target actions."""
        self._generators["smoother"] = self.smoother
        self.updates = 0
        """The number of gradient steps of the critics so far."""

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
