"""What DDPG and TD3 share: a deterministic policy mu, critics Q of its actions, and their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....agent_processor.trajectory import Rollout
from ...buffers.replay.sampler import ReplayBatch
from ...networks.actor import Actor
from ...networks.modules.chunking import chunked_forward
from ...networks.modules.heads import HeadConfig
from ...networks.modules.precision import widened
from ...policies.exploration import ActionNoise, action_noise
from ...settings.models.algorithms import DeterministicPolicySettings
from ...settings.models.behavior import TrainerSettings
from ..base import OffPolicyAlgorithm, Traits, require_continuous
from ..common.observations import to_tensors
from ..common.optim import CheckedAdam
from ..common.target_network import TargetNetwork
from .critics import ActionCritics


class DeterministicActorCritic(OffPolicyAlgorithm):
    """The networks mu and Q, their targets mu' and Q', and the gradient steps of both.

    The return of an agent is the sum of all signals: the policy maximizes the sum of their values.
    """

    traits = Traits(is_greedy=True)
    network: Actor
    critic_count: ClassVar[int] = 1

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        hyper, actions = settings.hyperparameters, self.spec.action_spec
        assert isinstance(hyper, DeterministicPolicySettings)
        require_continuous(
            actions,
            f"{self.name} follows the gradient of a value by the action, so it needs continuous actions only",
            "Use trainer_type: dqn, sac or ppo for discrete actions; sac or ppo for both kinds.",
        )
        self.tau = hyper.tau
        init, network = torch.Generator().manual_seed(seed), settings.network_settings
        self.network = Actor(self.spec, network, init, head=HeadConfig(deterministic=True)).to(self.device)
        critics = ActionCritics(self.critic_count, self.spec, network, len(self.signals), init)
        self.critics = critics.to(self.device)
        self.target = TargetNetwork(self.network)
        self.target_critics = TargetNetwork(self.critics)
        self.actor_optimizer = CheckedAdam(self.network.parameters(), hyper.learning_rate, self.non_finite)
        self.critic_optimizer = CheckedAdam(self.critics.parameters(), hyper.learning_rate, self.non_finite)
        self._actor_parameters = [p for p in self.network.parameters() if p.requires_grad]
        self.explorer: ActionNoise = action_noise(actions, hyper)

    def modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.modules`."""
        return {"Policy": self.network, "Critics": self.critics}

    def target_modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.target_modules`."""
        return {"Target": self.target.network, "Target critics": self.target_critics.network}

    def optimizers(self) -> dict[str, CheckedAdam]:
        """See `Algorithm.optimizers`."""
        return {"Optimizer": self.actor_optimizer, "Optimizer:critics": self.critic_optimizer}

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

    def update_targets(self, tau: float | None = None) -> None:
        """A Polyak step of both targets with `tau`, by default the configured one."""
        tau = self.tau if tau is None else tau
        self.target.update(self.actor_optimizer.flat, tau)
        self.target_critics.update(self.critic_optimizer.flat, tau)

    def metrics(self, policy_step: int) -> dict[str, float]:
        """The values of the schedules."""
        return {
            "Policy/Learning Rate": self.learning_rate(policy_step),
            self.explorer.statistic: self.explorer.schedule(policy_step),
        }

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """The targets become copies of the networks."""
        self.update_targets(1.0)
        return []


def action(network: Actor, inputs: Sequence[Tensor]) -> Tensor:
    """mu(o): [B, A], from prepared observations."""
    return network.actions.columns(network.actor_encoding(inputs)).tanh()
