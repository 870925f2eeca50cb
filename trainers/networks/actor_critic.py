"""The network of the on-policy trainers: a policy and its critic."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ..distributions import ActionDistribution
from .body import Body
from .heads import ActionHead, ValueHead
from .observations import ObservationEncoder, UnsupportedObservationError, goal_observations
from .settings import ConditioningType, NetworkSettings


class UnsupportedNetworkError(ValueError):
    """Network settings that this version cannot build."""


class ActorCritic(nn.Module):
    """An actor and a critic of the same shape, as two streams of one body, or as one stream that both share.

    Both read the same prepared inputs: an actor's and a critic's normaliser would always have seen the same.
    """

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        reward_signals: Sequence[str],
        shared_critic: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        """Build the network with fresh weights, drawn from `generator` or torch's own.

        Raises:
            UnsupportedObservationError: an observation cannot be encoded; the message names it.
            UnsupportedNetworkError: the settings ask for what this version lacks.
        """
        super().__init__()
        _refuse_what_is_missing(spec, settings)
        self.spec = spec
        self.shared_critic = shared_critic
        self.encoder = ObservationEncoder(spec.observation_specs, settings.normalize)
        streams = 1 if shared_critic else 2
        self.body = Body(streams, self.encoder.size, settings.hidden_units, settings.num_layers, generator)
        self.actions = ActionHead(self.body.hidden, spec.action_spec, generator)
        self.values = ValueHead(self.body.hidden, reward_signals, generator)

    @property
    def memory_size(self) -> int:
        """Length of an agent's recurrent state; 0 without one."""
        return 0

    @property
    def reward_signals(self) -> tuple[str, ...]:
        """The names of the columns of values."""
        return self.values.signals

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """One float32 [B, *shape] tensor per observation -> the inputs of the methods below.

        Holds no parameters: a learner prepares all rows once per update and passes any rows of the result.
        """
        return self.encoder.prepare(obs)

    def act(self, inputs: Sequence[Tensor], action_mask: Tensor | None = None) -> ActionDistribution:
        """The policy alone. `action_mask`: [B, sum of branch sizes] bool, True where forbidden."""
        distribution: ActionDistribution = self.actions(self._encoding(0, inputs), action_mask)
        return distribution

    def value(self, inputs: Sequence[Tensor]) -> Tensor:
        """The critic alone: [B, signals]."""
        values: Tensor = self.values(self._encoding(self.body.streams - 1, inputs))
        return values

    def evaluate(
        self, inputs: Sequence[Tensor], action_mask: Tensor | None = None
    ) -> tuple[ActionDistribution, Tensor]:
        """Policy and critic in one pass: what `act` and `value` give."""
        encodings = self.body(self.encoder(inputs)).unbind(0)
        return self.actions(encodings[0], action_mask), self.values(encodings[-1])

    def _encoding(self, stream: int, inputs: Sequence[Tensor]) -> Tensor:
        return self.body.stream(stream, self.encoder(inputs))

    def update_normalization(self, obs: Sequence[Tensor]) -> bool:
        """Let the normalisers see the rows of all new trajectories (one [k, *shape] tensor per observation).

        With a shared critic every row counts twice: ML-Agents updates the one normaliser for the actor and
        again for the critic, and how fast it settles is part of what its settings are tuned to.

        Returns:
            Whether they could; False where numbers are too large.
        """
        return self.encoder.update_normalization(obs, times=2 if self.shared_critic else 1)


def _refuse_what_is_missing(spec: BehaviorSpec, settings: NetworkSettings) -> None:
    if settings.memory is not None:
        raise UnsupportedNetworkError(
            "network_settings.memory asks for a recurrent network, which this version of Lanista does not "
            "have; remove the key `memory`."
        )
    goals = goal_observations(spec.observation_specs)
    if goals and settings.goal_conditioning_type is not ConditioningType.NONE:
        name = spec.observation_specs[goals[0]].name
        raise UnsupportedObservationError(
            f"Observation {goals[0]} '{name}' is a goal signal, and this version of Lanista has no hyper "
            f"networks; set network_settings.goal_conditioning_type to none to read it like any other."
        )
