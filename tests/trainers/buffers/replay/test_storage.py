"""A saved replay comes back to the last bit; one that is damaged does not, and nothing else is lost."""

from __future__ import annotations

import logging
import os

import numpy as np
import pytest
import torch
from lanista.trainers.buffers.replay import storage as replay_file
from lanista.trainers.buffers.replay.buffer import Replay
from lanista.trainers.buffers.replay.sampler import ReplaySampler
from lanista.trainers.buffers.replay.storage import FILE, NOT_LOADED, load_replay, save_replay
from replay_steps import Game, fill_disk, layout, rollout_of


def played(game, shape, rounds=12):
    replay = new(shape)
    for k in range(rounds):
        ends = ["on", "over", "interrupted"]
        calls = [game.trajectory(agent, 7, ends[(k + agent) % 3]) for agent in range(2)]
        replay.append(*rollout_of(calls))
    return replay


def new(shape):
    return Replay(shape, 0.6 if shape.prioritized else None)


def batches(replay, count=6):
    sampler = ReplaySampler([0.9, 0.5], [False, True], torch.device("cpu"), 0, n_step=3)
    for _ in range(count):
        batch = sampler.batch(replay, 16, beta=0.5)
        sampler.update_priorities(replay, batch.rewards.abs().sum(dim=1))
        tensors = [*batch.obs, *batch.next_obs, *batch.actions, batch.rewards, batch.discounts, batch.weights]
        tensors += [batch.action_mask, batch.states, batch.real]
        yield [tensor.clone() for tensor in tensors if tensor is not None]


SHAPES = {
    "partly filled": layout(400, longest=7),
    "wrapped": layout(100, longest=7),
    "prioritized": layout(100, longest=7, prioritized=True),
    "sequences": layout(100, longest=7, sequence_length=4, memory_size=3, prioritized=True),
    "plain images": layout(100, stacks=1, longest=7),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_loaded_replay_continues_bit_for_bit(tmp_path, name):
    shape = SHAPES[name]
    games = [Game(np.random.default_rng(0), memory_size=shape.memory_size) for _ in range(2)]
    replay, same = (played(game, shape) for game in games)
    list(batches(replay, 2)), list(batches(same, 2))
    assert save_replay("B", tmp_path, same, 168)
    loaded = load_replay("B", tmp_path, new(shape), 168)
    assert len(loaded) == len(replay)
    for game in games:
        game.players.clear()  # as when the engines restart
    for own, other in ((replay, games[0]), (loaded, games[1])):
        for k in range(4):
            own.append(*rollout_of([other.trajectory(5 + k % 2, 7, "on")]))
    for one, two in zip(batches(replay), batches(loaded), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_columns_may_be_written_in_several_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_file, "PIECE", 50)
    replay = played(Game(np.random.default_rng(0)), SHAPES["wrapped"])
    save_replay("B", tmp_path, replay, 1)
    loaded = load_replay("B", tmp_path, new(SHAPES["wrapped"]), 1)
    for one, two in zip(batches(replay), batches(loaded), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.fixture
def saved(tmp_path):
    save_replay("B", tmp_path, played(Game(np.random.default_rng(0)), SHAPES["wrapped"]), 168)
    return tmp_path


def test_a_missing_replay_is_reported_as_by_mlagents(tmp_path, caplog):
    assert load_replay("B", tmp_path, new(SHAPES["wrapped"]), 5) is None
    assert "Replay buffer was unable to load, starting from scratch." in caplog.text


@pytest.mark.posix("named pipes")
def test_a_pipe_is_not_waited_for(tmp_path, caplog):
    os.mkfifo(tmp_path / FILE)
    assert load_replay("B", tmp_path, new(SHAPES["wrapped"]), 5) is None
    assert NOT_LOADED in caplog.text and "a pipe or a device" in caplog.text


def test_every_cut_and_another_file_are_detected(saved, caplog):
    data = (saved / FILE).read_bytes()
    lengths = [*range(0, 60, 7), *range(60, len(data), len(data) // 40), len(data) - 1]
    for damaged in [b"hello", *(data[:length] for length in lengths)]:
        caplog.clear()
        (saved / FILE).write_bytes(damaged)
        assert load_replay("B", saved, new(SHAPES["wrapped"]), 168) is None, len(damaged)
        assert NOT_LOADED in caplog.text and "dropped" in caplog.text


def test_every_flipped_bit_is_detected_and_the_loss_reported(saved, caplog):
    data = (saved / FILE).read_bytes()
    random = np.random.default_rng(0)
    for place in [*random.integers(0, len(data), 60).tolist(), 3, 10, 20, len(data) - 3, len(data) - 20]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(random.integers(8))
        (saved / FILE).write_bytes(damaged)
        assert load_replay("B", saved, new(SHAPES["wrapped"]), 168) is None, place
    caplog.clear()
    middle = bytearray(data)
    middle[len(data) // 2] ^= 1
    (saved / FILE).write_bytes(middle)
    load_replay("B", saved, new(SHAPES["wrapped"]), 168)
    assert "the checksum of its" in caplog.text and "Its 100 steps are dropped." in caplog.text


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (layout(120, longest=7), "its capacity is 100, with the current settings 120"),
        (layout(100, longest=7, signals=1), "its signals is 2, with the current settings 1"),
        (layout(100, longest=7, prioritized=True), "its prioritized is False"),
    ],
)
def test_a_replay_of_other_settings_is_dropped_and_they_are_named(saved, caplog, other, said):
    assert load_replay("B", saved, new(other), 168) is None
    assert said in caplog.text


def test_another_time_horizon_drops_only_a_replay_of_stacks(tmp_path, caplog):
    for stacks, held in ((1, 100), (3, None)):
        shape = layout(100, stacks=stacks, longest=7)
        replay = played(Game(np.random.default_rng(0)), shape)
        save_replay("B", tmp_path, replay, 1)
        loaded = load_replay("B", tmp_path, new(layout(100, stacks=stacks, longest=9)), 1)
        assert (None if loaded is None else len(loaded)) == held
    assert "its time horizon is 7, with the current settings 9" in caplog.text


def test_a_change_from_bytes_to_floats_does_not_drop_the_replay(tmp_path):
    floats = layout(100, longest=7, dtypes=(np.dtype(np.float32),) * 2)
    replay = played(Game(np.random.default_rng(0)), floats)
    save_replay("B", tmp_path, replay, 1)
    loaded = load_replay("B", tmp_path, new(SHAPES["wrapped"]), 1)
    assert loaded.layout.dtypes == floats.dtypes and len(loaded) == len(replay)


def test_a_replay_too_large_for_the_memory_is_dropped(tmp_path, caplog, monkeypatch):
    floats = layout(100, longest=7, dtypes=(np.dtype(np.float32),) * 2)
    save_replay("B", tmp_path, played(Game(np.random.default_rng(0)), floats), 1)
    empty = new(SHAPES["wrapped"])

    def no_memory(*args, **keys):
        raise MemoryError("Unable to allocate 7 GiB")

    monkeypatch.setattr(replay_file, "Replay", no_memory)
    assert load_replay("B", tmp_path, empty, 1) is None
    assert "Unable to allocate 7 GiB. Its 100 steps are dropped." in caplog.text


def test_a_replay_of_another_step_than_the_checkpoint_is_used_and_reported(saved, caplog):
    with caplog.at_level(logging.INFO):
        assert load_replay("B", saved, new(SHAPES["wrapped"]), 200) is not None
    assert "It is of step 168, the checkpoint of step 200" in caplog.text


@pytest.mark.parametrize("after", [0, 1000, 9000])
def test_a_full_disk_leaves_the_older_file_and_the_run_continues(saved, caplog, monkeypatch, after):
    before = (saved / FILE).read_bytes()
    fill_disk(monkeypatch, after)
    replay = played(Game(np.random.default_rng(1)), SHAPES["wrapped"])
    assert not save_replay("B", saved, replay, 300)
    assert "the replay of step 300 could not be saved" in caplog.text
    assert (saved / FILE).read_bytes() == before
    assert [path.name for path in saved.iterdir()] == [FILE]
