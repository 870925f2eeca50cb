"""The networks of COMA, above all its centralized critic: values of an agent's actions, given the others'.

    Q_a(s, o_a, u_-a) -> one number per own action

(Foerster et al. 2018, "Counterfactual Multi-Agent Policy Gradients", arXiv 1705.08926.) All counterfactuals
of an agent come from one pass. With several branches each has a head, side by side in the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from ...networks.modules.body import Body, DenseStack
from ...networks.modules.distributions import ExploringDistribution, explore
from ...networks.modules.layers import xavier_uniform_
from ...networks.modules.memory import PackedSequences, RecurrentModule, by_slot
from ...networks.modules.passes import encode
from ...networks.multi_actor import MultiActor
from ...networks.observations import ObservationEncoder
from ...settings.models.networks import NetworkSettings


class Table(NamedTuple):
    """R rows, each an agent at one time, and a last row of zeros for absent members."""

    features: Tensor
    """The encoded observations [R + 1, e]."""
    actions: Tensor
    """The actions [R + 1, A], one-hot branch by branch."""
    states: Tensor | None
    """[R + 1, s], the encoded state of each row; None: the observations of all members are the state."""


class Steps(NamedTuple):
    """B agent-steps as indices of a table's rows."""

    own: Tensor
    """[B] the row of each step's own agent."""
    roster: Tensor
    """[B, slots] all members' rows, the own one in its slot; R, the row of zeros, in empty slots."""
    slots: Tensor
    """[B] the slot of the own row."""

    def take(self, steps: Tensor) -> Steps:
        """Select some of the steps by their indices [n]."""
        return Steps(*(column.index_select(0, steps) for column in self))


class CentralCritic(RecurrentModule):
    """The centralized critic: one network, or one for each slot."""

    offset: Tensor
    scale: Tensor

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: NetworkSettings,
        slots: int,
        signals: Sequence[str],
        state: int | None = None,
        streams: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        """Build the network with fresh weights, drawn from `generator` or torch's own.

        Args:
            spec: discrete actions alone.
            settings: size and normalization.
            slots: of the roster.
            signals: reward signals, each with values of its own.
            state: index of the observation that is the state.
            streams: 1, or `slots` for one network per slot.

        Errors are those of `ObservationEncoder`.
        """
        super().__init__()
        self.slot_count, self.streams = slots, streams
        self.branches = tuple(int(size) for size in spec.action_spec.discrete_branches)
        self.action_size = sum(self.branches)
        self.signals = tuple(signals)
        self.state = state
        specs = spec.observation_specs
        hidden = [] if state is None else [state]
        seen = [i for i in range(len(specs)) if i != state]
        self.encoder = ObservationEncoder(specs, settings, generator, leave_out=hidden, of_critic=True)
        self.state_encoder = None
        if state is not None:
            self.state_encoder = ObservationEncoder(
                specs, settings, generator, leave_out=seen, of_critic=True
            )
        of_state = slots * self.encoder.size if self.state_encoder is None else self.state_encoder.size
        # State, presence, own observation, others' actions, own slot.
        size = of_state + slots + self.encoder.size + slots * self.action_size + slots
        self.body = Body(streams, size, settings, generator)
        encoding_size = self.add_memories(streams, self.body.hidden, settings.memory, generator)
        outputs = len(self.signals) * self.action_size
        self.head = DenseStack(streams, encoding_size, outputs, generator)
        xavier_uniform_(self.head.weight, encoding_size, 1, generator)
        self.register_buffer("offset", torch.zeros(len(self.signals)))
        self.register_buffer("scale", torch.ones(len(self.signals)))

    def prepare(self, obs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor] | None]:
        """Turn one [R, *shape] tensor per observation into what `table` takes, without any parameters."""
        states = None if self.state_encoder is None else self.state_encoder.prepare(obs)
        return self.encoder.prepare(obs), states

    def update_normalization(self, obs: Sequence[Tensor]) -> bool:
        """Update the normalizers by new rows; False, with nothing changed, if they would overflow."""
        fine = self.encoder.update_normalization(obs)
        return fine if self.state_encoder is None else self.state_encoder.update_normalization(obs) and fine

    def table(self, inputs: Sequence[Tensor], states: Sequence[Tensor] | None, discrete: Tensor) -> Table:
        """Prepared observations and actions [R, branches] as a table; each row is encoded once."""
        features = encode(self.encoder, inputs)
        hot = [nn.functional.one_hot(discrete[:, k], size) for k, size in enumerate(self.branches)]
        of_state = None
        if self.state_encoder is not None and states is not None:
            of_state = _with_zeros(encode(self.state_encoder, states))
        return Table(_with_zeros(features), _with_zeros(torch.cat(hot, 1).to(features.dtype)), of_state)

    def forward(self, table: Table, steps: Steps, sequences: PackedSequences | None = None) -> Tensor:
        """[B, signals, sum of branch sizes] values of the own actions, given the others' actions.

        `sequences`: of the steps, where the critic has a memory.
        """
        return self.forward_with_states(table, steps, sequences)[0]

    def forward_with_states(
        self, table: Table, steps: Steps, sequences: PackedSequences | None
    ) -> tuple[Tensor, Tensor | None]:
        """Like `forward`, but with the memory's states after the sequences [sequences, memory_size]."""
        inputs = self.inputs(table, steps)
        if self.streams == 1:
            values, states = self._stream(0, inputs, sequences)
        else:

            def network(
                slot: int, rows: Tensor, here: PackedSequences | None
            ) -> tuple[Tensor, Tensor | None]:
                return self._stream(slot, inputs.index_select(0, rows), here)

            values, states = by_slot(steps.slots, self.slot_count, network, sequences)
        values = values.view(-1, len(self.signals), self.action_size)
        return values * self.scale[:, None] + self.offset[:, None], states

    def inputs(self, table: Table, steps: Steps) -> Tensor:
        """[B, size] the body's input, of which the own action is no part."""
        absent = len(table.features) - 1
        present = (steps.roster != absent).to(table.features.dtype)
        others = steps.roster.scatter(1, steps.slots[:, None], absent)
        if table.states is None:
            state = table.features[steps.roster].flatten(1)
        else:
            state = table.states[steps.own]
        index = nn.functional.one_hot(steps.slots, self.slot_count).to(present.dtype)
        return torch.cat(
            (state, present, table.features[steps.own], table.actions[others].flatten(1), index), 1
        )

    def _stream(
        self, stream: int, inputs: Tensor, sequences: PackedSequences | None
    ) -> tuple[Tensor, Tensor | None]:
        encoding, states = self.body.stream(stream, inputs), None
        if self.memories:
            assert sequences is not None, "a critic with a memory needs packed sequences"
            encoding, states = self.memory(stream).ragged(encoding, sequences.states, sequences.lengths)
        return self.head.stream(stream, encoding), states

    @torch.no_grad()
    def rescale(self, offset: Tensor, scale: Tensor) -> None:
        """Learn in other units from now on; the outputs stay the same.

        Source: van Hasselt et al. 2016, "Learning values across many orders of magnitude", arXiv 1602.07714.
        """
        shape = (len(self.signals), self.action_size)
        ratio = (self.scale / scale)[:, None].expand(shape).reshape(-1)
        shift = ((self.offset - offset) / scale)[:, None].expand(shape).reshape(-1)
        self.head.weight.mul_(ratio)
        self.head.bias.mul_(ratio).add_(shift)
        self.offset.copy_(offset)
        self.scale.copy_(scale)


def _with_zeros(rows: Tensor) -> Tensor:
    return torch.cat((rows, rows.new_zeros(1, rows.shape[1])))


@dataclass(frozen=True)
class COMANetworks:
    """The actors, the critic, and the target critic."""

    actors: MultiActor
    critic: CentralCritic
    target: CentralCritic
    branches: tuple[int, ...]
    device: torch.device

    def policy(
        self,
        inputs: Sequence[Tensor],
        steps: Steps,
        action_mask: Tensor | None,
        exploration: Tensor | float,
        sequences: PackedSequences | None = None,
    ) -> ExploringDistribution:
        """The policy pi' of B steps.

        Args:
            inputs: of a table's rows, as `MultiActor.prepare` gives them.
            steps: which rows.
            action_mask: [B, sum of branch sizes].
            exploration: a scalar, or [B].
            sequences: of the steps, where actors have a memory.
        """
        own_inputs = [x.index_select(0, steps.own) for x in inputs]
        return explore(self.actors.act(own_inputs, steps.slots, action_mask, sequences), exploration)

    def tensor(self, column: NDArray[Any]) -> Tensor:
        """A column as a tensor on the learner's device."""
        return torch.from_numpy(np.ascontiguousarray(column)).to(self.device)

    def discrete(self, actions: NDArray[np.int32]) -> Tensor:
        """Discrete actions as a tensor [n, branches] int64 on the learner's device."""
        return self.tensor(actions.astype(np.int64))

    def mask(self, action_mask: NDArray[np.bool_] | None) -> Tensor | None:
        """An action mask on the learner's device; None if nothing is forbidden."""
        return None if action_mask is None or not action_mask.any() else self.tensor(action_mask)

    def table_of(self, network: CentralCritic, obs: Sequence[Tensor], actions: Tensor) -> Table:
        """Rows as inputs of the critic or the target, both normalized by the critic's normalizers."""
        return network.table(*self.critic.prepare(obs), actions)


def flat(policy: ExploringDistribution) -> Tensor:
    """The probabilities of pi', branch by branch: [B, sum of branch sizes]."""
    return policy.branches.flat(policy.probabilities)
