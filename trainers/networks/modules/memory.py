"""Recurrent memories: what a network carries from one decision of an agent to its next.

The module also has sequences of steps for memories, and networks that differ from slot to slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...settings.models.networks import MemorySettings, MemoryType
from .layers import xavier_uniform_

LSTM_BIAS = 1.0
"""The initial bias of the forget gate in each of the two bias vectors, as in ML-Agents: together 2, so that
the memory remembers initially."""


MAX_AGENTS_OF_CELL = 64
"""The most agents for which a single step is quicker by its cell function: half the time at a dozen, a tenth
at one."""


class Memory(nn.Module):
    """One recurrent layer between a body and its heads.

    The gates' weights are stacked as in torch: input, forget, cell, output of an LSTM
    (Hochreiter and Schmidhuber 1997); reset, update, new of a GRU (Cho et al. 2014, arXiv 1406.1078).
    The state of an agent is one vector: [h, c] of an LSTM, h of a GRU; zeros at the beginning of its episode.
    """

    def __init__(
        self, input_size: int, settings: MemorySettings, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.kind = settings.memory_type
        self.size = settings.memory_size
        """The length of the state."""
        lstm = self.kind is MemoryType.LSTM
        self.output_size = self.size // 2 if lstm else self.size
        gates, hidden = 4 if lstm else 3, self.output_size
        self.weight_ih = nn.Parameter(torch.empty(gates * hidden, input_size))
        self.weight_hh = nn.Parameter(torch.empty(gates * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.zeros(gates * hidden))
        self.bias_hh = nn.Parameter(torch.zeros(gates * hidden))
        # Each gate is initialized like a layer of its own.
        xavier_uniform_(self.weight_ih, input_size, hidden, generator)
        xavier_uniform_(self.weight_hh, hidden, hidden, generator)
        if lstm:
            for bias in (self.bias_ih, self.bias_hh):
                bias.data[hidden : 2 * hidden] = LSTM_BIAS

    def forward(self, encodings: Tensor, state: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Run through B concatenated sequences of `length` steps.

        Args:
            encodings: [B * length, input size].
            state: [B, size], before each sequence's first step.
            length: 1 to act.

        Returns:
            The outputs at each step [B * length, output_size], and the states after the last steps [B, size].
        """
        if length == 1 and len(state) <= MAX_AGENTS_OF_CELL:
            return self._step(encodings, state)
        outputs, state = self._run(encodings.view(-1, length, encodings.shape[1]), state)
        return outputs.reshape(-1, self.output_size), state

    def _step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Run one step of inputs [B, in]."""
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if self.kind is MemoryType.LSTM:
            hidden, cell = torch.lstm_cell(inputs, state.chunk(2, dim=1), *weights)
            return hidden, torch.cat((hidden, cell), dim=1)
        hidden = torch.gru_cell(inputs, state, *weights)
        return hidden, hidden

    def ragged(self, encodings: Tensor, state: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Run through concatenated sequences of these lengths (each at least 1).

        Args:
            encodings: [sum of lengths, input size].
            state: [sequences, size].
            lengths: in steps.

        Returns:
            As of `forward`: [sum of lengths, output_size], [sequences, size].
        """
        if min(lengths) == max(lengths):
            ended: tuple[Tensor, Tensor] = self(encodings, state, lengths[0])
            return ended
        padded = nn.utils.rnn.pad_sequence(list(torch.split(encodings, list(lengths))), batch_first=True)
        counts = torch.tensor(lengths, device="cpu")
        packed = nn.utils.rnn.pack_padded_sequence(padded, counts, batch_first=True, enforce_sorted=False)
        assert packed.sorted_indices is not None and packed.unsorted_indices is not None
        outputs, state = self._run(packed.data, state[packed.sorted_indices], packed.batch_sizes)
        rows, _ = nn.utils.rnn.pad_packed_sequence(packed._replace(data=outputs), batch_first=True)
        there = torch.arange(rows.shape[1], device="cpu") < counts.unsqueeze(1)
        return rows[there.to(rows.device)], state[packed.unsorted_indices]

    def _run(self, inputs: Tensor, state: Tensor, batch_sizes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The loop over [B, L, in], or over rows packed by `batch_sizes`."""
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        has_biases, layers, dropout, training, bidirectional = True, 1, 0.0, torch.is_grad_enabled(), False
        options: tuple[Any, ...] = (weights, has_biases, layers, dropout, training, bidirectional)
        # Packed rows come with batch sizes, others with whether the batch is their first axis.
        before: tuple[Any, ...] = (inputs,) if batch_sizes is None else (inputs, batch_sizes)
        after: tuple[Any, ...] = (True,) if batch_sizes is None else ()
        if self.kind is MemoryType.LSTM:
            hidden, cell = (part.contiguous().unsqueeze(0) for part in state.chunk(2, dim=1))
            lstm: Callable[..., tuple[Tensor, Tensor, Tensor]] = torch.lstm
            outputs, hidden, cell = lstm(*before, (hidden, cell), *options, *after)
            return outputs, torch.cat((hidden[0], cell[0]), dim=1)
        gru: Callable[..., tuple[Tensor, Tensor]] = torch.gru
        outputs, hidden = gru(*before, state.unsqueeze(0).contiguous(), *options, *after)
        return outputs, hidden[0]


class RecurrentModule(nn.Module):
    """A module with a memory for each of its streams, or without any."""

    memories: nn.ModuleList

    def add_memories(
        self,
        streams: int,
        input_size: int,
        settings: MemorySettings | None,
        generator: torch.Generator | None,
    ) -> int:
        """Build the memories that the settings ask for; returns the size of what the heads read."""
        if settings is None:
            self.memories = nn.ModuleList()
            return input_size
        self.memories = nn.ModuleList(Memory(input_size, settings, generator) for _ in range(streams))
        return self.memory().output_size

    def memory(self, stream: int = 0) -> Memory:
        """The memory of a stream; -1: of the last, such as the critic's."""
        memory = self.memories[stream]
        assert isinstance(memory, Memory)
        return memory

    @property
    def memory_size(self) -> int:
        """The length of an agent's recurrent state; 0 without a memory."""
        return self.memory().size if self.memories else 0


class PackedSequences(NamedTuple):
    """Sequences of consecutive steps, each of one agent, concatenated."""

    lengths: list[int]
    """The number of steps of each sequence, at least 1."""
    states: Tensor
    """[sequences, size], the memory's state before each sequence."""

    def starts(self) -> Tensor:
        """[sequences] the first step of each."""
        lengths = torch.tensor(self.lengths, device=self.states.device)
        return torch.cumsum(lengths, 0) - lengths


Network = Callable[[int, Tensor, "PackedSequences | None"], tuple[Tensor, "Tensor | None"]]
"""A function of a slot, the indices [n] of its rows and their sequences: results [n, ...], final states."""


def by_slot(
    slots: Tensor, count: int, network: Network, sequences: PackedSequences | None = None
) -> tuple[Tensor, Tensor | None]:
    """Apply to each row the network of its slot.

    Args:
        slots: [B] int64, below `count`. A sequence has the slot of its first step.
        count: the number of slots.
        network: called for every slot that has rows.
        sequences: the rows' sequences, where the networks have memories.

    Returns:
        [B, ...] in the order of `slots`, and the states after the sequences, in their order.
    """
    if sequences is not None:
        slots_of_sequences = slots[sequences.starts()]
        lengths = torch.tensor(sequences.lengths, device=slots.device)
        slots = slots_of_sequences.repeat_interleave(lengths)
    order = slots.argsort(stable=True)
    counts = torch.bincount(slots, minlength=count).tolist()
    rows, states, sequence_order = [], [], []
    for slot, here in enumerate(torch.split(order, counts)):
        if not len(here):
            continue
        some = None
        if sequences is not None:
            indices = (slots_of_sequences == slot).nonzero().squeeze(1)
            some = PackedSequences(
                [sequences.lengths[i] for i in indices.tolist()], sequences.states[indices]
            )
            sequence_order.append(indices)
        results, final = network(slot, here, some)
        rows.append(results)
        if final is not None:
            states.append(final)
    together = torch.cat(rows).index_select(0, order.argsort())
    if not states:
        return together, None
    return together, torch.cat(states).index_select(0, torch.cat(sequence_order).argsort())
