"""The network of the on-policy trainers: a policy and its critic."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ..distributions import ActionDistribution
from .body import Body
from .heads import ActionHead, ValueHead
from .memory import Memory
from .observations import ObservationEncoder, refuse_hyper_networks
from .settings import NetworkSettings


class ActorCritic(nn.Module):
    """An actor and a critic of the same shape, as two streams of one body, or as one stream that both share.

    Both read the same prepared inputs: an actor's and a critic's normaliser would always have seen the same.
    With a memory, each stream has its own, and the methods whose names end in `_with_memory` are the ones to
    call: they take sequences of steps and the states in which these begin.
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
            UnsupportedObservationError: an observation cannot be encoded, or not as the settings ask; the
                message names it.
        """
        super().__init__()
        refuse_hyper_networks(spec, settings)
        self.spec = spec
        self.shared_critic = shared_critic
        self.encoder = ObservationEncoder(spec.observation_specs, settings.normalize)
        streams = 1 if shared_critic else 2
        self.body = Body(streams, self.encoder.size, settings.hidden_units, settings.num_layers, generator)
        memory = [] if settings.memory is None else [settings.memory]
        self.memories = nn.ModuleList(
            Memory(self.body.hidden, kind, generator) for _ in range(streams) for kind in memory
        )
        encoding_size = self.memory(0).output_size if self.memories else self.body.hidden
        self.actions = ActionHead(encoding_size, spec.action_spec, generator)
        self.values = ValueHead(encoding_size, reward_signals, generator)

    @property
    def memory_size(self) -> int:
        """Length of an agent's recurrent state; 0 without one."""
        return self.memory(0).size if self.memories else 0

    def memory(self, stream: int) -> Memory:
        """The memory of the actor (0) or the critic (-1)."""
        memory = self.memories[stream]
        assert isinstance(memory, Memory)
        return memory

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
        assert not self.memories, "a network with a memory acts by act_with_memory"
        distribution: ActionDistribution = self.actions(self._encoding(0, inputs), action_mask)
        return distribution

    def value(self, inputs: Sequence[Tensor]) -> Tensor:
        """The critic alone: [B, signals]."""
        assert not self.memories, "a network with a memory takes critic_encoding"
        values: Tensor = self.values(self._encoding(self.body.streams - 1, inputs))
        return values

    def evaluate(
        self, inputs: Sequence[Tensor], action_mask: Tensor | None = None
    ) -> tuple[ActionDistribution, Tensor]:
        """Policy and critic in one pass: what `act` and `value` give."""
        assert not self.memories, "a network with a memory learns by evaluate_with_memory"
        encodings = self.body(self.encoder(inputs)).unbind(0)
        return self.actions(encodings[0], action_mask), self.values(encodings[-1])

    def act_with_memory(
        self, inputs: Sequence[Tensor], states: Tensor, length: int = 1, action_mask: Tensor | None = None
    ) -> tuple[ActionDistribution, Tensor]:
        """The policy alone, over B sequences of `length` steps each, the steps one behind another.

        Args:
            inputs: of B * length steps.
            states: [B, memory_size], before the first steps.
            length: 1 to act.
            action_mask: [B * length, sum of branch sizes] bool, True where forbidden.

        Returns:
            The distribution at every step, and the states behind the last steps [B, memory_size].
        """
        encoding, states = self.memory(0)(self._encoding(0, inputs), states, length)
        return self.actions(encoding, action_mask), states

    def critic_encoding(self, inputs: Sequence[Tensor]) -> Tensor:
        """What the critic's memory takes: [B, hidden]."""
        return self._encoding(self.body.streams - 1, inputs)

    def evaluate_with_memory(
        self,
        inputs: Sequence[Tensor],
        actor_states: Tensor,
        critic_states: Tensor,
        length: int,
        action_mask: Tensor | None = None,
    ) -> tuple[ActionDistribution, Tensor]:
        """Policy and critic over sequences; arguments as of `act_with_memory`, a state for each stream.

        A critic that shares the actor's stream shares its memory: the actor's states are those of both.
        """
        encodings = self.body(self.encoder(inputs)).unbind(0)
        of_actor, _ = self.memory(0)(encodings[0], actor_states, length)
        of_critic = of_actor
        if not self.shared_critic:
            of_critic, _ = self.memory(-1)(encodings[-1], critic_states, length)
        return self.actions(of_actor, action_mask), self.values(of_critic)

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
