"""Every row of a minibatch is somebody's, and what learners are told is what they hear."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.trainer.distributed.messages import LARGE, Message
from lanista.trainers.utils.data_parallel import Sharing

COUNTS = st.integers(1, 300)
SIZES = st.integers(2, 9)


@given(COUNTS, SIZES)
def test_all_rows_count_once_and_no_learner_is_idle(count, size):
    parts = [Sharing(rank, size).part(count) for rank in range(size)]
    counted = np.zeros(count)
    for part in parts:
        rows = np.arange(count)[part.rows]
        assert len(rows) and part.of == count
        counted[rows] += part.weight * count / len(rows)
    np.testing.assert_allclose(counted, 1.0)
    sizes = [part.rows.stop - part.rows.start for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.booleans(), min_size=1, max_size=60), SIZES)
def test_of_padded_rows_those_that_are_real_count(real, size):
    """The weights are those by which means over parts make the mean over all."""
    column, numbers = np.array(real), np.arange(len(real), dtype=float) + 1.0
    mean = 0.0
    for rank in range(size):
        part = Sharing(rank, size).part(len(real))
        own = column[part.rows]
        weight = part.weighing(own.sum(), column.sum()).weight
        mean += weight * numbers[part.rows][own].mean() if own.any() else 0.0
    np.testing.assert_allclose(mean, numbers[column].mean() if column.any() else 0.0)


def test_a_message_holds_a_state_as_it_was():
    weights, steps = torch.ones(LARGE), torch.zeros(LARGE, dtype=torch.bool)
    small = torch.arange(5)[1:4]
    state = {
        "Policy": {"weight": weights, "n": small},
        "buffer": {"obs": [steps]},
        "due": [1, 2.5, None, "x"],
    }
    message = Message.pack(state, lambda path: path.startswith(".buffer."))
    weights.zero_()
    small.zero_()
    told = message.tree()
    assert torch.equal(told["Policy"]["weight"], torch.ones(LARGE))
    assert told["Policy"]["n"].tolist() == [1, 2, 3] and told["due"] == state["due"]
    assert told["buffer"]["obs"][0].data_ptr() == steps.data_ptr(), "what stays is not copied"
    assert len(message.small) < LARGE


def test_nothing_is_unpickled():
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        Message.pack({"a": print}).tree()
