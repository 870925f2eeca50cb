"""Whom a demonstration teaches: the policy of any algorithm, as imitation goes through it."""

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
    """What a policy would do at B steps."""

    distribution: ActionDistribution
    states: Tensor | None
    """[sequences, memory_size] behind the sequences; None without a memory."""


class ClonedPolicy:
    """A policy and the parameters that are moved with it."""

    def __init__(self, network: Actor | ActorCritic | MultiActor, parameters: FlatParameters) -> None:
        """`parameters`: the policy's, perhaps with others, which get no gradient here and so do not move."""
        self.network = network
        self.parameters = parameters

    @property
    def memory_size(self) -> int:
        """Length of a recurrent state; 0 without one."""
        return self.network.memory_size

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """One [B, *shape] tensor per observation -> what it reads, normalised as when it acts."""
        return self.network.prepare(obs)

    def __call__(
        self,
        inputs: Sequence[Tensor],
        action_mask: Tensor | None,
        states: Tensor | None,
        length: int,
        random: torch.Generator,
    ) -> Acted:
        """Act at B steps, of sequences of `length`.

        Args:
            inputs: prepared observations.
            action_mask: [B, sum of branch sizes] bool, True where forbidden; None: nothing is.
            states: [B / length, memory_size] before the sequences; None without a memory.
            length: 1 without a memory.
            random: who of policies that differ by place learns from a sequence is drawn from it.
        """
        if isinstance(self.network, MultiActor):
            return self._at_places(self.network, inputs, action_mask, states, length, random)
        if states is None:
            return Acted(self.network.act(inputs, action_mask), None)
        return Acted(*self.network.act_with_memory(inputs, states, length, action_mask))

    def _at_places(
        self,
        actors: MultiActor,
        inputs: Sequence[Tensor],
        action_mask: Tensor | None,
        states: Tensor | None,
        length: int,
        random: torch.Generator,
    ) -> Acted:
        """All places learn from the demonstration, each from sequences of its own."""
        sequences = len(inputs[0]) // length
        drawn = torch.randint(actors.slot_count, (sequences,), generator=random, device="cpu")
        places = drawn.repeat_interleave(length).to(inputs[0].device)
        runs = None if states is None else PackedSequences([length] * sequences, states)
        logits, behind = actors.logits(inputs, places, runs)
        return Acted(actors.member(0).actions.distribution(logits, action_mask), behind)
