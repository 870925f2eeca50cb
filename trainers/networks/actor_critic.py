"""The network of the on-policy trainers: a policy and its critic."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ..settings.models.networks import NetworkSettings
from .modules.body import Body, body_on
from .modules.distributions import ActionDistribution
from .modules.heads import HeadConfig, ValueHead
from .modules.memory import Memory, RecurrentModule
from .observations import ObservationEncoder, as_float, require_equal_groups


class ActorCritic(RecurrentModule):
    """An actor and a critic.

    If both have the same shape they are two streams of one body; a shared critic is a head on the actor's
    only stream; a critic with other settings or observations has a body of its own. Encoders with weights, as
    those of images and entities, exist once for each. Both read the same prepared inputs: the normalizers of
    an actor and of a critic would always have seen the same.
    With a memory, each stream has its own, and the methods whose names end in `_with_memory` must be called:
    they take sequences of steps and the states before these.
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
            TrainerError: a custom network cannot be built.
        """
        super().__init__()
        self.spec = spec
        self.shared_critic = shared_critic
        of_critic = settings if settings.critic is None else settings.critic
        specs = spec.observation_specs
        self.encoder = ObservationEncoder(specs, settings, generator)
        apart = not shared_critic and (settings.critic is not None or bool(self.encoder.unread))
        self.critic_encoder: ObservationEncoder | None = None
        """The encoder of a critic that cannot share the actor's; None if it does."""
        if not shared_critic and (apart or self.encoder.has_parameters):
            self.critic_encoder = ObservationEncoder(
                specs, of_critic, generator, normalize=False, of_critic=True
            )
            require_equal_groups(self.encoder, self.critic_encoder)
        self.body = body_on(self.encoder, 1 if shared_critic or apart else 2, settings, generator)
        self.critic_body: Body | None = None
        if apart and self.critic_encoder is not None:
            self.critic_body = body_on(self.critic_encoder, 1, of_critic, generator)
        of_values = self.body if self.critic_body is None else self.critic_body
        bodies = [(self.body, settings)] if shared_critic else [(self.body, settings), (of_values, of_critic)]
        self.memories = nn.ModuleList(
            Memory(body.hidden, asked.memory, generator) for body, asked in bodies if asked.memory is not None
        )
        sizes = [body.hidden for body, _ in bodies]
        if self.memories:
            sizes = [self.memory(0).output_size, self.memory(-1).output_size]
        self.actions = HeadConfig().build(sizes[0], spec.action_spec, settings, generator)
        self.values = ValueHead(sizes[-1], reward_signals, generator, of_critic.initialization)

    @property
    def is_dense_mlp(self) -> bool:
        """Whether actor and critic are dense layers with Swish on vectors, as streams of one body."""
        alike = self.critic_encoder is None and self.critic_body is None
        return (
            alike and self.encoder.is_vectors_only and self.body.is_dense_mlp and self.actions.is_one_product
        )

    @property
    def reward_signals(self) -> tuple[str, ...]:
        """The names of the columns of values."""
        return self.values.signals

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """The inputs of the methods below from one [B, *shape] tensor per observation (images may be uint8).

        Holds no parameters: a learner prepares all rows once per update and passes any rows of the result.
        """
        return self.encoder.prepare(obs)

    def act(self, inputs: Sequence[Tensor], action_mask: Tensor | None = None) -> ActionDistribution:
        """The policy alone. `action_mask`: [B, sum of branch sizes] bool, True where forbidden."""
        assert not self.memories, "a network with a memory acts by act_with_memory"
        distribution: ActionDistribution = self.actions(self.actor_encoding(inputs), action_mask)
        return distribution

    def value(self, inputs: Sequence[Tensor]) -> Tensor:
        """The critic alone: [B, signals]."""
        assert not self.memories, "a network with a memory takes critic_encoding"
        values: Tensor = self.values(self.critic_encoding(inputs))
        return values

    def evaluate(
        self, inputs: Sequence[Tensor], action_mask: Tensor | None = None
    ) -> tuple[ActionDistribution, Tensor]:
        """Policy and critic in one pass: the results of `act` and `value`."""
        assert not self.memories, "a network with a memory learns by evaluate_with_memory"
        of_actor, of_critic = self._encodings(inputs)
        return self.actions(of_actor, action_mask), self.values(of_critic)

    def act_with_memory(
        self, inputs: Sequence[Tensor], states: Tensor, length: int = 1, action_mask: Tensor | None = None
    ) -> tuple[ActionDistribution, Tensor]:
        """The policy alone, over B concatenated sequences of `length` steps each.

        Args:
            inputs: of B * length steps.
            states: [B, memory_size], before the first steps.
            length: 1 to act.
            action_mask: [B * length, sum of branch sizes] bool, True where forbidden.

        Returns:
            The distribution at every step, and the states after the last steps [B, memory_size].
        """
        encoding, states = self.memory(0)(self.actor_encoding(inputs), states, length)
        return self.actions(encoding, action_mask), states

    def actor_encoding(self, inputs: Sequence[Tensor]) -> Tensor:
        """The input of the actor's memory or head: [B, hidden]."""
        return self.body.stream(0, self.encoder(inputs))

    def critic_encoding(self, inputs: Sequence[Tensor]) -> Tensor:
        """The input of the critic's memory or head: [B, hidden]."""
        encoder = self.encoder if self.critic_encoder is None else self.critic_encoder
        if self.critic_body is not None:
            return self.critic_body.stream(0, encoder(inputs))
        return self.body.stream(self.body.streams - 1, encoder(inputs))

    def _encodings(self, inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The encodings of actor and critic, in one pass through the body where it is one."""
        inputs = [as_float(rows) for rows in inputs]
        if self.critic_body is not None:
            return self.actor_encoding(inputs), self.critic_encoding(inputs)
        read = self.encoder(inputs)
        if self.critic_encoder is not None:
            read = torch.stack((read, self.critic_encoder(inputs)))
        encodings = self.body(read).unbind(0)
        return encodings[0], encodings[-1]

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
        of_actor, before_critic = self._encodings(inputs)
        of_actor, _ = self.memory(0)(of_actor, actor_states, length)
        of_critic = of_actor
        if not self.shared_critic:
            of_critic, _ = self.memory(-1)(before_critic, critic_states, length)
        return self.actions(of_actor, action_mask), self.values(of_critic)

    def update_normalization(self, obs: Sequence[Tensor]) -> bool:
        """Update the normalizers by the rows of new trajectories (one [k, *shape] tensor per observation).

        With a shared critic every row counts twice: ML-Agents updates the one normalizer for the actor and
        again for the critic, and how fast it settles is part of what its settings are tuned to.

        Returns:
            False if they would overflow, and have not changed.
        """
        return self.encoder.update_normalization(obs, times=2 if self.shared_critic else 1)
