"""Soft actor-critic with a separate state value (Haarnoja et al. 2018, arXiv 1812.05905 and 1801.01290)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ....envs.validation import NonFinite
from ...buffers.replay.columns import ExtraColumn
from ...buffers.replay.sampler import ReplayBatch
from ...checkpoints.mlagents.weights import is_mlagents, take_target
from ...checkpoints.transfer import load_matching
from ...networks.actor import Actor
from ...networks.modules.chunking import in_portions
from ...networks.modules.precision import Precision
from ...networks.observations import require_equal_parts
from ...networks.sac import Sequences, Temperatures, TwinQ, ValueNetwork
from ...settings.models.algorithms import SACSettings
from ...settings.models.behavior import TrainerSettings
from ..base import UpdateResult
from ..common.observations import count_observations, tensors
from ..common.optim import FlatParameters, GuardedAdam
from ..common.recurrent import CriticMemories, first_of_sequences, remember
from ..common.schedules import LEARNING_RATE_FLOOR, Schedule
from ..common.threads import UpdateThreads
from .fused import DenseGradient, fits
from .losses import follow
from .update import VALUE_STATES, DerivedGradient, Losses, Networks


class SAC:
    """The networks, what is told of a rollout, and the update."""

    looks_at_mates = False
    learns_as_team = False
    greedy_when_tested = False
    places = 0
    exploration = 0.0

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinite,
        precision: Precision = Precision.FLOAT32,
    ) -> None:
        hyper = settings.hyperparameters
        assert isinstance(hyper, SACSettings)
        self.hyper = hyper
        self.spec = spec
        self.device = device
        self.signals = list(settings.reward_signals)
        self.gammas = [s.gamma for s in settings.reward_signals.values()]
        self.precision = precision
        self.networks = _networks(spec, settings, device, seed)
        self.network = self.networks.actor
        memory = settings.network_settings.memory
        self.sequence_length = 1 if memory is None else memory.sequence_length
        value = self.networks.value
        self.memories = None if memory is None else CriticMemories(value.memory.size)
        self.extra_columns = [] if memory is None else [ExtraColumn(VALUE_STATES, (value.memory.size,))]
        self._starts = np.zeros((0, 0), np.float32)
        """[sequences, size] V's states before each sequence of the rollout that was last judged."""
        learnt = self.networks[:-1]
        self.optimizer = GuardedAdam(
            [p for network in learnt for p in network.parameters()], hyper.learning_rate, non_finite
        )
        """One for all: its arithmetic on a tensor does not depend on the others."""
        size = sum(p.numel() for p in value.parameters())
        self._of_value = self.optimizer.flat.vector.detach()[-size:]
        self._of_target = FlatParameters(self.networks.target.parameters()).vector.detach()
        self.networks.target.requires_grad_(False)
        self.gradient: DerivedGradient | DenseGradient = self._gradient()
        self.noise = torch.Generator().manual_seed(seed + 1)
        linear = hyper.learning_rate_schedule == "linear"
        self.learning_rate = Schedule(hyper.learning_rate, LEARNING_RATE_FLOOR, settings.max_steps, linear)

    def _gradient(self) -> DerivedGradient | DenseGradient:
        """The quick way to the gradient, where there is one."""
        if fits(self.networks) and self.precision is Precision.FLOAT32:
            return DenseGradient(self.networks)
        sequences = None
        if self.memories is not None:
            length = self.sequence_length
            sequences = Sequences(length, min(int(self.hyper.burn_in_ratio * length), length - 1))
        return DerivedGradient(self.networks, sequences, self.hyper.n_step, self.precision, self.device)

    # What comes in ------------------------------------------------------------------------------------

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        network = self.network
        count_observations(
            rollout, network.encoder, network.update_normalization, self.optimizer, self.spec, self.device
        )

    @torch.inference_mode()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """V of the trajectories' own steps [steps, signals], in their order, to be reported."""
        if rollout.group_reward[: rollout.steps].any():
            self.optimizer.warn_once(
                "Group rewards without a team's trainer",
                "SAC counts what a group earns as each living member's own; trainer_type: poca also learns "
                "what each of them had to do with it, and what it earns after a member's end",
            )
        inputs = self.network.prepare(tensors([o[: rollout.steps] for o in rollout.obs], self.device))
        value = self.networks.value
        if self.memories is None:
            return {"Value": in_portions(value, inputs).cpu().numpy()}
        encodings = in_portions(value.encoding, inputs)
        said = remember(value.memory, self.memories, rollout, self.sequence_length, encodings)
        self._starts = said.starts
        return {"Value": value.values(said.steps).cpu().numpy()}

    def extra(self, rollout: Rollout) -> dict[str, NDArray[Any]]:
        """V's states, of a rollout whose `estimates` have just been made; see `VALUE_STATES`."""
        if self.memories is None:
            return {}
        states = np.zeros((rollout.steps, self.memories.size), np.float32)
        states[first_of_sequences(rollout, self.sequence_length)] = self._starts
        return {VALUE_STATES: states}

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """These agents' unfinished episodes will never end: what the critic remembers of them goes."""
        if self.memories is not None:
            self.memories.forget(env, agent_ids)

    # The update ---------------------------------------------------------------------------------------

    def update(self, batch: ReplayBatch, policy_step: int, threads: UpdateThreads) -> UpdateResult:
        """One step of policy, critics and temperatures by the same batch, then the target follows.

        Raises:
            FloatingPointError: the gradient is no finite number, and `non_finite` is STOP.
        """
        rate = self.learning_rate(policy_step)
        for part in threads.over([batch]):
            losses = self._step(part, rate, policy_step)
        policy, q1, q2, value = _numbers(losses)
        alpha = self.networks.temperatures.alpha
        figures = {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            "Losses/Q1 Loss": q1,
            "Losses/Q2 Loss": q2,
            "Policy/Discrete Entropy Coeff": float(alpha.discrete.mean()),
            "Policy/Continuous Entropy Coeff": float(alpha.continuous),
            "Policy/Learning Rate": rate,
        }
        return UpdateResult(figures, losses.errors)

    def _step(self, batch: ReplayBatch, rate: float, policy_step: int) -> Losses:
        shape = (len(batch.rewards), self.network.actions.continuous_size)
        noise = torch.randn(shape, generator=self.noise, device=self.noise.device).to(self.device)
        if self.gradient.adds:
            self.optimizer.zero_gradient()
        losses = self.gradient(batch, noise)
        self.optimizer.step(rate, policy_step)
        follow(self._of_target, self._of_value, self.hyper.tau)
        return losses

    def figures(self, policy_step: int) -> dict[str, float]:
        """What is told of each update is all that there is to tell."""
        return {}

    # Saving -------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        mismatches = load_matching(self._learnt(), self.optimizer, state)
        self._of_target.copy_(self._of_value)
        if not any(clause.startswith(("Value", "value_network")) for clause in mismatches):
            self._take_target(state)
        return mismatches

    def _take_target(self, state: Mapping[str, Any]) -> None:
        """The slow copy of the value that has been taken over, where the checkpoint has it."""
        if is_mlagents(state):
            take_target(self.networks.target, state)
        elif isinstance(state.get("Target"), Mapping):
            self.networks.target.load_state_dict(state["Target"])

    def _learnt(self) -> dict[str, torch.nn.Module]:
        """By their entries in a checkpoint, in the optimiser's order."""
        actor, q, temperatures, value, _ = self.networks
        return {"Policy": actor, "Q": q, "Temperatures": temperatures, "Value": value}

    def state_dict(self) -> dict[str, Any]:
        """Weights, normaliser, optimiser and random state: all that the next update depends on."""
        return {
            **{entry: network.state_dict() for entry, network in self._learnt().items()},
            "Target": self.networks.target.state_dict(),
            "Optimizer": self.optimizer.state_dict(),
            "noise": self.noise.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        for entry, network in self._learnt().items():
            network.load_state_dict(state[entry])
        self.networks.target.load_state_dict(state["Target"])
        self.optimizer.load_state_dict(state["Optimizer"])
        self.noise.set_state(state["noise"].cpu())


def _networks(spec: BehaviorSpec, settings: TrainerSettings, device: torch.device, seed: int) -> Networks:
    init = torch.Generator().manual_seed(seed)
    own = settings.network_settings
    of_critics = own.critic or own
    signals = list(settings.reward_signals)
    hyper = settings.hyperparameters
    assert isinstance(hyper, SACSettings)
    actor = Actor(spec, own, init, squashed=True, sigma_of_state=True)
    q = TwinQ(spec, of_critics, signals, init)
    value = ValueNetwork(spec, of_critics, signals, init)
    require_equal_parts(actor.encoder, value.encoder)
    actions = spec.action_spec
    temperatures = Temperatures(actions.continuous_size, actions.discrete_branches, hyper.init_entcoef)
    value = value.to(device)
    return Networks(actor.to(device), q.to(device), temperatures.to(device), value, copy.deepcopy(value))


def _numbers(losses: Losses) -> list[float]:
    """All but the errors, read from their device at once."""
    scalars = losses[:-1]
    if isinstance(scalars[0], Tensor):
        numbers: list[float] = torch.stack(scalars).tolist()
        return numbers
    return [float(x) for x in scalars]
