"""Counterfactual advantages: their definition, their expectation, and the gradient that they give."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.algorithms.coma.evaluation import action_values

pytestmark = pytest.mark.slow

seeds = st.integers(0, 10**6)
branch_sizes = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def random_policy(random, rows, branches):
    """[rows, sum of branch sizes], branch by branch summing to 1."""
    return torch.from_numpy(
        np.concatenate([random.dirichlet(np.ones(size), rows) for size in branches], axis=1)
    )


@given(seeds, branch_sizes)
def test_the_advantage_is_expected_to_be_zero_under_the_policy(seed, branches):
    random = np.random.default_rng(seed)
    values = torch.from_numpy(random.normal(size=(1, 2, sum(branches))))
    policy = random_policy(random, 1, branches)
    sums = torch.zeros(2, len(branches), dtype=torch.float64)
    for joint in itertools.product(*(range(size) for size in branches)):
        start, probability = 0, 1.0
        for action, size in zip(joint, branches, strict=True):
            probability *= float(policy[0, start + action])
            start += size
        sums += probability * action_values(values, policy, torch.tensor([joint]), branches).advantages[0]
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)


def test_the_advantage_is_the_value_of_the_action_minus_the_expected_value():
    values = torch.tensor([[[1.0, 5.0, 10.0, 20.0, 60.0]]])
    policy = torch.tensor([[0.25, 0.75, 0.5, 0.5, 0.0]])
    found = action_values(values, policy, torch.tensor([[1, 2]]), [2, 3])
    assert found.expected.tolist() == [[[4.0, 15.0]]]
    assert found.advantages.tolist() == [[[1.0, 45.0]]]


@given(seeds)
def test_in_a_matrix_game_the_gradient_is_that_of_the_expected_payoff(seed):
    """Sum over all joint actions of their probability times COMA's gradient, against finite differences."""
    random = np.random.default_rng(seed)
    sizes = (2, 3, 2)
    payoff = torch.from_numpy(random.normal(size=sizes))
    logits = [torch.from_numpy(random.normal(size=size)).requires_grad_() for size in sizes]

    def expected_payoff(of_logits):
        p = [torch.softmax(x, 0) for x in of_logits]
        return torch.einsum("abc,a,b,c->", payoff, *p)

    total = torch.zeros((), dtype=torch.float64)
    for joint in itertools.product(*(range(size) for size in sizes)):
        probability = float(
            np.prod([torch.softmax(x, 0)[u].item() for x, u in zip(logits, joint, strict=True)])
        )
        for a, own in enumerate(joint):
            # The exact critic: the payoff of each own action, the others' as they are.
            index = tuple(slice(None) if k == a else u for k, u in enumerate(joint))
            p = torch.softmax(logits[a], 0)[None]
            found = action_values(payoff[index][None, None], p.detach(), torch.tensor([[own]]), [sizes[a]])
            log_prob = p.log()[:, own : own + 1]
            total = total - probability * (log_prob * found.advantages[:, 0]).sum(1).mean()
    total.backward()
    step = 1e-6
    for a, i in ((a, i) for a, size in enumerate(sizes) for i in range(size)):
        moved = []
        for sign in (1, -1):
            there = [x.detach().clone() for x in logits]
            there[a][i] += sign * step
            moved.append(expected_payoff(there).item())
        np.testing.assert_allclose(-logits[a].grad[i], (moved[0] - moved[1]) / (2 * step), atol=1e-7)
