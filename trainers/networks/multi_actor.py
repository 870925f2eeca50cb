"""The actors of a roster's slots, and the models that are exported of a network."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn

from ..settings.models.networks import ConditioningType, NetworkSettings
from .actor import Actor
from .actor_critic import ActorCritic
from .modules.body import Body, DenseStack
from .modules.distributions import ActionDistribution
from .modules.memory import PackedSequences, by_slot
from .modules.passes import encode
from .observation_kinds import UnsupportedObservationError
from .observations import ObservationEncoder, goal_observations, only_vectors


class MultiActor(nn.Module):
    """One actor for all slots; or one that reads the slot; or one for each slot."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        slots: int,
        *,
        shared: bool = True,
        indexed: bool = False,
        hidden: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        """Build the networks with fresh weights, drawn from `generator` or torch's own.

        Args:
            spec: discrete actions alone.
            settings: size, normalization and memory.
            slots: their number.
            shared: one actor for all.
            indexed: the one actor reads the slot.
            hidden: index of an observation that actors do not read.
            generator: of the first weights.

        Errors are those of `ObservationEncoder`.
        """
        super().__init__()
        self.arguments = {"places": slots, "shared": shared, "indexed": indexed, "hidden": hidden}
        """What a checkpoint needs to build the networks; its keys stay."""
        self.slot_count = slots
        count = 1 if shared else slots
        in_weights = _can_hide_in_weights(spec, settings)
        unseen = () if in_weights or hidden is None else (hidden,)
        self.members = nn.ModuleList(Actor(spec, settings, generator, leave_out=unseen) for _ in range(count))
        # Hidden vectors have weights, which are zero: so policies can be transferred to tasks that show them.
        self._hidden = slice(0, 0)
        if in_weights and hidden is not None:
            self._hidden = self.member(0).encoder.columns[hidden]
        for slot in range(count):
            _rescale_for_hidden(self.member(slot), self._hidden)
        self.hide()
        self.index: nn.Parameter | None = None
        if shared and indexed:
            # As if a one-hot vector of the slot followed the observations.
            actor = self.member(0)
            if actor.encoder.whole is not None:
                raise UnsupportedObservationError(
                    "hyperparameters.index_on_actor adds the slot to the first hidden layer, and "
                    "network_settings.body stands in its stead; set index_on_actor to false."
                )
            inputs = actor.encoder.size
            index = torch.empty(slots, actor.body.first_bias().shape[-1])
            index.normal_(0.0, 1.0 / math.sqrt(inputs + slots), generator=generator)
            self.index = nn.Parameter(index)

    def member(self, slot: int) -> Actor:
        """The actor, without its index, that acts at a slot."""
        actor = self.members[slot if len(self.members) > 1 else 0]
        assert isinstance(actor, Actor)
        return actor

    @property
    def encoder(self) -> ObservationEncoder:
        """The encoder of the first actor; all actors read and normalize observations alike."""
        return self.member(0).encoder

    @property
    def memory_size(self) -> int:
        """The length of an agent's recurrent state; 0 without a memory."""
        return self.member(0).memory_size

    @torch.no_grad()
    def hide(self) -> bool:
        """Set the weights of the hidden observation to zero; return whether any was not."""
        found = False
        if self._hidden.start == self._hidden.stop:
            return found
        for slot in range(len(self.members)):
            weight = _layers(self.member(slot).body)[0].weight[:, self._hidden]
            found = found or bool(weight.count_nonzero())
            weight.zero_()
        return found

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """The input of `act`; the hidden observation becomes zeros, so that its zero weights stay zero."""
        inputs = self.member(0).prepare(obs)
        if self._hidden.start == self._hidden.stop:
            return inputs
        (vector,) = inputs
        vector = vector.clone()
        vector[:, self._hidden] = 0.0
        return [vector]

    @property
    def differ(self) -> bool:
        """Whether the policy depends on the slot."""
        return len(self.members) > 1 or self.index is not None

    def update_normalization(self, obs: Sequence[Tensor]) -> bool:
        """Update the normalizers by rows of any slots; False if they would overflow."""
        fine = [self.member(slot).update_normalization(obs) for slot in range(len(self.members))]
        return all(fine)

    def act(
        self,
        inputs: Sequence[Tensor],
        slots: Tensor,
        action_mask: Tensor | None = None,
        sequences: PackedSequences | None = None,
    ) -> ActionDistribution:
        """The policy of B agent-steps at their `slots` [B].

        Inputs and mask are as of `Actor.act`; `sequences` are those of the steps, where actors have a memory.
        """
        logits, _ = self.logits(inputs, slots, sequences)
        head = self.member(0).actions
        no_means = logits.new_empty(len(slots), 0)
        return ActionDistribution(no_means, head.log_sigma, logits, head.branches, action_mask)

    def logits(
        self, inputs: Sequence[Tensor], slots: Tensor, sequences: PackedSequences | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits [B, sum of branch sizes] and the states after the sequences; arguments as of `act`."""
        if len(self.members) == 1:
            return self._of_member(0, inputs, slots, sequences)

        def network(slot: int, rows: Tensor, here: PackedSequences | None) -> tuple[Tensor, Tensor | None]:
            some = [x.index_select(0, rows) for x in inputs]
            return self._of_member(slot, some, slots.index_select(0, rows), here)

        return by_slot(slots, self.slot_count, network, sequences)

    def _of_member(
        self, slot: int, inputs: Sequence[Tensor], slots: Tensor, sequences: PackedSequences | None
    ) -> tuple[Tensor, Tensor | None]:
        actor = self.member(slot)
        offset = None if self.index is None else self.index[slots]
        encoding, states = actor.body.stream(0, encode(actor.encoder, inputs), offset), None
        if actor.memories:
            assert sequences is not None, "an actor with a memory needs packed sequences"
            encoding, states = actor.memory(0).ragged(encoding, sequences.states, sequences.lengths)
        logits: Tensor = actor.actions(encoding).logits
        return logits, states

    @torch.no_grad()
    def standalone(self, slot: int) -> Actor:
        """A copy of a slot's actor with the slot built in: what acts and is exported."""
        actor = copy.deepcopy(self.member(slot)).requires_grad_(False)
        if self.index is not None:
            actor.body.first_bias()[0] += self.index[slot]
        return actor


def _can_hide_in_weights(spec: BehaviorSpec, settings: NetworkSettings) -> bool:
    """Whether one dense layer with weights of its own reads all observations, vectors."""
    if settings.critic_only_observations or not only_vectors(spec.observation_specs, settings):
        return False
    goals = settings.goal_conditioning_type is ConditioningType.HYPER and goal_observations(
        spec.observation_specs
    )
    return not goals or len(settings.layer_sizes) > 1


@torch.no_grad()
def _rescale_for_hidden(actor: Actor, columns: slice) -> None:
    """Scale new weights as if the hidden inputs did not exist."""
    hidden = columns.stop - columns.start
    if hidden:
        weight = _layers(actor.body)[0].weight
        inputs = weight.shape[1]
        weight.mul_(math.sqrt(inputs / (inputs - hidden)))


def _layers(body: Body) -> list[DenseStack]:
    return [layer for layer in body.layers if isinstance(layer, DenseStack)]


Network = Actor | ActorCritic | MultiActor


def exported_networks(network: Network) -> dict[str, Actor | ActorCritic]:
    """The networks that are exported, by the suffix of the file's name.

    An engine feeds a model observations alone. So where actors differ from slot to slot each becomes a model
    of its own, with its slot built in: -place0, -place1, ...
    """
    if not isinstance(network, MultiActor):
        return {"": network}
    return {suffix: network.standalone(slot) for slot, suffix in enumerate(export_suffixes(network))}


def export_suffixes(network: Network) -> tuple[str, ...]:
    """The keys of `exported_networks`."""
    if not isinstance(network, MultiActor):
        return ("",)
    return tuple(f"-place{slot}" for slot in range(network.slot_count))
