"""A policy that explores by chance: pi' = (1 - e) softmax + e / n over the available actions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.networks.modules.distributions import (
    ActionDistribution,
    Actions,
    Branches,
    ExplorationSchedule,
    explore,
)


def distribution(logits, branches, mask=None):
    logits = torch.as_tensor(logits, dtype=torch.float64)
    nothing = logits.new_empty(len(logits), 0)
    return ActionDistribution(nothing, nothing[0], logits, Branches(branches), mask)


@given(st.integers(0, 10**6), st.floats(0, 1), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_each_branch_mixes_the_softmax_with_a_uniform_choice_of_available_actions(
    seed, exploration, branches
):
    random = np.random.default_rng(seed)
    rows, width = 5, sum(branches)
    logits = random.normal(size=(rows, width)) * 3
    mask = random.random((rows, width)) < 0.4
    start = 0
    for size in branches:
        mask[np.arange(rows), start + random.integers(size, size=rows)] = False
        start += size
    mixed = explore(distribution(logits, branches, torch.from_numpy(mask)), exploration)
    start = 0
    for k, size in enumerate(branches):
        part = slice(start, start + size)
        weights = np.exp(logits[:, part]) * ~mask[:, part]
        softmax = weights / weights.sum(1, keepdims=True)
        chance = ~mask[:, part] / (~mask[:, part]).sum(1, keepdims=True)
        expected = (1 - exploration) * softmax + exploration * chance
        np.testing.assert_allclose(mixed.probabilities[:, k, :size], expected, atol=1e-7)
        start += size


def test_samples_log_probabilities_and_entropy_are_those_of_the_mixture():
    logits = torch.tensor([[4.0, 0.0, 0.0]]).repeat(20000, 1)
    mask = torch.tensor([[False, False, True]]).repeat(20000, 1)
    mixed = explore(distribution(logits, [3], mask), 0.4)
    p = mixed.probabilities[0, 0]
    assert p[2] == 0
    assert p[1] == pytest.approx(0.6 / (1 + np.exp(4)) + 0.2)
    drawn = mixed.sample(torch.Generator().manual_seed(0)).discrete
    shares = torch.bincount(drawn[:, 0], minlength=3) / len(drawn)
    np.testing.assert_allclose(shares, p, atol=0.02)
    chosen = mixed.log_probs(Actions(mixed.mu, drawn))
    np.testing.assert_allclose(chosen[:, 0], p.log()[drawn[:, 0]], atol=1e-5)
    assert mixed.entropy()[0] == pytest.approx(-float((p[:2] * p[:2].log()).sum()), abs=1e-5)


def test_each_row_may_explore_by_its_own_share():
    logits = torch.zeros(2, 2)
    logits[:, 0] = 3.0
    p = explore(distribution(logits, [2]), torch.tensor([0.0, 1.0])).probabilities[:, 0]
    np.testing.assert_allclose(p[0], torch.softmax(logits[0].double(), 0))
    np.testing.assert_allclose(p[1], [0.5, 0.5])


def test_exploration_falls_on_a_line_and_stays_at_its_end():
    schedule = ExplorationSchedule(0.5, 0.1, 100)
    assert [schedule(step) for step in (0, 50, 100, 10**6)] == pytest.approx([0.5, 0.3, 0.1, 0.1])
    assert ExplorationSchedule(0.5, 0.1, 0)(0) == 0.1
