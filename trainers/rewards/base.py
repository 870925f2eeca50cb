"""The interfaces of reward signals, and the base class of those with networks of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, ObservationSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from ...agent_processor.trajectory import Rollout
from ...envs.validation import NonFinitePolicy
from ..algorithms.common.optim import CheckedAdam, update_normalizer
from ..checkpoints.transfer import fitting
from ..networks.modules.body import body_on
from ..networks.observations import ObservationEncoder
from ..settings.models.networks import NetworkSettings
from ..settings.models.rewards import LearnedRewardSettings
from .transitions import Transitions

Rewards = Mapping[str, NDArray[np.float32]]
"""The rewards of each signal, [steps], times the signal's strength."""


class RewardProvider(Protocol):
    """A reward signal; a trainer may add up several."""

    ignores_done: bool
    """Whether the signal goes on after an episode's end, where values are bootstrapped (curiosity, RND)."""

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[rollout.steps] rewards of the trajectories' own steps, before `strength`."""


@runtime_checkable
class LearnedReward(RewardProvider, Protocol):
    """A signal with a network of its own; off-policy trainers recompute its rewards for each batch."""

    needs_next_obs: bool
    """Whether the signal also reads the observations after the steps."""

    def update_normalizer(self, rollout: Rollout) -> None:
        """Let the signal's running observation statistics see these steps; they change nowhere else."""

    @abstractmethod
    def rewards(self, steps: Transitions) -> Tensor:
        """[B] rewards of any steps, before `strength`."""

    @abstractmethod
    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """Take one gradient step of the signal's network; return metrics by statistics' names."""

    def initialize_from(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`, or {}; returns what does not, with reasons."""

    def state_dict(self) -> dict[str, Any]:
        """Weights, normalizers, optimizer: all that the next step depends on."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""


class NetworkSignal(LearnedReward):
    """Evaluates rollouts with networks that an optimizer of its own trains; both are saved in checkpoints."""

    name: str
    """The name of the signal, in messages."""
    absorbing_states: bool = False
    """Whether an episode that ends goes on in an absorbing state, whose reward is earned for ever after."""

    def absorbing_reward(self) -> Tensor:
        """The reward, a scalar, of each step in the absorbing state, before `strength`."""
        raise NotImplementedError

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: LearnedRewardSettings,
        networks: Mapping[str, nn.Module],
        encoder: ObservationEncoder,
        device: torch.device,
        non_finite: NonFinitePolicy,
    ) -> None:
        """Prepare to train new networks.

        Args:
            spec: of the behavior.
            settings: of the signal.
            networks: on `device`, by their entries in a checkpoint; those without gradients are not trained.
            encoder: whose normalizers all observations pass.
            device: the learner's.
            non_finite: how to handle gradients that are not finite.
        """
        self.spec, self.settings, self.device = spec, settings, device
        self.networks = dict(networks)
        self._encoder = encoder
        parameters = [p for network in self.networks.values() for p in network.parameters()]
        self.optimizer = CheckedAdam(
            parameters, settings.learning_rate, non_finite, of=f"the reward signal {self.name}"
        )

    def update_normalizer(self, rollout: Rollout) -> None:
        """Let the running observation statistics see the trajectories' own steps.

        Raises:
            FloatingPointError: the statistics overflow, and `non_finite` is STOP.
        """
        encoder, obs = self._encoder, rollout.own("obs")["obs"]
        update_normalizer(obs, encoder, encoder.update_normalization, self.optimizer, self.spec, self.device)

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[rollout.steps] rewards of the trajectories' own steps, before `strength`."""
        rewards: NDArray[np.float32] = (
            self.rewards(Transitions.of_rollout(rollout, self.device)).cpu().numpy()
        )
        return rewards

    def _descend(self, loss: Tensor, policy_step: int) -> None:
        """Take one gradient step on `loss`."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.settings.learning_rate, policy_step)

    def initialize_from(self, state: Mapping[str, Any]) -> list[str]:
        """Take over the weights that fit of another run's `state_dict`; the optimizer starts from scratch.

        Returns:
            What does not fit, with the reasons.
        """
        mismatches = []
        for entry, network in self.networks.items():
            if entry not in state:
                mismatches.append(f"{entry} (not in the file)")
                continue
            taken, unfit = fitting(network.state_dict(), state[entry])
            network.load_state_dict(taken, strict=False)
            mismatches += [f"{entry}.{what}" for what in unfit]
        return mismatches

    def state_dict(self) -> dict[str, Any]:
        """Weights, normalizers, optimizer: all that the next step depends on."""
        networks = {entry: network.state_dict() for entry, network in self.networks.items()}
        return {**networks, "Optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for entry, network in self.networks.items():
            network.load_state_dict(state[entry])
        self.optimizer.load_state_dict(state["Optimizer"])


def has_absorbing_states(signal: RewardProvider) -> bool:
    """Whether episodes that end go on in an absorbing state, for this signal."""
    return isinstance(signal, NetworkSignal) and signal.absorbing_states


class Embedding(nn.Module):
    """The network from observations to a vector, of the encoders and hidden layers of policies; no memory."""

    def __init__(
        self,
        specs: Sequence[ObservationSpec],
        settings: NetworkSettings,
        generator: torch.Generator,
        *,
        normalize: bool | None = None,
    ) -> None:
        """Build the embedding with initial weights.

        Args:
            specs: of the behavior.
            settings: the signal's `network_settings`.
            generator: of the initial weights.
            normalize: overrides the settings; False to read what another embedding has prepared.

        Errors are those of `ObservationEncoder`.
        """
        super().__init__()
        self.encoder = ObservationEncoder(specs, settings, generator, normalize=normalize)
        self.body = body_on(self.encoder, 1, settings, generator)

    @property
    def size(self) -> int:
        """The size of the vector."""
        return self.body.hidden

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """The inputs of `forward`, normalized, from one [B, *shape] tensor per observation."""
        return self.encoder.prepare(obs)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """The vectors [B, size] of prepared observations."""
        return self.body.stream(0, self.encoder(inputs))
