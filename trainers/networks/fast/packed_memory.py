"""Memories over sequences of different lengths, forwards and backwards, without automatic differentiation.

Sequences are packed as torch packs them: the longest first, and the rows step by step, so that padding costs
nothing. On a CPU torch's own loop takes over half a millisecond for what is a dozen small products; here the
sums are torch's and the rest is NumPy's, whose calls cost a third. LSTMs run through long sequences by
oneDNN. `Memory` remains the definition: tests compare them. Used where PPO's gradient is `FusedPPOGradient`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...settings.models.networks import MemoryType
from ..modules.memory import Memory
from . import onednn_lstm
from .onednn_lstm import Floats, Ints, LongPass, PackedPass, Packing


def streams_of(tensors: Sequence[Tensor]) -> Tensor:
    """One or two parts of a vector, of one shape [...], as one view [S, ...]."""
    first, last = tensors[0], tensors[-1]
    distance = (last.data_ptr() - first.data_ptr()) // first.element_size()
    return first.as_strided((len(tensors), *first.shape), (distance, *first.stride()))


class PackedMemory:
    """S memories of one shape, one for each stream of a body."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        """Take one memory, or two with parameters in one vector; these and `grad` change in place only."""
        self.is_lstm = memories[0].kind is MemoryType.LSTM
        self.hidden = memories[0].output_size
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        parameters = [[getattr(memory, name) for memory in memories] for name in names]
        self.weight_ih, self.weight_hh, bias_ih, bias_hh = (
            streams_of([p.detach() for p in ps]) for ps in parameters
        )
        self.bias_ih, self.bias_hh = bias_ih.unsqueeze(1), bias_hh.unsqueeze(1)
        has_gradients = all(p.grad is not None for ps in parameters for p in ps)
        self.gradients = [streams_of([p.grad for p in ps]) for ps in parameters] if has_gradients else []
        # sigmoid(x) = 0.5 tanh(0.5 x) + 0.5: one function for all gates.
        scales = (0.5, 0.5, 1.0, 0.5) if self.is_lstm else (0.5, 0.5, 1.0)
        self.scale = np.repeat(np.array(scales, np.float32), self.hidden)
        self.shift = np.where(self.scale < 1.0, np.float32(0.5), np.float32(0.0))

    def forward(self, inputs: Tensor, states: Tensor, packing: Packing) -> PackedPass:
        """Run through P packed rows.

        Args:
            inputs: [S, P, in].
            states: [S, B, size], before the sequences' first steps, the longest sequence first.
            packing: of the rows.
        """
        with torch.no_grad():
            if not self.is_lstm:
                return _GRUPass(self, inputs, states, packing)
            multiplications = self.weight_ih[0].numel() + self.weight_hh[0].numel()
            if not onednn_lstm.is_faster(packing, multiplications):
                return _LSTMPass(self, inputs, states, packing)
            weights = [self.weight_ih, self.weight_hh, self.bias_ih.squeeze(1), self.bias_hh.squeeze(1)]
            return LongPass(weights, self.gradients, inputs, states, packing)


class _SteppedPass(PackedPass):
    """A pass step by step, for all streams at once."""

    gates: Tensor
    """[S, P, gates * H]: the gates' values."""
    d_input_sums: Floats
    """[S, P, gates * H] the gradient by what the inputs give, once `_backward` has run."""

    def __init__(self, memory: PackedMemory, inputs: Tensor, states: Tensor, packing: Packing) -> None:
        self.memory, self.inputs, self.packing = memory, inputs, packing
        self.counts = counts = packing.counts
        streams, rows, _ = inputs.shape
        self.width, self.first = memory.hidden, counts[0]
        self.ends = np.cumsum(counts).tolist()
        shape = (streams, self.first + rows, memory.hidden)
        self.hidden = torch.empty(shape, device=states.device)
        """[S, B + P, H]: h before the first steps, then after each row."""
        self.hidden[:, : self.first] = states[..., : memory.hidden]
        self.recurrent = (memory.weight_hh * torch.from_numpy(memory.scale[:, None])).transpose(1, 2)
        self.out = self.hidden[:, self.first :]
        self._forward(states)

    def backward(self, d_out: Tensor) -> Tensor:
        """Write the gradients of all parameters; return that of the inputs, [S, P, in]."""
        before = self.packing.before
        with torch.no_grad():
            hidden = self.hidden.numpy()[:, before]
            d_hidden_sums = torch.from_numpy(self._backward(d_out.numpy(), hidden, before))
            d_sums = torch.from_numpy(self.d_input_sums)
            d_weight_ih, d_weight_hh, d_bias_ih, d_bias_hh = self.memory.gradients
            torch.bmm(d_sums.transpose(1, 2), self.inputs, out=d_weight_ih)
            torch.bmm(d_hidden_sums.transpose(1, 2), torch.from_numpy(hidden), out=d_weight_hh)
            torch.sum(d_sums, 1, out=d_bias_ih)
            torch.sum(d_hidden_sums, 1, out=d_bias_hh)
            return torch.bmm(d_sums, self.memory.weight_ih)

    @abstractmethod
    def _forward(self, states: Tensor) -> None:
        """Fill `hidden` and `gates`."""

    @abstractmethod
    def _backward(self, d_out: Floats, hidden: Floats, before: Ints) -> Floats:
        """The gradient by what the previous outputs give, [S, P, gates * H]; sets `d_input_sums`.

        `hidden` [S, P, H] is h before each row; `d_out` becomes the gradient by h after it.
        """

    def _blocks(self, array: Any) -> list[Any]:
        """The rows of each step, [S, n, ...] views of [S, P, ...]."""
        return [array[:, end - n : end] for n, end in zip(self.counts, self.ends)]

    def _previous(self, array: Any) -> list[Any]:
        """The rows of [S, B + P, ...] before each step's rows."""
        starts = [0, *(self.first + end - n for n, end in zip(self.counts, self.ends))]
        return [array[:, at : at + n] for at, n in zip(starts, self.counts)]

    def _add_later(self, d_hidden: Sequence[Floats], t: int, d_sums: Floats) -> None:
        """Add to the gradient of h before step t what flows through the step's sums."""
        if t:
            d = torch.bmm(torch.from_numpy(d_sums), self.memory.weight_hh).numpy()
            d_hidden[t - 1][:, : d.shape[1]] += d


class _LSTMPass(_SteppedPass):
    """c' = f c + i g, h' = o tanh(c')."""

    def _forward(self, states: Tensor) -> None:
        memory, width = self.memory, self.width
        bias = memory.bias_ih + memory.bias_hh
        self.gates = torch.baddbmm(bias, self.inputs, memory.weight_ih.transpose(1, 2))
        gates = self.gates.numpy()
        gates *= memory.scale
        self.cells = np.empty(self.hidden.shape, np.float32)
        self.cells[:, : self.first] = states[..., width:].numpy()
        self.tanh_cells = np.empty_like(self.cells[:, self.first :])
        torch_blocks, hidden_before = self._blocks(self.gates), self._previous(self.hidden)
        steps = zip(
            self._blocks(gates),
            self._previous(self.cells),
            self._blocks(self.cells[:, self.first :]),
            self._blocks(self.tanh_cells),
            self._blocks(self.hidden.numpy()[:, self.first :]),
        )
        for t, (g, before, cell, tanh_cell, hidden) in enumerate(steps):
            torch_blocks[t].baddbmm_(hidden_before[t], self.recurrent)
            np.tanh(g, out=g)
            g *= memory.scale
            g += memory.shift
            np.multiply(g[..., width : 2 * width], before, out=cell)
            cell += g[..., :width] * g[..., 2 * width : 3 * width]
            np.tanh(cell, out=tanh_cell)
            np.multiply(g[..., 3 * width :], tanh_cell, out=hidden)

    def _backward(self, d_out: Floats, hidden: Floats, before: Ints) -> Floats:
        width = self.width
        i, f, g, o = np.split(self.gates.numpy(), 4, axis=2)
        tanh_cells, d = self.tanh_cells, np.empty(self.gates.shape, np.float32)
        # What each gate's sum does to the cell, and o's to the output; the loop multiplies by the gradients.
        d[..., :width] = g * i * (1.0 - i)
        d[..., width : 2 * width] = self.cells[:, before] * f * (1.0 - f)
        d[..., 2 * width : 3 * width] = i * (1.0 - g * g)
        d[..., 3 * width :] = tanh_cells * o * (1.0 - o)
        d_cell_d_out = o * (1.0 - tanh_cells * tanh_cells)
        d_cell = np.zeros((len(d), self.first, width), np.float32)
        d_hidden = self._blocks(d_out)
        steps = list(zip(self.counts, self._blocks(d), self._blocks(d_cell_d_out), self._blocks(f)))
        for t in range(len(steps) - 1, -1, -1):
            n, d_sums, slope, f_gate = steps[t]
            d_here = d_cell[:, :n]
            d_here += d_hidden[t] * slope
            d_sums.reshape(len(d), n, 4, width)[:, :, :3] *= d_here[:, :, None]
            d_sums[..., 3 * width :] *= d_hidden[t]
            d_here *= f_gate
            self._add_later(d_hidden, t, d_sums)
        self.d_input_sums = d
        return d


class _GRUPass(_SteppedPass):
    """h' = (1 - z) n + z h with n = tanh(a + r b), where a is the inputs' sum and b the outputs'."""

    def _forward(self, states: Tensor) -> None:
        memory, width = self.memory, self.width
        self.gates = torch.baddbmm(memory.bias_ih, self.inputs, memory.weight_ih.transpose(1, 2))
        gates = self.gates.numpy()
        gates *= memory.scale
        self.sums = np.empty((*gates.shape[:2], width), np.float32)
        """The outputs' sum b of each row."""
        bias = memory.bias_hh * torch.from_numpy(memory.scale)
        hidden_before = self._previous(self.hidden)
        steps = zip(
            self._blocks(gates),
            self._blocks(self.sums),
            self._previous(self.hidden.numpy()),
            self._blocks(self.hidden.numpy()[:, self.first :]),
        )
        for t, (g, sums, before, hidden) in enumerate(steps):
            hidden_sums = torch.baddbmm(bias, hidden_before[t], self.recurrent).numpy()
            reset_update, new = g[..., : 2 * width], g[..., 2 * width :]
            reset_update += hidden_sums[..., : 2 * width]
            np.tanh(reset_update, out=reset_update)
            reset_update *= 0.5
            reset_update += 0.5
            sums[:] = hidden_sums[..., 2 * width :]
            new += g[..., :width] * sums
            np.tanh(new, out=new)
            np.subtract(before, new, out=hidden)
            hidden *= g[..., width : 2 * width]
            hidden += new

    def _backward(self, d_out: Floats, hidden: Floats, before: Ints) -> Floats:
        width = self.width
        r, z, new = np.split(self.gates.numpy(), 3, axis=2)
        d_new = (1.0 - z) * (1.0 - new * new)
        d = np.empty(self.gates.shape, np.float32)
        d[..., :width] = d_new * self.sums * r * (1.0 - r)
        d[..., width : 2 * width] = (hidden - new) * z * (1.0 - z)
        d[..., 2 * width :] = d_new * r
        d_hidden = self._blocks(d_out)
        blocks, update = self._blocks(d), self._blocks(z)
        for t in range(len(blocks) - 1, -1, -1):
            n, d_after = self.counts[t], d_hidden[t]
            blocks[t].reshape(len(d), n, 3, width)[...] *= d_after[:, :, None]
            self._add_later(d_hidden, t, blocks[t])
            if t:
                d_hidden[t - 1][:, :n] += d_after * update[t]
        self.d_input_sums = d.copy()
        self.d_input_sums[..., 2 * width :] = d_new * d_out
        return d
