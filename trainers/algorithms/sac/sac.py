"""Soft actor-critic with a separate state value (Haarnoja et al. 2018, arXiv 1812.05905 and 1801.01290)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from ....agent_processor.trajectory import Rollout
from ...buffers.replay.columns import ExtraColumn
from ...buffers.replay.sampler import ReplayBatch
from ...checkpoints.mlagents.weights import is_mlagents, take_target
from ...networks.actor import Actor
from ...networks.modules.chunking import chunked_forward
from ...networks.modules.precision import Precision
from ...networks.observations import require_equal_groups
from ...networks.sac import Sequences, Temperatures, TwinQ, ValueNetwork
from ...settings.models.algorithms import SACSettings
from ...settings.models.behavior import TrainerSettings
from ..base import OffPolicyAlgorithm, Traits, UpdateResult
from ..common.observations import to_tensors
from ..common.optim import CheckedAdam, FlatParameters
from ..common.recurrent import CriticStates, first_of_sequences, remember
from ..common.threads import UpdateThreads
from .fused import DenseGradient, fits
from .losses import follow
from .update import VALUE_STATES, DerivedGradient, Losses, Networks


class SAC(OffPolicyAlgorithm):
    """The networks, the value estimates, and the update."""

    name = "SAC"
    traits = Traits(loads_mlagents=True)
    network: Actor
    hyper: SACSettings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, SACSettings)
        self.networks = _networks(self.spec, settings, self.device, seed)
        self.network = self.networks.actor
        value = self.networks.value
        self.memories = CriticStates(value.memory.size) if self.is_recurrent else None
        self.extra_columns = [ExtraColumn(VALUE_STATES, (value.memory.size,))] if self.is_recurrent else []
        self._starts = np.zeros((0, 0), np.float32)
        """[sequences, size] V's states before each sequence of the rollout that was last evaluated."""
        parameters = [p for network in self.networks[:-1] for p in network.parameters()]
        self.optimizer = CheckedAdam(parameters, hyper.learning_rate, self.non_finite)
        """One for all: its arithmetic on a tensor does not depend on the others."""
        size = sum(p.numel() for p in value.parameters())
        self._of_value = self.optimizer.flat.vector.detach()[-size:]
        self._of_target = FlatParameters(self.networks.target.parameters()).vector.detach()
        self.networks.target.requires_grad_(False)
        self.gradient: DerivedGradient | DenseGradient = self._gradient()
        self.noise = torch.Generator().manual_seed(seed + 1)

    def modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.modules`; in the optimizer's order."""
        actor, q, temperatures, value, _ = self.networks
        return {"Policy": actor, "Q": q, "Temperatures": temperatures, "Value": value}

    def target_modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.target_modules`."""
        return {"Target": self.networks.target}

    def optimizers(self) -> dict[str, CheckedAdam]:
        """See `Algorithm.optimizers`."""
        return {"Optimizer": self.optimizer}

    def generators(self) -> dict[str, torch.Generator]:
        """See `Algorithm.generators`."""
        return {"noise": self.noise}

    def _gradient(self) -> DerivedGradient | DenseGradient:
        """The quick way to the gradient, where there is one."""
        if fits(self.networks) and self.precision is Precision.FLOAT32:
            return DenseGradient(self.networks)
        sequences = None
        if self.memories is not None:
            length = self.sequence_length
            sequences = Sequences(length, min(int(self.hyper.burn_in_ratio * length), length - 1))
        return DerivedGradient(self.networks, sequences, self.hyper.n_step, self.precision, self.device)

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

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the critic's states of these agents; see `Algorithm.reset_agents`."""
        if self.memories is not None:
            self.memories.reset_agents(env, agent_ids)

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
            self.optimizer.zero_grad()
        losses = self.gradient(batch, noise)
        self.optimizer.step(rate, policy_step)
        follow(self._of_target, self._of_value, self.hyper.tau)
        return losses

    def learnt(self, real: Tensor) -> Tensor:
        """Of a column [B] of whole sequences, the steps behind the burn-in."""
        sequences = self.gradient.sequences if isinstance(self.gradient, DerivedGradient) else None
        return real if sequences is None else sequences.learnt(real)

    # Transfer -------------------------------------------------------------------------------------------

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """The target becomes the slow copy of the value in the checkpoint, or a copy of the value."""
        self._of_target.copy_(self._of_value)
        if not any(clause.startswith(("Value", "value_network")) for clause in mismatches):
            if is_mlagents(state):
                take_target(self.networks.target, state)
            elif isinstance(state.get("Target"), Mapping):
                self.networks.target.load_state_dict(state["Target"])
        return []


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
    require_equal_groups(actor.encoder, value.encoder)
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
