"""Packed memories compute what `Memory` does, sequence by sequence, and the gradients of that."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.algorithms.common.optim import FlatParameters
from lanista.trainers.networks.modules.memory import Memory
from lanista.trainers.networks.modules.packed_memory import PackedMemory, Packing
from lanista.trainers.settings.models.networks import MemorySettings


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["lstm", "gru"]),
    st.integers(1, 2),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.integers(0, 2**16),
)
def test_outputs_states_and_gradients_are_those_of_automatic_differentiation(kind, streams, lengths, seed):
    torch.manual_seed(seed)
    memory_settings = MemorySettings(memory_type=kind, memory_size=8)
    memories = [Memory(5, memory_settings) for _ in range(streams)]
    flat = FlatParameters([p for memory in memories for p in memory.parameters()])
    flat.vector.data.normal_(0.0, 0.5)
    rows, width = sum(lengths), memories[0].output_size
    inputs = torch.randn(streams, rows, 5, requires_grad=True)
    states, d_out = torch.randn(streams, len(lengths), 8), torch.randn(streams, rows, width)
    wanted = [memory.ragged(inputs[s], states[s], lengths) for s, memory in enumerate(memories)]
    outputs, ends = (torch.stack(parts).detach() for parts in zip(*wanted))
    flat.zero_grad()
    (torch.stack([out for out, _ in wanted]) * d_out).sum().backward()
    expected = flat.gradient.clone()
    flat.gradient.fill_(7.0)  # what lies there from before must not count
    packing = Packing.of(np.cumsum(lengths) - lengths, np.array(lengths))
    order, of_rows = torch.from_numpy(packing.order), torch.from_numpy(packing.rows)
    done = PackedMemory(memories).forward(inputs.detach()[:, of_rows], states[:, order], packing.counts)
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(done.out, outputs[:, of_rows], **close)
    last = np.argsort(packing.rows)[np.cumsum(lengths) - 1]
    torch.testing.assert_close(torch.from_numpy(done.states[:, len(lengths) + last]), ends, **close)
    d_inputs = done.backward(d_out[:, of_rows], packing.before)
    torch.testing.assert_close(d_inputs, inputs.grad[:, of_rows], **close)
    torch.testing.assert_close(flat.gradient, expected, **close)


def test_a_packing_has_the_longest_sequence_first_and_rows_step_by_step():
    packing = Packing.of(np.array([0, 4, 10]), np.array([2, 3, 1]))
    assert packing.order.tolist() == [1, 0, 2]
    assert packing.rows.tolist() == [4, 0, 10, 5, 1, 6]
    assert packing.counts == [3, 2, 1]
    assert packing.before.tolist() == [0, 1, 2, 3, 4, 6]
