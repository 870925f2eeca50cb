"""Returns and advantages equal the reference's, for one trajectory and for many at once."""

import numpy as np
import pytest
from goldendata import array, cases
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.algorithms.common.returns import discounted_sums, generalized_advantages


def one(value):
    return np.array([value], dtype=np.float32)


@pytest.mark.parametrize("case", cases("returns", "discount"))
def test_discounted_returns(case):
    given_ = case["inputs"]
    rewards = array(given_["rewards"])
    rewards[-1] += given_["gamma"] * one(given_["value_next"])[0]
    got = discounted_sums(rewards, given_["gamma"], np.array([len(rewards)]))
    np.testing.assert_allclose(got, array(case["expected"]["discounted"]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", cases("returns", "gae"))
def test_generalized_advantages(case):
    given_ = case["inputs"]
    rewards, values = array(given_["rewards"]), array(given_["value_estimates"])
    got = generalized_advantages(
        rewards, values, one(given_["value_next"]), given_["gamma"], given_["lambd"], np.array([len(rewards)])
    )
    np.testing.assert_allclose(got, array(case["expected"]["advantages"]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got + values, array(case["expected"]["returns"]), rtol=1e-5, atol=1e-6)


@given(
    st.lists(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=40), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_trajectories_do_not_leak_into_each_other(trajectories, decay):
    flat = np.array([x for t in trajectories for x in t], dtype=np.float32)
    got = discounted_sums(flat, decay, np.array([len(t) for t in trajectories]))
    expected = []
    for t in trajectories:
        running, sums = 0.0, []
        for x in reversed(t):
            running = x + decay * running
            sums.append(running)
        expected += reversed(sums)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
