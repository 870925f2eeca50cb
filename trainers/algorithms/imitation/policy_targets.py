"""The policy that learns from a demonstration, of any algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...networks.actor import Actor
from ...networks.actor_critic import ActorCritic
from ...networks.modules.distributions import ActionDistribution
from ...networks.modules.sequences import PackedSequences
from ...networks.multi_actor import MultiActor
from ..common.optim import FlatParameters


class Acted(NamedTuple):
    """The policy at B steps."""

    distribution: ActionDistribution
    states: Tensor | None
    """[sequences, memory_size] after the sequences; None without a memory."""


class ClonedPolicy:
    """A policy and the parameters that are updated with it."""

    def __init__(self, network: Actor | ActorCritic | MultiActor, parameters: FlatParameters) -> None:
        """`parameters`: the policy's, perhaps with others, which get no gradient here and do not change."""
        self.network = network
        self.parameters = parameters

    @property
    def memory_size(self) -> int:
        """Length of a recurrent state; 0 without one."""
        return self.network.memory_size

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """One [B, *shape] tensor per observation -> the network's input, normalized as when it acts."""
        return self.network.prepare(obs)

    def __call__(
        self,
        inputs: Sequence[Tensor],
        action_mask: Tensor | None,
        states: Tensor | None,
        length: int,
        random: torch.Generator,
    ) -> Acted:
        """The policy at B steps, in sequences of `length`.

        Args:
            inputs: prepared observations.
            action_mask: [B, sum of branch sizes] bool, True where forbidden; None: nothing is.
            states: [B / length, memory_size] before the sequences; None without a memory.
            length: 1 without a memory.
            random: samples the slot that learns from a sequence, where policies differ by slot.
        """
        if isinstance(self.network, MultiActor):
            return self._per_slot(self.network, inputs, action_mask, states, length, random)
        if states is None:
            return Acted(self.network.act(inputs, action_mask), None)
        return Acted(*self.network.act_with_memory(inputs, states, length, action_mask))

    def _per_slot(
        self,
        actors: MultiActor,
        inputs: Sequence[Tensor],
        action_mask: Tensor | None,
        states: Tensor | None,
        length: int,
        random: torch.Generator,
    ) -> Acted:
        """All slots learn from the demonstration, each from sequences of its own."""
        sequences = len(inputs[0]) // length
        drawn = torch.randint(actors.slot_count, (sequences,), generator=random, device="cpu")
        slots = drawn.repeat_interleave(length).to(inputs[0].device)
        packed = None if states is None else PackedSequences([length] * sequences, states)
        logits, final = actors.logits(inputs, slots, packed)
        return Acted(actors.member(0).actions.distribution(logits, action_mask), final)
