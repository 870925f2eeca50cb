"""What DDPG and TD3 share: a deterministic policy, critics of its actions, and the targets of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ....envs.validation import NonFinite
from ...buffers.replay.sampler import ReplayBatch
from ...checkpoints.transfer import load_matching_optimizer, load_matching_weights
from ...networks.actor import Actor
from ...networks.modules.chunking import in_portions
from ...networks.modules.heads import HeadKind
from ...networks.modules.precision import Precision, widened
from ...policies.exploration import action_noise
from ...settings.models.algorithms import DeterministicPolicySettings
from ...settings.models.behavior import TrainerSettings
from ..base import require_continuous
from ..common.observations import count_observations, tensors
from ..common.optim import GuardedAdam
from ..common.schedules import LEARNING_RATE_FLOOR, Schedule
from ..common.target_network import Target
from .critics import ActionCritics


class DeterministicActorCritic:
    """The networks mu and Q, their targets mu' and Q', and the gradient steps that the algorithms make.

    Agents earn the sum of all signals: the policy climbs the sum of their values.
    """

    looks_at_mates = False
    learns_as_team = False
    greedy_when_tested = True
    places = 0
    exploration = 0.0
    sequence_length = 1
    name = ""
    """Of the algorithm, in messages."""

    def __init__(
        self,
        critics: int,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinite,
        precision: Precision,
    ) -> None:
        """Build the networks, with so many critics.

        Raises:
            UnsupportedActionError: some actions are discrete.
            UnsupportedObservationError: an observation cannot be encoded; it is named.
        """
        hyper = settings.hyperparameters
        assert isinstance(hyper, DeterministicPolicySettings)
        require_continuous(
            spec.action_spec,
            f"{self.name} climbs the slope of a value along the action, so it needs continuous ones alone",
            "Use trainer_type: dqn, sac or ppo for discrete actions; sac or ppo for both kinds.",
        )
        self.tau, self.spec, self.device, self.precision = hyper.tau, spec, device, precision
        self.signals = list(settings.reward_signals)
        self.gammas = [s.gamma for s in settings.reward_signals.values()]
        init, network = torch.Generator().manual_seed(seed), settings.network_settings
        self.network = Actor(spec, network, init, head=HeadKind(deterministic=True)).to(device)
        self.critics = ActionCritics(critics, spec, network, len(self.signals), init).to(device)
        self.target = Target(self.network)
        self.target_critics = Target(self.critics)
        self.actor_optimizer = GuardedAdam(self.network.parameters(), hyper.learning_rate, non_finite)
        self.critic_optimizer = GuardedAdam(self.critics.parameters(), hyper.learning_rate, non_finite)
        self._policy_weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        linear = hyper.learning_rate_schedule == "linear"
        self.rate = Schedule(hyper.learning_rate, LEARNING_RATE_FLOOR, settings.max_steps, linear)
        self.explorer = action_noise(spec.action_spec, hyper)
        """How agents explore while they learn."""

    # What comes in ------------------------------------------------------------------------------------

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        network = self.network
        count_observations(
            rollout,
            network.encoder,
            network.update_normalization,
            self.actor_optimizer,
            self.spec,
            self.device,
        )

    @torch.no_grad()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """Q(o, mu(o)) of each step, [steps, signals], by the first critic."""
        inputs = self.network.prepare(tensors([o[: rollout.steps] for o in rollout.obs], self.device))
        values = in_portions(lambda some: self.critics.first(some, action(self.network, some)), inputs)
        return {"Value": values.cpu().numpy()}

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """These agents' unfinished episodes will never end; nothing is kept of them here."""

    # Gradient steps -----------------------------------------------------------------------------------

    def critic_step(
        self, inputs: Sequence[Tensor], batch: ReplayBatch, targets: Tensor, policy_step: int
    ) -> tuple[Tensor, Tensor]:
        """All critics towards the targets [B, signals].

        Returns:
            The loss of each critic [C], its weighted mean squared error; and [B] the mean absolute errors.
        """
        with self.precision.passes(self.device):
            values = self.critics(inputs, batch.actions.continuous)
        errors = targets - widened(values)
        of_steps = errors.square().mean(2)
        losses = (of_steps if batch.weights is None else of_steps * batch.weights).mean(1)
        self.critic_optimizer.zero_gradient()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.critic_optimizer.step(self.rate(policy_step), policy_step)
        return losses.detach(), errors.detach().abs().mean((0, 2))

    def policy_step(self, inputs: Sequence[Tensor], policy_step: int) -> Tensor:
        """One step up the slope of the first critic's value: -mean Q(o, mu(o)), before it."""
        with self.precision.passes(self.device):
            values = self.critics.first(inputs, action(self.network, inputs))
        loss = -widened(values).sum(1).mean()
        self.actor_optimizer.zero_gradient()
        # The critics' own gradients are not wanted here, and not computed.
        loss.backward(inputs=self._policy_weights)  # type: ignore[no-untyped-call]
        self.actor_optimizer.step(self.rate(policy_step), policy_step)
        return loss.detach()

    def let_targets_follow(self) -> None:
        """Both targets take over the share tau."""
        self.target.follow(self.actor_optimizer.flat, self.tau)
        self.target_critics.follow(self.critic_optimizer.flat, self.tau)

    def figures(self, policy_step: int) -> dict[str, float]:
        """The schedules' values at this step."""
        return {
            "Policy/Learning Rate": self.rate(policy_step),
            self.explorer.statistic: self.explorer.schedule(policy_step),
        }

    # Saving -------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        mismatches = load_matching_weights({"Policy": self.network, "Critics": self.critics}, state)
        self.target.follow(self.actor_optimizer.flat)
        self.target_critics.follow(self.critic_optimizer.flat)
        if mismatches:
            return mismatches
        optimizers = {"Optimizer": self.actor_optimizer, "Optimizer:critics": self.critic_optimizer}
        unfit = {entry: load_matching_optimizer(adam, state, entry) for entry, adam in optimizers.items()}
        return [f"{entry} ({reason})" for entry, reason in unfit.items() if reason]

    def state_dict(self) -> dict[str, Any]:
        """Weights, normaliser and optimisers: all that the next update depends on."""
        return {
            "Policy": self.network.state_dict(),
            "Critics": self.critics.state_dict(),
            "Target": self.target.network.state_dict(),
            "Target critics": self.target_critics.network.state_dict(),
            "Optimizer": self.actor_optimizer.state_dict(),
            "Optimizer:critics": self.critic_optimizer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.network.load_state_dict(state["Policy"])
        self.critics.load_state_dict(state["Critics"])
        self.target.network.load_state_dict(state["Target"])
        self.target_critics.network.load_state_dict(state["Target critics"])
        self.actor_optimizer.load_state_dict(state["Optimizer"])
        self.critic_optimizer.load_state_dict(state["Optimizer:critics"])


def action(network: Actor, inputs: Sequence[Tensor]) -> Tensor:
    """mu(o): [B, A], from prepared observations."""
    return network.actions.columns(network.actor_encoding(inputs)).tanh()
