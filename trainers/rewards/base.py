"""What a trainer asks of a reward signal.

What reward signals with networks of their own have in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from ...agent_processor.trajectory import Rollout
from ...envs.validation import NonFinitePolicy
from ..algorithms.common.observations import update_normalizer
from ..algorithms.common.optim import CheckedAdam
from ..checkpoints.transfer import fitting
from ..networks.observations import ObservationEncoder
from ..settings.models.rewards import LearnedRewardSettings
from .transitions import Transitions


class RewardProvider(Protocol):
    """A reward signal, one of several that a trainer may add up."""

    ignores_done: bool
    """The signal goes on behind an episode's end, so values are bootstrapped there too (curiosity, RND)."""

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[rollout.steps] rewards of the trajectories' own steps, before `strength`."""
        ...


@runtime_checkable
class LearnedReward(RewardProvider, Protocol):
    """A signal with a network of its own, which off-policy trainers ask anew whenever steps are drawn."""

    looks_ahead: bool
    """It reads what followed a step too."""

    def observe(self, rollout: Rollout) -> None:
        """Let its running observation statistics take in these steps; they change nowhere else."""
        ...

    def rewards(self, steps: Transitions) -> Tensor:
        """[B] rewards of any steps, before `strength`."""
        ...

    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """One gradient step of its network; figures by statistics' names."""
        ...

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`, or {}; what does not, with the reasons."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Weights, normalisers, optimiser: all that the next step depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        ...


class NetworkSignal(ABC):
    """Asks its network about rollouts, moves it by an Adam of its own, and keeps both in checkpoints."""

    name: str
    """Of the signal, in messages."""
    ignores_done: bool
    looks_ahead: bool

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: LearnedRewardSettings,
        networks: Mapping[str, nn.Module],
        encoder: ObservationEncoder,
        device: torch.device,
        non_finite: NonFinitePolicy,
    ) -> None:
        """Begin with fresh networks, on `device` already.

        Args:
            spec: of the behaviour.
            settings: of the signal.
            networks: by their entries in a checkpoint; what needs no gradient is not moved.
            encoder: whose normalisers all observations go through.
            device: the learner's.
            non_finite: what to do about gradients that are no numbers.
        """
        self.spec, self.settings, self.device = spec, settings, device
        self.networks = dict(networks)
        self._encoder = encoder
        parameters = [p for network in self.networks.values() for p in network.parameters()]
        self.optimizer = CheckedAdam(
            parameters, settings.learning_rate, non_finite, of=f"the reward signal {self.name}"
        )

    @abstractmethod
    def rewards(self, steps: Transitions) -> Tensor:
        """[B] rewards of any steps, before `strength`."""

    @abstractmethod
    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """One gradient step of its network; figures by statistics' names."""

    def observe(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        encoder = self._encoder
        update_normalizer(
            rollout, encoder, encoder.update_normalization, self.optimizer, self.spec, self.device
        )

    def evaluate(self, rollout: Rollout) -> NDArray[np.float32]:
        """[rollout.steps] rewards of the trajectories' own steps, before `strength`."""
        rewards: NDArray[np.float32] = (
            self.rewards(Transitions.of_rollout(rollout, self.device)).cpu().numpy()
        )
        return rewards

    def _descend(self, loss: Tensor, policy_step: int) -> None:
        """One step down the slope of `loss`."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.settings.learning_rate, policy_step)

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over the weights that fit of another run's `state_dict`; what does not, with the reasons.

        The optimiser begins anew.
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
        """Weights, normalisers, optimiser: all that the next step depends on."""
        networks = {entry: network.state_dict() for entry, network in self.networks.items()}
        return {**networks, "Optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        for entry, network in self.networks.items():
            network.load_state_dict(state[entry])
        self.optimizer.load_state_dict(state["Optimizer"])


def flat_actions(actions: Sequence[Tensor], branches: Sequence[int]) -> Tensor:
    """Continuous [B, A] and discrete [B, K] actions side by side, the latter as one-hot vectors."""
    continuous, discrete = actions
    columns = [continuous]
    for k, size in enumerate(branches):
        columns.append(torch.nn.functional.one_hot(discrete[:, k], int(size)).to(continuous.dtype))
    return torch.cat(columns, 1)
