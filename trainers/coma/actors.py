"""The policies of a roster's places."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn
from torch.nn import functional

from ..distributions import ActionDistribution
from ..networks.actor import Actor
from ..networks.body import Body, DenseStack
from ..networks.settings import NetworkSettings
from .places import Runs, by_place


class Actors(nn.Module):
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
        self.place_count = places
        count = 1 if shared else places
        self.members = nn.ModuleList(Actor(spec, settings, generator) for _ in range(count))
        self._hidden = _columns_of(spec, hidden)
        for place in range(count):
            _make_up_for(self.member(place), self._hidden)
        self.hide()
        self.index: nn.Parameter | None = None
        if shared and indexed:
            # As if a one-hot vector of the place stood behind the observations.
            _, inputs, outputs = _layers(self.member(0).body)[0].weight.shape
            index = torch.empty(places, outputs)
            index.normal_(0.0, 1.0 / math.sqrt(inputs + places), generator=generator)
            self.index = nn.Parameter(index)

    def member(self, place: int) -> Actor:
        """The actor, without its index, that acts at a place."""
        actor = self.members[place if len(self.members) > 1 else 0]
        assert isinstance(actor, Actor)
        return actor

    @property
    def memory_size(self) -> int:
        """Length of an agent's recurrent state; 0 without one."""
        return self.member(0).memory_size

    @torch.no_grad()
    def hide(self) -> bool:
        """Give what is hidden no weight; whether it had any."""
        found = False
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
        runs: Runs | None = None,
    ) -> ActionDistribution:
        """The policy of B agent-steps at their `places` [B].

        Inputs and mask are as of `Actor.act`; `runs` are those of the steps, where actors have a memory.
        """
        logits, _ = self.logits(inputs, places, runs)
        head = self.member(0).actions
        no_means = logits.new_empty(len(places), 0)
        return ActionDistribution(no_means, head.log_sigma, logits, head.branches, action_mask)

    def logits(
        self, inputs: Sequence[Tensor], places: Tensor, runs: Runs | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """[B, sum of branch sizes], and the memory's states behind the runs; arguments as of `act`."""
        if len(self.members) == 1:
            return self._of_member(0, inputs, places, runs)

        def network(place: int, rows: Tensor, here: Runs | None) -> tuple[Tensor, Tensor | None]:
            some = [x.index_select(0, rows) for x in inputs]
            return self._of_member(place, some, places.index_select(0, rows), here)

        return by_place(places, self.place_count, network, runs)

    def _of_member(
        self, place: int, inputs: Sequence[Tensor], places: Tensor, runs: Runs | None
    ) -> tuple[Tensor, Tensor | None]:
        actor = self.member(place)
        offset = None if self.index is None else self.index[places]
        encoding, states = _through(actor.body, actor.encoder(inputs), offset), None
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
            _layers(actor.body)[0].bias[0] += self.index[place]
        return actor


def _through(body: Body, inputs: Tensor, offset: Tensor | None) -> Tensor:
    """One stream of a body, with something more [B, hidden] added in its first layer."""
    if offset is None:
        return body.stream(0, inputs)
    first, *others = _layers(body)
    inputs = functional.silu(first.stream(0, inputs) + offset)
    for layer in others:
        inputs = functional.silu(layer.stream(0, inputs))
    return inputs


def _columns_of(spec: BehaviorSpec, hidden: int | None) -> slice:
    """Where an observation stands in what the body reads."""
    if hidden is None:
        return slice(0, 0)
    sizes = [int(sensor.shape[0]) for sensor in spec.observation_specs]
    start = sum(sizes[:hidden])
    return slice(start, start + sizes[hidden])


@torch.no_grad()
def _make_up_for(actor: Actor, columns: slice) -> None:
    """Let fresh weights be as if there were no inputs but those that are not hidden."""
    weight = _layers(actor.body)[0].weight
    inputs, hidden = weight.shape[1], columns.stop - columns.start
    if hidden:
        weight.mul_(math.sqrt(inputs / (inputs - hidden)))


def _layers(body: Body) -> list[DenseStack]:
    return [layer for layer in body.layers if isinstance(layer, DenseStack)]
