"""Memories carry what they know from step to step, however the steps are laid out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.modules.memory import MAX_AGENTS_OF_CELL, Memory
from lanista.trainers.settings.models.networks import MemorySettings, NetworkSettings
from specs import vector_spec

KINDS = ["lstm", "gru"]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def memory(kind: str, inputs: int = 3, size: int = 4) -> Memory:
    settings = MemorySettings(memory_type=kind, memory_size=size)
    return Memory(inputs, settings, torch.Generator().manual_seed(1))


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def test_a_gru_is_that_of_its_paper():
    """h' = (1 - z) n + z h, with n = tanh(W x + r (U h)); weights by gates reset, update, new."""
    gru = memory("gru")
    with torch.no_grad():
        for parameter in gru.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(2))
    x, h = torch.randn(5, 3).numpy(), torch.randn(5, 4).numpy()
    weights = (gru.weight_ih, gru.bias_ih, gru.weight_hh, gru.bias_hh)
    w, b, u, c = (p.detach().numpy() for p in weights)
    of_x, of_h = np.split(x @ w.T + b, 3, axis=1), np.split(h @ u.T + c, 3, axis=1)
    r, z = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
    expected = (1 - z) * np.tanh(of_x[2] + r * of_h[2]) + z * h
    outputs, state = gru(torch.from_numpy(x), torch.from_numpy(h), 1)
    np.testing.assert_allclose(outputs.detach(), expected, **CLOSE)
    np.testing.assert_allclose(state.detach(), expected, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes(kind):
    made = memory(kind, inputs=3, size=6)
    outputs, state = made(torch.randn(8, 3), torch.zeros(2, 6), 4)
    assert made.size == 6
    assert made.output_size == (3 if kind == "lstm" else 6)
    assert outputs.shape == (8, made.output_size)
    assert state.shape == (2, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_in_pieces_are_the_same_sequences(kind):
    made, rows, state = memory(kind), torch.randn(2, 6, 3), torch.randn(2, 4)
    whole, ends = made(rows.flatten(0, 1), state, 6)
    pieces = []
    for piece in rows.split([1, 3, 2], dim=1):
        said, state = made(piece.flatten(0, 1), state, piece.shape[1])
        pieces.append(said.view(2, piece.shape[1], -1))
    torch.testing.assert_close(torch.cat(pieces, 1).flatten(0, 1), whole, **CLOSE)
    torch.testing.assert_close(state, ends, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_is_the_same_for_few_agents_and_for_many(kind):
    made, rows, states = (
        memory(kind),
        torch.randn(MAX_AGENTS_OF_CELL + 1, 3),
        torch.randn(MAX_AGENTS_OF_CELL + 1, 4),
    )
    many = made(rows, states, 1)
    few = made(rows[:MAX_AGENTS_OF_CELL], states[:MAX_AGENTS_OF_CELL], 1)
    for a, b in zip(few, many, strict=True):
        torch.testing.assert_close(a, b[:MAX_AGENTS_OF_CELL], **CLOSE)


@examples(deadline=None, max_examples=30)
@given(st.sampled_from(KINDS), st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_sequences_of_many_lengths_are_each_as_if_alone(kind, lengths):
    made, rows, states = memory(kind), torch.randn(sum(lengths), 3), torch.randn(len(lengths), 4)
    outputs, ends = made.ragged(rows, states, lengths)
    parts = zip(rows.split(lengths), outputs.split(lengths), lengths, strict=True)
    for k, (own, said, length) in enumerate(parts):
        alone, end = made(own, states[k : k + 1], length)
        torch.testing.assert_close(said, alone, **CLOSE)
        torch.testing.assert_close(ends[k : k + 1], end, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [False, True])
def test_actor_and_critic_remember_apart_unless_they_share_a_stream(kind, shared):
    chosen = NetworkSettings(hidden_units=8, memory={"memory_type": kind, "memory_size": 4})
    net = ActorCritic(vector_spec([3], 2, (3,)), chosen, ["extrinsic"], shared)
    assert net.memory_size == 4
    inputs = net.prepare([torch.randn(6, 3)])
    states = torch.randn(2, 4), torch.randn(2, 4)
    distribution, values = net.evaluate_with_memory(inputs, *states, 3)
    alone, _ = net.act_with_memory(inputs, states[0], 3)
    torch.testing.assert_close(distribution.mu, alone.mu)
    torch.testing.assert_close(distribution.logits, alone.logits)
    of_critic, _ = net.memory(-1)(net.critic_encoding(inputs), states[0 if shared else 1], 3)
    torch.testing.assert_close(values, net.values(of_critic))


def test_networks_without_memory_have_no_trace_of_one():
    net = ActorCritic(vector_spec([3], 2), NetworkSettings(), ["extrinsic"])
    assert net.memory_size == 0
    assert not [name for name in net.state_dict() if "memor" in name]
