"""A replay gives back the steps that it was given, against a plain list of steps with references."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from lanista.trainers.buffers.replay.buffer import Replay
from lanista.trainers.buffers.replay.columns import ExtraColumn
from lanista.trainers.buffers.replay.sampler import ReplaySampler
from lanista.trainers.utils.errors import TrainerError
from replay_steps import Game, Step, layout, rollout_of

GAMMAS = (0.9, 0.5)
IGNORES = (False, True)

played = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(1, 9),
            st.sampled_from(["over", "interrupted", "on"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=8,
)


def sampler(n_step=1):
    return ReplaySampler(GAMMAS, IGNORES, torch.device("cpu"), 0, n_step)


def batch_of(replay, places, n_step=1):
    """The batch of just these places."""
    return sampler(n_step)._gather(replay, np.asarray(places, np.int64), None)


def expected_return(step: Step, n: int, live: set[Step]):
    """The return of a step by its definition, and the step behind which it bootstraps."""
    total, powers = step.reward.astype(np.float64), np.array(GAMMAS)
    for _ in range(n - 1):
        if step.ended or step.following is None or step.following not in live:
            break
        step = step.following
        total = total + powers * step.reward
        powers = powers * GAMMAS
    return total, np.where(np.array(IGNORES) | (not step.ended), powers, 0.0), step


def check(replay: Replay, steps: list[Step], n_step: int) -> None:
    """Every step that is held is as it was played."""
    live = steps[len(steps) - len(replay) :]
    places = np.concatenate([np.arange(part.start, part.stop) for part in replay.held()] or [[]])
    batch = batch_of(replay, places, n_step)
    if not live:
        return
    returns = [expected_return(step, n_step, set(live)) for step in live]
    last = [step for _, _, step in returns]

    def column(steps, name):
        return np.stack([getattr(step, name) for step in steps])

    same = [
        (batch.obs[0], column(live, "vector")),
        (batch.obs[1], column(live, "stack")),
        (batch.next_obs[0], column(last, "next_vector")),
        (batch.next_obs[1], column(last, "next_stack")),
        (batch.actions.continuous, column(live, "continuous")),
        (batch.actions.discrete, column(live, "discrete")),
    ]
    if batch.action_mask is not None:
        same += [
            (batch.action_mask, column(live, "mask")),
            (batch.next_action_mask, column(last, "next_mask")),
        ]
    for found, expected in same:
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(batch.rewards, np.stack([r for r, _, _ in returns]), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(batch.discounts, np.stack([d for _, d, _ in returns]), rtol=1e-5)
    assert batch.action_mask is not None or not any(step.mask.any() for step in steps)


@pytest.mark.slow
@given(
    rounds=played,
    capacity=st.integers(5, 40),
    stacks=st.sampled_from([1, 3]),
    n_step=st.integers(1, 4),
    masked=st.booleans(),
    own_observation=st.booleans(),
    seed=st.integers(0, 99),
)
@hypothesis_settings(max_examples=80, deadline=None)
def test_steps_are_as_they_were_played(rounds, capacity, stacks, n_step, masked, own_observation, seed):
    game = Game(np.random.default_rng(seed), masked=masked, own_observation=own_observation)
    replay = Replay(layout(capacity, stacks=stacks, longest=9), own_observation=own_observation)
    for calls in rounds:
        replay.append(*rollout_of([game.trajectory(*one) for one in calls]))
        assert len(replay) == min(len(game.steps), capacity) or replay.tail
        check(replay, game.steps, n_step)


def test_a_long_rollout_is_stored_except_for_what_does_not_fit():
    game = Game(np.random.default_rng(0))
    replay = Replay(layout(20, longest=9))
    replay.append(*rollout_of([game.trajectory(k % 3, 9, "on") for k in range(12)]))
    check(replay, game.steps, 3)
    replay.append(*rollout_of([game.trajectory(1, 31, "on")]))
    check(replay, game.steps, 3)
    assert len(replay) == 20


@pytest.mark.slow
def test_unshared_frames_displace_the_oldest_steps():
    """Where every observation's frames are new, there is room for fewer steps, and these are whole."""
    game = Game(np.random.default_rng(0), breaks=1.0)
    replay = Replay(layout(2000, longest=9))
    for k in range(40):
        replay.append(*rollout_of([game.trajectory(k % 2, 9, "on") for _ in range(10)]))
    assert 600 < len(replay) < 1500
    check(replay, game.steps, 1)


def test_a_frame_is_kept_once():
    game = Game(np.random.default_rng(0), breaks=0.0)
    replay = Replay(layout(1000, longest=50))
    lengths = [50] * 4 + [30]
    for k, length in enumerate(lengths):
        replay.append(*rollout_of([game.trajectory(0, length, "on" if k < 4 else "over")]))
    assert replay.observations[1].state()["written"] == sum(lengths) + 1


def test_dropped_steps_leave_nothing_behind():
    game = Game(np.random.default_rng(0))
    replay = Replay(layout(64, longest=9, prioritized=True), 0.6)
    for k in range(30):
        replay.append(*rollout_of([game.trajectory(k % 3, 5, "over" if k % 4 else "on", True)]))
    assert replay.finals.slots - len(replay.finals.free) <= 13
    replay.clear()
    assert len(replay) == 0 and len(replay.finals.free) == replay.finals.slots
    assert replay.priorities.tree.total == 0.0


@given(
    lengths=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 11)), min_size=1, max_size=12),
    capacity=st.integers(1, 8),
    seed=st.integers(0, 99),
)
@hypothesis_settings(max_examples=30, deadline=None)
def test_sequences_are_whole_padded_and_know_the_state_before_them(lengths, capacity, seed):
    length = 4
    game = Game(np.random.default_rng(seed), memory_size=3)
    replay = Replay(layout(capacity * length, longest=11, sequence_length=length, memory_size=3))
    sequences = []
    for agent, steps in lengths:
        one = game.trajectory(agent, steps, "on")
        replay.append(*rollout_of([one]))
        sequences += [one.steps[k : k + length] for k in range(0, steps, length)]
    held = len(replay) // length
    units = (replay.tail // length + np.arange(held)) % capacity
    batch = batch_of(replay, replay.places(units))
    for k, sequence in enumerate(sequences[-held:]):
        rows = slice(k * length, k * length + len(sequence))
        assert batch.real[k * length : (k + 1) * length].tolist() == [
            t < len(sequence) for t in range(length)
        ]
        np.testing.assert_array_equal(batch.states[k], sequence[0].memory)
        np.testing.assert_array_equal(batch.obs[0][rows], np.stack([s.vector for s in sequence]))
        np.testing.assert_array_equal(batch.next_obs[0][rows], np.stack([s.next_vector for s in sequence]))
        np.testing.assert_array_equal(batch.next_obs[1][rows], np.stack([s.next_stack for s in sequence]))
        assert not batch.rewards[k * length + len(sequence) : (k + 1) * length].any()


def test_pictures_that_come_as_numbers_are_kept_as_bytes_where_they_are_none_else():
    game = Game(np.random.default_rng(0))
    replay = Replay(layout(50))
    for scale in (255.0, 300.0):
        rollout, rewards = rollout_of([game.trajectory(0, 5, "on")])
        for obs in (rollout.obs, rollout.next_obs):
            obs[1] = (obs[1] / np.float32(scale)).astype(np.float32)
        if scale == 255.0:
            replay.append(rollout, rewards)
            check(replay, game.steps, 1)
        else:
            with pytest.raises(TrainerError, match="'camera' first sent images of bytes"):
                replay.append(rollout, rewards)


def test_columns_of_an_algorithm_come_back():
    game = Game(np.random.default_rng(0))
    replay = Replay(dataclasses.replace(layout(50), extra=(ExtraColumn("value", (2,)),)))
    rollout, rewards = rollout_of([game.trajectory(0, 5, "on"), game.trajectory(1, 7, "over")])
    values = np.arange(24, dtype=np.float32).reshape(12, 2)
    replay.append(rollout, rewards, {"value": values})
    np.testing.assert_array_equal(batch_of(replay, [0, 7, 11]).extra["value"], values[[0, 7, 11]])


def test_all_steps_are_equally_likely():
    game = Game(np.random.default_rng(0))
    replay = Replay(layout(20, longest=9))
    for _ in range(5):
        replay.append(*rollout_of([game.trajectory(0, 9, "on")]))
    drawn = replay.sample(np.random.default_rng(0).random(20000))
    counts = np.bincount(drawn, minlength=20)
    assert counts.min() > 850 and counts.max() < 1150


@pytest.mark.parametrize("alpha", [None, 0.6])
def test_a_batch_has_as_many_steps_as_asked_for_and_is_the_same_with_the_same_random_state(alpha):
    game = Game(np.random.default_rng(0))
    replay = Replay(layout(100, longest=9, prioritized=alpha is not None), alpha)
    replay.append(*rollout_of([game.trajectory(0, 40, "on")]))
    one, other = sampler(), sampler()
    other.load_state_dict(one.state_dict())
    first = one.batch(replay, 16)
    assert len(first) == 16 and (first.weights is None) == (alpha is None)
    np.testing.assert_array_equal(first.rewards, other.batch(replay, 16).rewards)


def test_rewards_are_divided_by_their_deviation():
    game = Game(np.random.default_rng(0))
    replay = Replay(layout(100))
    replay.append(*rollout_of([game.trajectory(0, 40, "on")]))
    one, other = sampler(), sampler()
    scaled = one.batch(replay, 8, scale=np.array([2.0, 4.0], np.float32)).rewards
    np.testing.assert_allclose(scaled * torch.tensor([2.0, 4.0]), other.batch(replay, 8).rewards, rtol=1e-6)
