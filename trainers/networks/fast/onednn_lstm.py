"""LSTMs over long sequences by oneDNN, forwards and backwards: what `Memory` computes, where `is_faster`.

A step of `packed_memory` is a dozen calls, whatever its size; oneDNN runs through whole sequences in one, but
arranges the weights anew each time, and pads sequences to the longest. Torch's own `lstm` on a CPU uses the
same two operators, for inputs that are not packed. Sequences of different lengths come as torch packs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Packing(NamedTuple):
    """The order of B sequences and of their P rows: all first steps, then all second ones, and so on."""

    order: Ints
    """[B] the sequences, the longest first."""
    rows: Ints
    """[P] the rows in this order."""
    counts: list[int]
    """How many sequences have a first step, a second one, ..."""

    @classmethod
    def of(cls, first: Ints, lengths: Ints) -> Packing:
        """The packing of sequences that start in rows `first` [B] and have `lengths` [B], at least 1."""
        order = np.argsort(-lengths, kind="stable")
        steps = np.arange(lengths[order[0]])[:, None]
        present = steps < lengths[order]
        return cls(order, (first[order] + steps)[present], present.sum(1).tolist())

    @property
    def before(self) -> Ints:
        """[P] the index of the state before each row, among B first states, then those after each row."""
        starts = np.cumsum([0, self.counts[0], *self.counts[:-1]])
        return np.concatenate([np.arange(at, at + n) for at, n in zip(starts, self.counts)])

    @property
    def padded(self) -> Ints:
        """[P] the index of each row among those of B sequences of equal length, step by step."""
        return np.concatenate([np.arange(n) + t * self.counts[0] for t, n in enumerate(self.counts)])


class PackedPass(ABC):
    """A pass through P packed rows, kept for the backward pass."""

    out: Tensor
    """[S, P, H] the outputs."""

    @abstractmethod
    def backward(self, d_out: Tensor) -> Tensor:
        """Write the gradients of all parameters, from that of `out` [S, P, H], which is used up.

        Returns:
            The gradient of the inputs, [S, P, in].
        """


MIN_STEPS = 24
"""The number of steps of the longest sequence from which on oneDNN is used.

On a processor that was busy otherwise, the passes through two LSTMs of 64 units took with it 55 % of the time
for two sequences of 64 steps, 65 % for four of 32, 80 % for eight of 16, and 130 % for eight of which one had
16 steps and most few.
"""
MAX_PADDING = 125_000
"""The number of multiplications, per step, that padding may add for oneDNN to be used.

What oneDNN saves is by the step, since it has no calls in between, and what padding costs is by the row. With
two LSTMs of 64 units on one thread of an Intel Xeon, it took 45 to 80 % of the time for 2 to 32 whole
sequences of 64 steps, and 70, 80 and 120 % for 2, 8 and 32 that were padded by two thirds; with 128 units
65 to 85 %, and 120, 115 and 160 %.
"""
STEPS_MULTIPLE = 8
"""The number to whose multiples steps are padded: oneDNN builds and keeps a kernel for each shape."""
LARGEST_ERROR = 1e-5
"""The largest relative error of outputs and gradients against float64; 3e-7 is usual."""
_LSTM = 2
"""What the operators call this kind of cell."""


def is_faster(packing: Packing, multiplications: int) -> bool:
    """Whether oneDNN is quicker than a loop over the steps of these sequences.

    Args:
        packing: of their rows.
        multiplications: of one row, that is the number of an LSTM's weights.
    """
    steps, missing = len(packing.counts), len(packing.counts) * packing.counts[0] - len(packing.rows)
    return steps >= MIN_STEPS and missing * multiplications <= steps * MAX_PADDING and is_exact()


class LSTMWeights(NamedTuple):
    """The weights of one LSTM with H units, stacked as torch's: input, forget, cell, output."""

    weight_ih: Tensor
    """The weights of the inputs, [4 H, in]."""
    weight_hh: Tensor
    """The weights of the outputs before, [4 H, H]."""
    bias_ih: Tensor
    """The biases of the inputs' sums, [4 H]."""
    bias_hh: Tensor
    """The biases of the sums of the outputs before, [4 H]."""


class SequencePass:
    """A pass of one LSTM through B sequences of T steps, kept for the backward pass."""

    def __init__(self, weights: LSTMWeights, inputs: Tensor, hidden: Tensor, cell: Tensor) -> None:
        """Run forwards.

        Args:
            weights: of the LSTM.
            inputs: [T, B, in].
            hidden: [B, H], before the first steps.
            cell: [B, H], likewise.
        """
        self.before = (inputs, *weights, hidden, cell)
        self.units = hidden.shape[-1]
        operator: Any = torch.ops.aten.mkldnn_rnn_layer.default
        # One layer with biases, one direction, steps first.
        shape = (_LSTM, self.units, 1, True, False, False)
        with torch.enable_grad():  # else nothing is kept for the backward pass, although nothing is recorded
            self.after: tuple[Tensor, ...] = operator(*self.before, False, [], *shape, True)

    @property
    def out(self) -> Tensor:
        """The outputs [T, B, H]."""
        return self.after[0]

    def backward(self, d_out: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """The gradient of the inputs [T, B, in], and those of the weights, from that of `out`."""
        operator: Any = torch.ops.aten.mkldnn_rnn_layer_backward.default
        *outputs, workspace = self.after
        shape = (_LSTM, self.units, 1, True, True, False)  # the second True: for training
        d = operator(*self.before, *outputs, d_out, None, None, False, *shape, [], False, workspace)
        return d[0], d[1:5]


class LongPass(PackedPass):
    """A pass of S LSTMs through P packed rows."""

    def __init__(
        self,
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],
        inputs: Tensor,
        states: Tensor,
        packing: Packing,
    ) -> None:
        """Run forwards.

        Args:
            weights: the four of `LSTMWeights`, [S, ...] each.
            gradients: where theirs go.
            inputs: [S, P, in].
            states: [S, B, 2 H], h and c before the sequences' first steps.
            packing: of the rows.
        """
        counts, (hidden, cell) = packing.counts, states.chunk(2, 2)
        steps = -(-len(counts) // STEPS_MULTIPLE) * STEPS_MULTIPLE
        self.gradients, self.shape = gradients, (steps, counts[0])
        is_whole = steps == len(counts) and counts[-1] == counts[0]
        self.padded_rows = None if is_whole else torch.from_numpy(packing.padded)
        streams = zip(self._padded(inputs), hidden, cell, *weights)
        self.passes = [
            SequencePass(LSTMWeights(*ws), x, h.contiguous(), c.contiguous()) for x, h, c, *ws in streams
        ]
        self.out = self._packed([sequences.out for sequences in self.passes])

    def backward(self, d_out: Tensor) -> Tensor:
        """Write the gradients of all parameters; return that of the inputs, [S, P, in]."""
        d_inputs = []
        with torch.no_grad():
            for stream, (sequences, d) in enumerate(zip(self.passes, self._padded(d_out))):
                d_input, d_weights = sequences.backward(d)
                d_inputs.append(d_input)
                for gradient, d_weight in zip(self.gradients, d_weights):
                    gradient[stream].copy_(d_weight)
            return self._packed(d_inputs)

    def _padded(self, rows: Tensor) -> Tensor:
        """The packed rows [S, P, n] as padded sequences [S, T, B, n]; padding is zeros."""
        if self.padded_rows is not None:
            padded = rows.new_zeros(len(rows), self.shape[0] * self.shape[1], rows.shape[2])
            padded[:, self.padded_rows] = rows
            rows = padded
        return rows.view(len(rows), *self.shape, -1)

    def _packed(self, padded: Sequence[Tensor]) -> Tensor:
        """The padded sequences [T, B, n] of each stream as packed rows [S, P, n]."""
        rows = torch.stack([sequences.flatten(0, 1) for sequences in padded])
        return rows if self.padded_rows is None else rows[:, self.padded_rows]


@cache
def is_exact() -> bool:
    """Whether this torch has these operators, and they are as exact as float32 allows here."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(32, 8), (32, 8), (32,), (32,), (5, 3, 8), (3, 8), (3, 8), (5, 3, 8)]
    drawn = [torch.randn(shape, generator=generator) for shape in shapes]
    *weights, inputs, hidden, cell, d_out = drawn
    try:
        computed = SequencePass(LSTMWeights(*weights), inputs, hidden, cell)
        d_inputs, d_weights = computed.backward(d_out)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # another torch, or processor
        return False
    with torch.enable_grad():
        exact = [tensor.double().requires_grad_() for tensor in (*weights, inputs)]
        states = (hidden.double().unsqueeze(0), cell.double().unsqueeze(0))
        lstm: Any = torch.lstm
        out = lstm(exact[4], states, exact[:4], True, 1, 0.0, False, False, False)[0]
        gradients = torch.autograd.grad(out, [exact[4], *exact[:4]], d_out.double())
    pairs = zip((computed.out, d_inputs, *d_weights), (out.detach(), *gradients))
    return all(float((one - other).norm() / other.norm()) < LARGEST_ERROR for one, other in pairs)
