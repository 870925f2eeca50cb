"""Ratings of players by all their games at once.

The model is Bradley and Terry's (1952, Rank analysis of incomplete block designs): a player wins against
another with the probability sigmoid(r - r'), which on Elo's scale is Elo's own expectation. Ratings are those
that make the results likeliest; a weak prior keeps those finite that have won or lost everything.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

POINTS = 400.0 / math.log(10.0)
"""Elo points of one natural unit of strength."""
MEAN = 1200.0
"""Of all ratings: only their differences mean anything."""
PRIOR_DEVIATION = 1000.0 / POINTS
"""Of a strength before any game, in natural units."""
_ENOUGH = 1e-10


class Ratings(NamedTuple):
    """Of n players, in Elo points."""

    points: Floats
    """[n], their mean is 1200."""
    errors: Floats
    """[n] standard errors: by how much chance may have moved each of them from the mean of all."""


def rate(scores: Floats) -> Ratings:
    """The ratings of n players by what they have scored.

    Args:
        scores: [n, n] what each has won against each other, a draw being half a win for both. The diagonal
            is passed over.

    Raises:
        ValueError: It is no square, or holds a number below 0 or not finite.
    """
    scores = np.array(scores, np.float64)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f"found scores of the shape {scores.shape}; expected [players, players]")
    if not np.isfinite(scores).all() or (scores < 0).any():
        raise ValueError("found scores below 0 or not finite; a score is a number of games won")
    np.fill_diagonal(scores, 0.0)
    games = scores + scores.T
    n, precision = len(scores), PRIOR_DEVIATION**-2
    strength = np.zeros(n)
    for _ in range(100):  # Newton's method on a concave function
        expected = 1.0 / (1.0 + np.exp(np.clip(strength[None, :] - strength[:, None], -500, 500)))
        gradient = (scores - games * expected).sum(1) - precision * strength
        step = np.linalg.solve(_information(games, expected, precision), gradient)
        # Far from the top the curve is flat, and a whole step would go beyond it.
        step *= min(1.0, 2.0 / max(1e-300, float(np.abs(step).max())))
        strength += step
        if np.abs(step).max() < _ENOUGH:
            break
    expected = 1.0 / (1.0 + np.exp(np.clip(strength[None, :] - strength[:, None], -500, 500)))
    covariance = np.linalg.inv(_information(games, expected, precision))
    centring = np.eye(n) - 1.0 / n
    errors = np.sqrt(np.maximum(np.diag(centring @ covariance @ centring), 0.0))
    return Ratings(MEAN + POINTS * (strength - strength.mean()), POINTS * errors)


def _information(games: Floats, expected: Floats, precision: float) -> Floats:
    """[n, n] minus the second derivatives of the log-posterior."""
    between = games * expected * (1.0 - expected)
    information: Floats = np.diag(between.sum(1) + precision) - between
    return information
