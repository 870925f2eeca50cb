"""The network of a policy without a critic, for algorithms whose critic differs in kind."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ..settings.models.networks import NetworkSettings
from .actor_critic import ActorCritic
from .modules.body import body_on
from .modules.distributions import ActionDistribution
from .modules.heads import HeadConfig
from .modules.memory import RecurrentModule
from .observations import ObservationEncoder


class Actor(RecurrentModule):
    """The network that maps observations to the distribution of an agent's actions."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        generator: torch.Generator | None = None,
        *,
        squashed: bool = False,
        sigma_of_state: bool = False,
        head: HeadConfig | None = None,
        leave_out: Sequence[int] = (),
    ) -> None:
        """Build the network with fresh weights, drawn from `generator` or torch's own.

        Args:
            spec: of the behavior.
            settings: of the network.
            generator: of the initial weights.
            squashed: continuous actions go through tanh, as SAC's.
            sigma_of_state: the deviations of continuous actions depend on the state, as SAC's.
            head: another head, instead of the two arguments before.
            leave_out: indices of observations that are neither prepared nor read.

        Errors are those of `ObservationEncoder`.
        """
        super().__init__()
        self.spec = spec
        self.head = head or HeadConfig(squashed=squashed, sigma_of_state=sigma_of_state)
        """The kind of head, saved in checkpoints so that the network can be built from them."""
        self.encoder = ObservationEncoder(spec.observation_specs, settings, generator, leave_out=leave_out)
        self.body = body_on(self.encoder, 1, settings, generator)
        encoding_size = self.add_memories(1, self.body.hidden, settings.memory, generator)
        self.actions = self.head.build(encoding_size, spec.action_spec, settings, generator)

    @property
    def is_dense_mlp(self) -> bool:
        """Whether the network is dense layers with Swish on vectors, without a memory or with one."""
        return self.encoder.is_vectors_only and self.body.is_dense_mlp and self.actions.is_one_product

    def actor_encoding(self, inputs: Sequence[Tensor]) -> Tensor:
        """The input of the memory or the head: [B, hidden]."""
        return self.body.stream(0, self.encoder(inputs))

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """The input of `act` from one [B, *shape] tensor per observation; see `ActorCritic.prepare`."""
        return self.encoder.prepare(obs)

    def act(self, inputs: Sequence[Tensor], action_mask: Tensor | None = None) -> ActionDistribution:
        """The actions' distribution; `action_mask`: [B, sum of branch sizes] bool, True where forbidden."""
        assert not self.memories, "a network with a memory acts by act_with_memory"
        distribution: ActionDistribution = self.actions(self.actor_encoding(inputs), action_mask)
        return distribution

    def act_with_memory(
        self, inputs: Sequence[Tensor], states: Tensor, length: int = 1, action_mask: Tensor | None = None
    ) -> tuple[ActionDistribution, Tensor]:
        """The distribution over sequences, and the states after them; see `ActorCritic.act_with_memory`."""
        encoding, states = self.memory(0)(self.actor_encoding(inputs), states, length)
        return self.actions(encoding, action_mask), states

    def update_normalization(self, obs: Sequence[Tensor]) -> bool:
        """Update the normalizers by new rows; False, with nothing changed, if they would overflow."""
        return self.encoder.update_normalization(obs)


ActingNetwork = Actor | ActorCritic
"""A network that acts and can be exported."""
