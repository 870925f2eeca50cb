"""Messages of real games, damaged: read, or refused by an error that names the environment; never more memory
than a multiple of the message."""

import os
import random
import tracemalloc

import pytest
from damaged_bytes import mutated
from godot_messages import WORDS, damaged_value, sessions
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.errors import WireError
from lanista.envs.godot.messages import make_messages, parse_message
from scripted_game import encode

WHERE = "environment 7"
EXAMPLES = int(os.environ.get("LANISTA_GODOT_MUTATIONS") or 400)
"""Of each test; the variable asks for more."""
MOST_FIXED, MOST_TIMES = 32 << 20, 40


SESSIONS = sessions()


def read(messages, data):
    """Whether it was read; else by a named error."""
    try:
        message = parse_message(data, WHERE)
        if messages is None:
            make_messages(message, WHERE, "uint8")
        elif messages.answer(message) is None:
            messages.read(message)
    except WireError as error:
        assert str(error).startswith(f"{WHERE}: "), error
        return False
    return True


def one_mutation(seed):
    rng = random.Random(seed)
    session = rng.choice(SESSIONS)
    first = rng.random() < 0.25
    message = session[0] if first else rng.choice(session[1:])
    data = encode(damaged_value(message, rng)) if rng.random() < 0.7 else mutated(encode(message), rng, WORDS)
    messages = None
    if not first:
        messages = make_messages(session[0], WHERE, rng.choice(["uint8", "float32"]))
        if rng.random() < 0.5:
            read(messages, encode(session[1]))
    return read(messages, data), len(data)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**64))
def test_damaged_messages_are_read_or_refused_by_name(seed):
    one_mutation(seed)


def test_most_mutations_are_refused_and_some_are_read():
    """Otherwise the test above would test one of both alone."""
    outcomes = [one_mutation(seed)[0] for seed in range(300)]
    assert 30 < sum(outcomes) < 270


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_bounded_by_the_message(seed):
    tracemalloc.start()
    try:
        for k in range(10):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            _, size = one_mutation(1000 * seed + k)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak <= MOST_FIXED + MOST_TIMES * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"type":"step","obs":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b"[" + b"[]," * 100_000 + b"[]]",
        b'{"type":"env_info","n_agents":1000000000,"observation_space":{"obs":{"size":[4],"space":"box"}}}',
        b'{"type":"env_info","n_agents":1,"observation_space":[{"o":{"size":[9999999999],"space":"box"}}]}',
    ],
    ids=["depth", "objects", "nested a thousand deep", "many lists", "a billion agents", "a huge space"],
)
def test_bombs_cost_no_more_than_a_multiple_of_their_bytes(data):
    tracemalloc.start()
    try:
        assert not read(None, data)
        assert tracemalloc.get_traced_memory()[1] <= MOST_FIXED + MOST_TIMES * len(data)
    finally:
        tracemalloc.stop()
