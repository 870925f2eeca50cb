"""Packed memories compute what `Memory` does, sequence by sequence, and the gradients of that."""

import platform

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.algorithms.common.optim import FlatParameters
from lanista.trainers.networks.fast import onednn_lstm
from lanista.trainers.networks.fast.onednn_lstm import Packing
from lanista.trainers.networks.fast.packed_memory import PackedMemory
from lanista.trainers.networks.modules.memory import Memory
from lanista.trainers.settings.models.networks import MemorySettings


def check(kind, streams, lengths, seed):
    """Compare outputs and gradients with those of automatic differentiation; returns the pass."""
    torch.manual_seed(seed)
    memory_settings = MemorySettings(memory_type=kind, memory_size=8)
    memories = [Memory(5, memory_settings) for _ in range(streams)]
    flat = FlatParameters([p for memory in memories for p in memory.parameters()])
    flat.vector.data.normal_(0.0, 0.5)
    rows, width = sum(lengths), memories[0].output_size
    inputs = torch.randn(streams, rows, 5, requires_grad=True)
    states, d_out = torch.randn(streams, len(lengths), 8), torch.randn(streams, rows, width)
    outputs = torch.stack(
        [memory.ragged(inputs[s], states[s], lengths)[0] for s, memory in enumerate(memories)]
    )
    flat.zero_grad()
    (outputs * d_out).sum().backward()
    expected = flat.gradient.clone()
    flat.gradient.fill_(7.0)  # what lies there from before must not count
    packing = Packing.of(np.cumsum(lengths) - lengths, np.array(lengths))
    order, of_rows = torch.from_numpy(packing.order), torch.from_numpy(packing.rows)
    done = PackedMemory(memories).forward(inputs.detach()[:, of_rows], states[:, order], packing)
    close = {"rtol": 1e-4, "atol": 2e-5}
    torch.testing.assert_close(done.out, outputs.detach()[:, of_rows], **close)
    d_inputs = done.backward(d_out[:, of_rows])
    torch.testing.assert_close(d_inputs, inputs.grad[:, of_rows], **close)
    torch.testing.assert_close(flat.gradient, expected, **close)
    return done


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["lstm", "gru"]),
    st.integers(1, 2),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.integers(0, 2**16),
)
def test_outputs_and_gradients_are_those_of_automatic_differentiation(kind, streams, lengths, seed):
    check(kind, streams, lengths, seed)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 2),
    st.integers(0, 6),
    st.lists(st.integers(1, onednn_lstm.MIN_STEPS + 6), max_size=4),
    st.integers(0, 2**16),
)
def test_long_sequences_give_the_same(streams, more, others, seed):
    """Among them sequences of one length, which need no padding."""
    lengths = [*others, onednn_lstm.MIN_STEPS + more]
    done = check("lstm", streams, lengths, seed)
    assert isinstance(done, onednn_lstm.LongPass) == onednn_lstm.is_exact()
    check("lstm", streams, [onednn_lstm.MIN_STEPS] * 3, seed)


def test_onednn_runs_through_long_sequences_unless_padding_would_be_most_of_its_work(monkeypatch):
    monkeypatch.setattr(onednn_lstm, "is_exact", lambda: True)

    def is_faster(*lengths, multiplications=50_000):
        packing = Packing.of(np.cumsum(lengths) - lengths, np.array(lengths))
        return onednn_lstm.is_faster(packing, multiplications)

    assert is_faster(64)
    assert is_faster(*[64] * 100, multiplications=1_000_000)  # no padding, however large
    assert is_faster(*[64] * 4, *[32] * 4)
    assert not is_faster(*[64] * 4, *[32] * 4, multiplications=200_000)
    assert not is_faster(*[64] * 4, *[32] * 16)
    assert not is_faster(onednn_lstm.MIN_STEPS - 1)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available(),
    reason="a torch without oneDNN's recurrent kernels",
)
def test_onednn_is_found_exact_where_torch_has_it():
    assert onednn_lstm.is_exact()


@pytest.mark.parametrize("fault", [AttributeError, RuntimeError])
def test_where_onednn_cannot_be_had_or_trusted_numpy_runs_through_long_sequences(monkeypatch, fault):
    def absent(*_):
        raise fault

    onednn_lstm.is_exact.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(onednn_lstm.SequencePass, "__init__", absent)
        done = check("lstm", 2, [30, 25], 1)
        assert not isinstance(done, onednn_lstm.LongPass)
    onednn_lstm.is_exact.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(onednn_lstm.SequencePass, "out", property(lambda self: self.after[0] * 1.001))
        assert not onednn_lstm.is_exact()
    onednn_lstm.is_exact.cache_clear()


def test_a_packing_has_the_longest_sequence_first_and_rows_step_by_step():
    packing = Packing.of(np.array([0, 4, 10]), np.array([2, 3, 1]))
    assert packing.order.tolist() == [1, 0, 2]
    assert packing.rows.tolist() == [4, 0, 10, 5, 1, 6]
    assert packing.counts == [3, 2, 1]
    assert packing.before.tolist() == [0, 1, 2, 3, 4, 6]
    assert packing.padded.tolist() == [0, 1, 2, 3, 4, 6]
