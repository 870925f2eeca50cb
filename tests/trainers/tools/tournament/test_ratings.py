"""Ratings have the maximum likelihood, on Elo's scale, for any results."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from lanista.trainers.tools.tournament.round_robin import MEAN, rate
from lanista.trainers.trainer.self_play.snapshots import expected_result


def test_two_ratings_differ_as_elo_predicts_from_the_score():
    points, errors = rate(np.array([[0, 7500], [2500, 0]]))
    assert expected_result(points[0], points[1]) == pytest.approx(0.75, abs=1e-3)
    # The error of a difference d of two: 1 / sqrt(n p (1 - p)) in natural units, half of it for each.
    assert errors == pytest.approx(0.5 * 173.7178 / np.sqrt(10000 * 0.75 * 0.25), rel=1e-2)


def test_players_that_never_met_are_compared_through_others():
    scores = np.zeros((3, 3))
    scores[0, 1], scores[1, 0] = 760, 240
    scores[1, 2], scores[2, 1] = 760, 240
    points, errors = rate(scores)
    assert points[0] - points[2] == pytest.approx(2 * (points[0] - points[1]), rel=1e-6)
    assert errors[0] > errors[1]


@settings(deadline=None)
@given(arrays(np.float64, (4, 4), elements=st.integers(0, 200).map(float)))
def test_ratings_are_finite_and_maximize_the_likelihood(scores):
    points, errors = rate(scores)
    assert np.isfinite(points).all() and np.isfinite(errors).all()
    assert points.mean() == pytest.approx(MEAN)
    assert posterior(scores, points) >= max(
        posterior(scores, points + 5.0 * push) for push in (*np.eye(4), *-np.eye(4))
    )


def posterior(scores, points):
    """The log posterior of these ratings."""
    total = -0.5 * np.sum(((points - MEAN) / 1000.0) ** 2)
    for i in range(4):
        for j in range(4):
            if i != j and scores[i, j]:
                total += scores[i, j] * np.log(max(1e-300, expected_result(points[i], points[j])))
    return total


def test_an_invalid_score_table_is_refused():
    with pytest.raises(ValueError, match="expected \\[players, players\\]"):
        rate(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="negative"):
        rate(np.array([[0.0, -1.0], [1.0, 0.0]]))
