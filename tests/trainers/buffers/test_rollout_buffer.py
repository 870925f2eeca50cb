"""The steps that wait for an update go through a checkpoint as they are."""

from contextlib import contextmanager

import numpy as np
import pytest
from lanista.trainers.buffers.rollout_buffer import EvaluatedSteps, RolloutBuffer, explained_variance
from rollouts import reloaded


def steps_in_one_piece(count):
    """Columns that are views of one array, as the row store hands them out."""
    words = np.arange(count * 8, dtype=np.float32).reshape(count, 8)
    return EvaluatedSteps(
        obs=[words[:, :2], words[:, 2:3]],
        continuous=words[:, 3:4],
        discrete=words[:, 4:5].view(np.int32),
        log_probs=words[:, 5:7],
        action_mask=None,
        values=words[:, 7:],
        returns=words[:, 7:],
        advantages=words[:, 0],
    )


def test_columns_that_share_memory_come_back():
    buffer = RolloutBuffer(EvaluatedSteps)
    buffer.append(steps_in_one_piece(5))
    again = through_a_file(buffer)
    assert len(again) == 5
    got, expected = again.columns(), steps_in_one_piece(5)
    for name in ("continuous", "discrete", "log_probs", "values", "returns", "advantages"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    for a, b in zip(got.obs, expected.obs, strict=True):
        np.testing.assert_array_equal(a, b)
    assert got.action_mask is None


def through_a_file(buffer):
    again = RolloutBuffer(EvaluatedSteps)
    again.load_state_dict(reloaded(buffer.state_dict()))
    return again


def filmed(pixels):
    steps = steps_in_one_piece(len(pixels))
    steps.obs = [pixels, steps.obs[0]]
    return steps


def test_images_of_bytes_come_back_as_bytes():
    pixels = np.arange(2 * 5 * 3 * 4 * 6, dtype=np.uint8).reshape(2, 5, 3, 4, 6)
    buffer = RolloutBuffer(EvaluatedSteps)
    buffer.append(filmed(pixels[0]))
    again = through_a_file(buffer)
    again.append(filmed(pixels[1]))
    got = again.columns().obs
    assert [o.dtype for o in got] == [np.uint8, np.float32]
    np.testing.assert_array_equal(got[0], np.concatenate(pixels))


@pytest.mark.parametrize("saved", [np.uint8, np.float32])
def test_a_sensor_whose_compression_changed_before_a_resume_continues_as_floats(saved):
    pixels = np.arange(3 * 3 * 4 * 6, dtype=np.uint8).reshape(3, 3, 4, 6)
    kinds = {np.uint8: pixels, np.float32: pixels / np.float32(255)}
    buffer = RolloutBuffer(EvaluatedSteps)
    buffer.append(filmed(kinds[saved]))
    again = through_a_file(buffer)
    again.append(filmed(kinds[np.float32 if saved is np.uint8 else np.uint8]))
    got = again.columns().obs[0]
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.concatenate([kinds[np.float32]] * 2))


class Watched(np.ndarray):
    """An array that counts those of its kind which are there."""

    alive = 0

    def __array_finalize__(self, obj):
        Watched.alive += 1

    def __del__(self):
        Watched.alive -= 1


@pytest.mark.parametrize("expected", [0, 40])
def test_images_are_stored_once(expected):
    """Neither the trajectories' own arrays nor copies of the buffer's stay beside it."""
    buffer = RolloutBuffer(EvaluatedSteps, expected)
    for update in range(2):
        for value in range(8):
            images = np.full((5, 3, 4, 6), 10 * update + value, np.uint8).view(Watched)
            buffer.append(filmed(images))
            del images
            assert not Watched.alive
        once, twice = (buffer.columns().obs[0] for _ in range(2))
        np.testing.assert_array_equal(once[:, 0, 0, 0], np.repeat(np.arange(8) + 10 * update, 5))
        assert np.shares_memory(once, twice)
        buffer.clear()


@contextmanager
def no_memory(monkeypatch):
    """Nothing can be allocated within, which fails."""

    def none(*_):
        raise MemoryError

    with monkeypatch.context() as full, pytest.raises(MemoryError):
        full.setattr(np, "empty", none)
        yield


def test_a_part_without_room_for_its_images_leaves_the_others_unchanged(monkeypatch):
    buffer = RolloutBuffer(EvaluatedSteps)
    pixels = np.arange(5 * 3 * 4 * 6).astype(np.uint8).reshape(5, 3, 4, 6)
    buffer.append(filmed(pixels))

    with no_memory(monkeypatch):
        buffer.append(filmed(pixels))
    assert len(buffer) == len(buffer.columns()) == 5
    np.testing.assert_array_equal(buffer.columns().obs[0], pixels)


def test_parts_stay_where_there_is_no_memory_to_join_them(monkeypatch):
    buffer = RolloutBuffer(EvaluatedSteps)
    for _ in range(2):
        buffer.append(steps_in_one_piece(3))

    with no_memory(monkeypatch):
        buffer.columns()
    assert len(buffer) == len(buffer.columns()) == 6


def test_the_explained_variance_is_that_of_the_returns_by_the_estimates():
    returns = np.float32([[1, 10], [2, 20], [3, 30], [6, 0]])
    real = np.array([True, True, True, False])
    perfect, constant = returns + 5, np.full_like(returns, 7)
    assert explained_variance("EV", perfect, returns, real) == {"EV": 1.0}
    assert explained_variance("EV", constant, returns, real) == {"EV": 0.0}
    assert explained_variance("EV", -returns, returns, real) == {"EV": -3.0}
    half = np.stack([returns[:, 0], constant[:, 1]], axis=1)
    assert explained_variance("EV", half, returns, real) == {"EV": 0.5}
    assert explained_variance("EV", half, returns, None)["EV"] == pytest.approx(0.5)
    assert explained_variance("EV", returns, np.zeros_like(returns), real) == {}
