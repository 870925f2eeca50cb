"""Networks that differ from slot to slot, and packed sequences for their memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class PackedSequences(NamedTuple):
    """Sequences of consecutive steps, each of one agent, concatenated."""

    lengths: list[int]
    """Steps of each sequence, at least 1."""
    states: Tensor
    """[sequences, size], the memory's state before each sequence."""

    def starts(self) -> Tensor:
        """[sequences] the first step of each."""
        lengths = torch.tensor(self.lengths, device=self.states.device)
        return torch.cumsum(lengths, 0) - lengths


Network = Callable[[int, Tensor, "PackedSequences | None"], tuple[Tensor, "Tensor | None"]]
"""From a slot, the indices [n] of its rows and their sequences, to results [n, ...] and final states."""


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
            which = (slots_of_sequences == slot).nonzero().squeeze(1)
            some = PackedSequences([sequences.lengths[i] for i in which.tolist()], sequences.states[which])
            sequence_order.append(which)
        of_slot, final = network(slot, here, some)
        rows.append(of_slot)
        if final is not None:
            states.append(final)
    together = torch.cat(rows).index_select(0, order.argsort())
    if not states:
        return together, None
    return together, torch.cat(states).index_select(0, torch.cat(sequence_order).argsort())
