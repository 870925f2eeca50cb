"""Prioritised drawing: the tree against plain sums, how often steps are drawn, and what they then count."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from lanista.trainers.buffers.replay.buffer import Replay
from lanista.trainers.buffers.replay.priorities import EPSILON, Priorities, SumTree, sequence_priorities
from lanista.trainers.buffers.replay.sampler import ReplaySampler
from replay_steps import Game, layout, rollout_of

weights = st.floats(0.0, 100.0)


@given(
    n=st.integers(1, 40),
    changes=st.lists(st.lists(st.tuples(st.integers(0, 39), weights), max_size=9), max_size=6),
    sums=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=9),
)
@hypothesis_settings(max_examples=100, deadline=None)
def test_the_tree_finds_the_same_as_cumulative_sums(n, changes, sums):
    tree, plain = SumTree(n), np.zeros(n)
    for change in changes:
        leaves = np.array([leaf % n for leaf, _ in change], np.int64)
        tree.set(leaves, np.array([weight for _, weight in change]))
        for leaf, weight in zip(leaves, change):
            plain[leaf] = weight[1]
    np.testing.assert_allclose(tree.total, plain.sum(), rtol=1e-12)
    np.testing.assert_array_equal(tree.weights(np.arange(n)), plain)
    if plain.any():
        wanted = np.array(sums) * tree.total
        found = tree.find(wanted)
        assert (plain[found] > 0).all()
        running = np.concatenate([[0.0], np.cumsum(plain)])
        slack = 1e-9 * plain.sum()
        assert (running[found] <= wanted + slack).all() and (wanted <= running[found + 1] + slack).all()


def test_a_rebuilt_tree_is_bit_for_bit_the_same():
    random = np.random.default_rng(0)
    tree, again = SumTree(100), SumTree(100)
    for _ in range(30):
        tree.set(random.integers(0, 100, 7), random.random(7))
    again.leaves[:] = tree.leaves
    again.build()
    assert again._sums.tobytes() == tree._sums.tobytes()


def test_steps_are_drawn_as_often_as_their_errors_say():
    priorities = Priorities(4, alpha=0.5)
    units = np.arange(3)
    priorities.add(units)
    priorities.update(units, np.array([1.0, 4.0, 16.0], np.float32))
    drawn = priorities.sample(np.random.default_rng(0).random(7000))
    np.testing.assert_allclose(np.bincount(drawn, minlength=4), [1000, 2000, 4000, 0], atol=2)


def test_importance_weights_undo_the_bias():
    priorities = Priorities(4, alpha=1.0)
    units = np.arange(4)
    priorities.add(units)
    priorities.update(units, np.array([1.0, 1.0, 2.0, 4.0], np.float32) - np.float32(EPSILON))
    np.testing.assert_allclose(priorities.importance_weights(units, 4, 1.0), [1, 1, 1 / 2, 1 / 4], rtol=1e-5)
    np.testing.assert_allclose(priorities.importance_weights(units, 4, 0.5), [1, 1, 0.5**0.5, 0.5], rtol=1e-5)
    np.testing.assert_array_equal(priorities.importance_weights(units, 4, 0.0), np.ones(4))


def test_new_steps_come_with_the_largest_error_so_far():
    priorities = Priorities(8, alpha=1.0)
    priorities.add(np.array([0]))
    priorities.update(np.array([0]), np.array([5.0], np.float32))
    priorities.update(np.array([0]), np.array([0.1], np.float32))
    priorities.add(np.array([1]))
    np.testing.assert_allclose(priorities.tree.weights(np.array([1])), 5.0, rtol=1e-5)


def test_errors_that_are_no_numbers_leave_the_priorities_as_they_were():
    """Batches that are left out (`non_finite: drop`) have such errors; one of them would spoil every sum."""
    priorities = Priorities(4, alpha=1.0)
    units = np.arange(3)
    priorities.add(units)
    before = priorities.tree.weights(units)
    priorities.update(units, np.array([np.nan, 2.0, np.inf], np.float32))
    np.testing.assert_allclose(priorities.tree.weights(units), [before[0], 2.0, before[2]], rtol=1e-5)
    assert priorities.largest == 2.0
    priorities.add(np.array([3]))
    assert set(priorities.sample(np.random.default_rng(0).random(100)).tolist()) == {0, 1, 2, 3}
    assert np.isfinite(priorities.importance_weights(np.arange(4), 4, 1.0)).all()


def test_a_sequence_counts_by_its_real_steps():
    errors = np.array([1, 3, 9, 9, 2, 2, 2, 2], np.float32)
    real = np.array([1, 1, 0, 0, 1, 1, 1, 1], bool)
    np.testing.assert_allclose(sequence_priorities(errors, real, 4), [0.9 * 3 + 0.1 * 2, 2.0], rtol=1e-6)


def test_steps_with_large_errors_are_drawn_again():
    game = Game(np.random.default_rng(0))
    replay = Replay(layout(64, longest=50, prioritized=True), 1.0)
    replay.append(*rollout_of([game.trajectory(0, 50, "on")]))
    sampler = ReplaySampler([0.9, 0.9], [False, False], torch.device("cpu"), 0)
    worst = game.steps[17]
    for _ in range(20):
        batch = sampler.batch(replay, 32, beta=1.0)
        there = (batch.obs[0] == torch.from_numpy(worst.vector)).all(dim=1)
        sampler.update_priorities(replay, torch.where(there, 100.0, 0.01))
    batch = sampler.batch(replay, 32, beta=1.0)
    there = (batch.obs[0] == torch.from_numpy(worst.vector)).all(dim=1)
    assert int(there.sum()) > 20
    assert batch.weights[there].max() <= batch.weights.max() == 1.0


def test_a_burn_in_does_not_count_in_the_errors_of_sequences():
    """Algorithms give the errors of the steps that follow it; here the last three of each four."""
    game = Game(np.random.default_rng(0), memory_size=3)
    replay = Replay(layout(40, longest=10, sequence_length=4, memory_size=3, prioritized=True), 1.0)
    replay.append(*rollout_of([game.trajectory(0, 10, "on")]))
    sampler = ReplaySampler([0.9, 0.9], [False, False], torch.device("cpu"), 0)
    batch = sampler.batch(replay, 16, beta=1.0)
    real = batch.real.view(-1, 4)[:, 1:]
    sampler.update_priorities(replay, torch.where(real, 2.0, 50.0).flatten())
    np.testing.assert_allclose(replay.priorities.tree.weights(np.unique(sampler._units)), 2.0, rtol=1e-5)
