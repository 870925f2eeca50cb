"""Soft actor-critic with a separate state value (Haarnoja et al. 2018, arXiv 1812.05905 and 1801.01290)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ...buffers.replay.columns import ExtraColumn
from ...buffers.replay.sampler import ReplayBatch
from ...checkpoints.mlagents.weights import is_mlagents, take_target
from ...networks.actor import Actor
from ...networks.critics import BurnInSequences, Temperatures, TwinQ, ValueNetwork
from ...networks.modules.passes import chunked_forward
from ...networks.observations import require_equal_groups, to_tensors
from ...settings.models.algorithms import SACSettings
from ...settings.models.behavior import TrainerSettings
from ..base import OffPolicyAlgorithm, Traits, UpdateResult
from ..common.actions import require_some_actions
from ..common.optim import CheckedAdam, FlatParameters
from ..common.recurrent import CriticStates, first_of_sequences, unroll
from ..fast.cuda_graphs import CapturedStep
from ..fast.sac import FusedSACGradient
from .forward import VALUE_STATES, ForwardPass, SACLosses, SACNetworks
from .losses import (
    BranchSums,
    entropy_penalty,
    expected_q,
    policy_loss,
    polyak_update,
    q_targets,
    squared_error,
    temperature_loss,
    value_targets,
)


class SAC(OffPolicyAlgorithm):
    """The networks, the value estimates, and the update."""

    name = "SAC"
    traits = Traits(loads_mlagents=True)
    network: Actor
    hyper: SACSettings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and register policy, Q, V, its target, the temperatures and the optimizer."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, SACSettings)
        require_some_actions(self.spec.action_spec, settings.network_settings)
        self.networks = _networks(self.spec, settings, self.device, seed)
        self.network = self.networks.actor
        value = self.networks.value
        self.memories = CriticStates(value.memory_size) if self.is_recurrent else None
        self.critic_states = [self.memories] if self.memories is not None else []
        self.extra_columns = [ExtraColumn(VALUE_STATES, (value.memory().size,))] if self.is_recurrent else []
        self._starts = np.zeros((0, 0), np.float32)
        """[sequences, size] V's states before each sequence of the rollout that was last evaluated."""
        parameters = [p for network in self.networks[:-1] for p in network.parameters()]
        self.optimizer = CheckedAdam(parameters, hyper.learning_rate, self.non_finite)
        """The one optimizer of all networks: Adam treats each parameter by itself."""
        size = sum(p.numel() for p in value.parameters() if p.requires_grad)
        self._value_weights = self.optimizer.flat.vector.detach()[-size:]
        self._target_weights = FlatParameters(self.networks.target.parameters()).vector.detach()
        self.networks.target.requires_grad_(False)
        self.branches = BranchSums(self.network.actions.branches.sizes, self.device)
        self.forward = ForwardPass(self.networks, self._sequences(hyper))
        is_faster = FusedSACGradient.is_faster(self.networks, self.precision)
        self.fused = FusedSACGradient(self.networks) if is_faster else None
        """The gradient by hand, for networks that are dense MLPs."""
        self.captured: CapturedStep[tuple[ReplayBatch, Tensor]] | None = None
        """The gradient step as captured for a GPU; None where it is not captured."""
        if type(self) is SAC and CapturedStep.is_faster(settings, self.device):  # a plug-in's may do anything
            self.captured = CapturedStep(self._step_on_device, 1, self.optimizer.tensors())
        self._actor_parameters = [p for p in self.network.parameters() if p.requires_grad]
        critics = (self.networks.q, value, self.networks.temperatures)
        self._critic_parameters = [p for one in critics for p in one.parameters() if p.requires_grad]
        self.noise = torch.Generator().manual_seed(seed + 1)
        actor, q, temperatures, value, target = self.networks
        self.register(  # the networks in the optimizer's order
            {"Policy": actor, "Q": q, "Temperatures": temperatures, "Value": value},
            {"Optimizer": self.optimizer},
            {"noise": self.noise},
            {"Target": target},
        )

    def _sequences(self, hyper: SACSettings) -> BurnInSequences | None:
        """How the sequences of a batch are learned from; None without a memory."""
        length = self.sequence_length
        if not self.is_recurrent:
            return None
        return BurnInSequences(length, min(int(hyper.burn_in_ratio * length), length - 1))

    # Estimates ------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """V of the trajectories' own steps [steps, signals], in their order, to be reported."""
        self.warn_of_group_rewards(rollout)
        inputs = self.network.prepare(to_tensors([o[: rollout.steps] for o in rollout.obs], self.device))
        value = self.networks.value
        if self.memories is None:
            return {"Value": chunked_forward(value, inputs).cpu().numpy()}
        encodings = chunked_forward(value.encoding, inputs)
        outputs = unroll(value.memory(), self.memories, rollout, self.sequence_length, encodings)
        self._starts = outputs.starts
        return {"Value": value.values(outputs.steps).cpu().numpy()}

    def extra(self, rollout: Rollout) -> dict[str, NDArray[Any]]:
        """V's states, of a rollout whose `estimates` have just been made; see `VALUE_STATES`."""
        if self.memories is None:
            return {}
        states = np.zeros((rollout.steps, self.memories.size), np.float32)
        states[first_of_sequences(rollout, self.sequence_length)] = self._starts
        return {VALUE_STATES: states}

    # The update ---------------------------------------------------------------------------------------

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """One gradient step on policy, critics and temperatures, then a Polyak step of the target network.

        Raises:
            FloatingPointError: the gradient is not finite, and `non_finite` is STOP.
        """
        noise = torch.randn((len(batch), self.network.actions.continuous_size), generator=self.noise)
        noise = noise.to(self.device)
        learning_rate, fixed = self.learning_rate(policy_step), self.hyper.entropy_coefficient
        if fixed is not None:
            self.networks.temperatures.hold(fixed)
        if self.captured is not None:
            results = self.captured((batch, noise), learning_rate)
            self.optimizer.read_steps(policy_step)
            losses = SACLosses(results[0], results[1], results[2], results[3], td_errors=results[4:])
        else:
            losses = self._gradient(batch, noise)
            self.optimizer.step(learning_rate, policy_step)
        if fixed is not None:  # the optimizer has moved it with all other parameters
            self.networks.temperatures.hold(fixed)
        polyak_update(self._target_weights, self._value_weights, self.hyper.tau)
        return UpdateResult(self._update_metrics(losses, learning_rate), losses.td_errors)

    def _gradient(self, batch: ReplayBatch, noise: Tensor) -> SACLosses:
        """Write the gradients of all losses of a batch to each parameter's `grad`."""
        if self.fused is not None:
            losses = self.fused(batch, noise)  # the objective below, differentiated by hand
        else:
            losses = self._differentiated(batch, noise)
        if self.hyper.entropy_coefficient is not None:  # what is not learned counts in no gradient's norm
            self.networks.temperatures.zero_grad(set_to_none=False)
        return losses

    def _differentiated(self, batch: ReplayBatch, noise: Tensor) -> SACLosses:
        """Like `_gradient`, by torch."""
        with self.precision.passes(self.device):
            outputs = self.forward(batch, noise)
        steps, log_pi = self.forward.without_burn_in(batch), outputs.sampled.log_probs
        alpha, log_alpha = self.networks.temperatures.alpha, self.networks.temperatures.log_alpha
        taken, likely = None, None
        if log_pi.discrete is not None:
            taken = self.branches.taken_weights(steps.actions.discrete)
            likely = log_pi.discrete.detach().exp() / self.branches.count
        with torch.no_grad():
            # y = r + gamma V'(o') for Q, and min(Q1, Q2)(o, a ~ pi) - alpha ln pi for V
            target_q = q_targets(steps.rewards, steps.discounts, outputs.next_values)
            penalty = entropy_penalty(alpha, log_pi, self.branches)
            target_v = value_targets(expected_q(outputs.q_sampled, likely), penalty)
        q = expected_q(outputs.q_taken, taken)
        q1_loss = squared_error(q[0], target_q, steps.weights, steps.real)
        q2_loss = squared_error(q[1], target_q, steps.weights, steps.real)
        value_loss = squared_error(outputs.values, target_v, steps.weights, steps.real)
        # E [alpha ln pi - Q1], and -E [ln alpha (ln pi + target entropy)]
        actor_loss = policy_loss(alpha, log_pi, outputs.q_sampled[0], self.branches, steps.real)
        target_entropies = self.networks.temperatures.entropies
        alpha_loss = temperature_loss(log_alpha, target_entropies, log_pi, self.branches, steps.real)
        self.optimizer.zero_grad()
        actor_loss.backward(inputs=self._actor_parameters)  # type: ignore[no-untyped-call]
        critic_loss = q1_loss + q2_loss + value_loss + alpha_loss
        critic_loss.backward(inputs=self._critic_parameters)  # type: ignore[no-untyped-call]
        td_errors = (target_q - q.detach()).abs().mean((0, 2))
        scalars = (actor_loss.detach(), q1_loss.detach(), q2_loss.detach(), value_loss.detach())
        return SACLosses(*scalars, td_errors)

    def _step_on_device(self, batch: tuple[ReplayBatch, Tensor], numbers: Tensor) -> Tensor:
        """Take a gradient step by the given learning rate; return losses and temporal-difference errors."""
        losses = self._gradient(*batch)
        self.optimizer.step_on_device(numbers[0])
        return torch.cat((torch.stack(losses[:-1]), losses.td_errors))

    def _update_metrics(self, losses: SACLosses, learning_rate: float) -> dict[str, float]:
        """The losses, and the entropy coefficients after the step, by statistics' names."""
        scalars: Iterable[Any] = losses[:-1]
        if isinstance(losses.policy, Tensor):
            scalars = torch.stack(losses[:-1]).tolist()  # read from their device at once
        policy, q1, q2, value = map(float, scalars)
        return {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            "Losses/Q1 Loss": q1,
            "Losses/Q2 Loss": q2,
            **self.networks.temperatures.metrics(),
            "Policy/Learning Rate": learning_rate,
        }

    # Transfer -------------------------------------------------------------------------------------------

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """The target becomes the slow copy of the value in the checkpoint, or a copy of the value."""
        self.networks.target.load_state_dict(self.networks.value.state_dict())
        if not any(clause.startswith(("Value", "value_network")) for clause in mismatches):
            if is_mlagents(state):
                take_target(self.networks.target, state)
            elif isinstance(state.get("Target"), Mapping):
                self.networks.target.load_state_dict(state["Target"])
        return []


def _networks(spec: BehaviorSpec, settings: TrainerSettings, device: torch.device, seed: int) -> SACNetworks:
    init = torch.Generator().manual_seed(seed)
    network = settings.network_settings
    critic_network = network.critic or network
    signals = list(settings.reward_signals)
    hyper = settings.hyperparameters
    assert isinstance(hyper, SACSettings)
    actor = Actor(spec, network, init, squashed=True, sigma_of_state=True)
    q = TwinQ(spec, critic_network, signals, init)
    value = ValueNetwork(spec, critic_network, signals, init)
    require_equal_groups(actor.encoder, value.encoder)
    actions = spec.action_spec
    sizes = actions.continuous_size, actions.discrete_branches
    temperatures = Temperatures(*sizes, hyper.init_entcoef, hyper.target_entropy)
    value = value.to(device)
    return SACNetworks(actor.to(device), q.to(device), temperatures.to(device), value, copy.deepcopy(value))
