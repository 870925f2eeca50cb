"""Objects reach another process as they are, with arrays that are not copied on the way."""

import multiprocessing
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from lanista.trainers.utils.channel import Channel

pytestmark = pytest.mark.slow

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, min_side=0, max_side=40))
)
LEAVES = ARRAYS | ARRAYS.map(torch.from_numpy) | st.integers() | st.text() | st.none()
MESSAGES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner))


@dataclass(slots=True)
class Columns:
    rows: np.ndarray


@pytest.fixture
def ends(tmp_path):
    """Both ends of a channel."""
    made = [Channel(connection, tmp_path) for connection in multiprocessing.Pipe()]
    yield made
    for end in made:
        end.close()


def same(a, b):
    if isinstance(a, (np.ndarray, torch.Tensor)):
        numbers, others = np.asarray(a), np.asarray(b)
        kinds = (type(a), numbers.dtype, numbers.shape) == (type(b), others.dtype, others.shape)
        return kinds and numbers.tobytes() == others.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(max_examples=60, deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=3))
def test_what_is_sent_in_turns_arrives_bit_for_bit(tmp_path_factory, messages):
    ends = [Channel(connection, tmp_path_factory.mktemp("c")) for connection in multiprocessing.Pipe()]
    for message in messages:
        for sender, receiver in (ends, ends[::-1]):
            assert not receiver.has_message()
            sender.send(message)
            assert receiver.has_message() and same(receiver.receive(), message)
    for end in ends:
        end.close()


def test_columns_are_views_of_memory_that_the_next_message_takes_again(ends):
    here, there = ends
    rows = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    here.send({"steps": Columns(rows), "strided": rows[::2, 1:]})
    got = there.receive()
    assert not got["steps"].rows.flags.owndata and same(got["steps"].rows, rows)
    assert same(got["strided"], np.ascontiguousarray(rows[::2, 1:]))
    got["steps"].rows[0] = -1.0
    assert rows[0, 0] == 0.0, "the sender's own array stays its own"
    here.send(Columns(rows[:500] + 1))
    assert same(there.receive().rows, rows[:500] + 1)
    assert got["steps"].rows[0, 0] == 1.0, "the same memory"
    here.send(Columns(np.ones((10**6, 2))))
    assert there.receive().rows.sum() == 2 * 10**6, "a message may be larger than all before"
    assert got["steps"].rows[1, 0] == 4.0, "what is still held stays readable"


def test_the_end_of_the_other_side_is_heard(ends):
    here, there = ends
    here.close()
    assert there.has_message()
    with pytest.raises(EOFError):
        there.receive()
