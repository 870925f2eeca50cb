"""The policies of a roster's places.

The brains that a network leaves behind.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ..settings.models.networks import NetworkSettings
from .actor import Actor
from .actor_critic import ActorCritic
from .modules.body import Body, DenseStack
from .modules.chunking import encode
from .modules.distributions import ActionDistribution
from .modules.sequences import PackedSequences, by_slot
from .observation_kinds import UnsupportedObservationError
from .observations import ObservationEncoder, only_vectors


class MultiActor(nn.Module):
    """One actor for all places; or one that is told the place; or one for each place."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        places: int,
        *,
        shared: bool = True,
        indexed: bool = False,
        hidden: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Build the networks with fresh weights, drawn from `generator` or torch's own.

        Args:
            spec: discrete actions alone.
            settings: size, normalisation and memory.
            places: how many.
            shared: one actor for all.
            indexed: the one actor is told the place.
            hidden: position of an observation that actors do not see.
            generator: of the first weights.

        Raises:
            UnsupportedObservationError: an observation cannot be encoded; the message names it.
        """
        super().__init__()
        self.arguments = {"places": places, "shared": shared, "indexed": indexed, "hidden": hidden}
        """What a checkpoint has to say for the networks to be built again."""
        self.slot_count = places
        count = 1 if shared else places
        vectors = only_vectors(spec.observation_specs, settings)
        unseen = () if vectors or hidden is None else (hidden,)
        self.members = nn.ModuleList(Actor(spec, settings, generator, leave_out=unseen) for _ in range(count))
        # Among vectors, what is hidden has weights, which are zero: so policies go from one task to another.
        self._hidden = slice(0, 0)
        if vectors and hidden is not None:
            self._hidden = self.member(0).encoder.columns[hidden]
        for place in range(count):
            _make_up_for(self.member(place), self._hidden)
        self.hide()
        self.index: nn.Parameter | None = None
        if shared and indexed:
            # As if a one-hot vector of the place stood behind the observations.
            actor = self.member(0)
            if actor.encoder.whole is not None:
                raise UnsupportedObservationError(
                    "hyperparameters.index_on_actor tells the place to the first hidden layer, and "
                    "network_settings.body stands in its stead; set index_on_actor to false."
                )
            inputs = actor.encoder.size
            index = torch.empty(places, actor.body.hidden)
            index.normal_(0.0, 1.0 / math.sqrt(inputs + places), generator=generator)
            self.index = nn.Parameter(index)

    def member(self, place: int) -> Actor:
        """The actor, without its index, that acts at a place."""
        actor = self.members[place if len(self.members) > 1 else 0]
        assert isinstance(actor, Actor)
        return actor

    @property
    def encoder(self) -> ObservationEncoder:
        """That of the first actor; all read and normalize observations alike."""
        return self.member(0).encoder

    @property
    def memory_size(self) -> int:
        """Length of an agent's recurrent state; 0 without one."""
        return self.member(0).memory_size

    @torch.no_grad()
    def hide(self) -> bool:
        """Give what is hidden no weight; whether it had any."""
        found = False
        if self._hidden.start == self._hidden.stop:
            return found
        for place in range(len(self.members)):
            weight = _layers(self.member(place).body)[0].weight[:, self._hidden]
            found = found or bool(weight.count_nonzero())
            weight.zero_()
        return found

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """See `Actor.prepare`; what is hidden becomes zeros, so that its weights, which are zero, stay it."""
        inputs = self.member(0).prepare(obs)
        if self._hidden.start == self._hidden.stop:
            return inputs
        (vector,) = inputs
        vector = vector.clone()
        vector[:, self._hidden] = 0.0
        return [vector]

    @property
    def differ(self) -> bool:
        """Whether agents act by their place."""
        return len(self.members) > 1 or self.index is not None

    def update_normalization(self, obs: Sequence[Tensor]) -> bool:
        """Let the normalisers see new rows, of whatever place. False where numbers are too large."""
        fine = [self.member(place).update_normalization(obs) for place in range(len(self.members))]
        return all(fine)

    def act(
        self,
        inputs: Sequence[Tensor],
        places: Tensor,
        action_mask: Tensor | None = None,
        runs: PackedSequences | None = None,
    ) -> ActionDistribution:
        """The policy of B agent-steps at their `places` [B].

        Inputs and mask are as of `Actor.act`; `runs` are those of the steps, where actors have a memory.
        """
        logits, _ = self.logits(inputs, places, runs)
        head = self.member(0).actions
        no_means = logits.new_empty(len(places), 0)
        return ActionDistribution(no_means, head.log_sigma, logits, head.branches, action_mask)

    def logits(
        self, inputs: Sequence[Tensor], places: Tensor, runs: PackedSequences | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """[B, sum of branch sizes], and the memory's states behind the runs; arguments as of `act`."""
        if len(self.members) == 1:
            return self._of_member(0, inputs, places, runs)

        def network(place: int, rows: Tensor, here: PackedSequences | None) -> tuple[Tensor, Tensor | None]:
            some = [x.index_select(0, rows) for x in inputs]
            return self._of_member(place, some, places.index_select(0, rows), here)

        return by_slot(places, self.slot_count, network, runs)

    def _of_member(
        self, place: int, inputs: Sequence[Tensor], places: Tensor, runs: PackedSequences | None
    ) -> tuple[Tensor, Tensor | None]:
        actor = self.member(place)
        offset = None if self.index is None else self.index[places]
        encoding, states = actor.body.stream(0, encode(actor.encoder, inputs), offset), None
        if actor.memories:
            assert runs is not None, "an actor with a memory goes through runs of steps"
            encoding, states = actor.memory(0).ragged(encoding, runs.states, runs.lengths)
        logits: Tensor = actor.actions(encoding).logits
        return logits, states

    @torch.no_grad()
    def alone(self, place: int) -> Actor:
        """A copy of the actor at a place, which knows its place by itself: what acts and is exported."""
        actor = copy.deepcopy(self.member(place)).requires_grad_(False)
        if self.index is not None:
            actor.body.first_bias()[0] += self.index[place]
        return actor


@torch.no_grad()
def _make_up_for(actor: Actor, columns: slice) -> None:
    """Let fresh weights be as if there were no inputs but those that are not hidden."""
    hidden = columns.stop - columns.start
    if hidden:
        weight = _layers(actor.body)[0].weight
        inputs = weight.shape[1]
        weight.mul_(math.sqrt(inputs / (inputs - hidden)))


def _layers(body: Body) -> list[DenseStack]:
    return [layer for layer in body.layers if isinstance(layer, DenseStack)]


Network = Actor | ActorCritic | MultiActor


def brains_of(network: Network) -> dict[str, Actor | ActorCritic]:
    """What is exported of a network, by what is added to the file's name.

    An engine feeds a brain with observations alone. So of actors that differ from place to place each becomes
    a brain, which knows its place by itself: -place0, -place1, ...
    """
    if not isinstance(network, MultiActor):
        return {"": network}
    return {suffix: network.alone(place) for place, suffix in enumerate(suffixes_of(network))}


def suffixes_of(network: Network) -> tuple[str, ...]:
    """The keys of `brains_of`."""
    if not isinstance(network, MultiActor):
        return ("",)
    return tuple(f"-place{place}" for place in range(network.slot_count))
