"""Ratings of players, estimated from all their games at once.

The model is that of Bradley and Terry (1952, Rank analysis of incomplete block designs): a player beats
another with probability sigmoid(r - r'), which on Elo's scale is Elo's expected score. The ratings maximize
the likelihood of the results; a weak prior keeps the ratings of players who won or lost everything finite.
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
"""Of all ratings; only differences are meaningful."""
PRIOR_DEVIATION = 1000.0 / POINTS
"""Standard deviation of a strength before any game, in natural units."""
_TOLERANCE = 1e-10


class Ratings(NamedTuple):
    """The ratings of n players, in Elo points."""

    points: Floats
    """[n], their mean is 1200."""
    errors: Floats
    """[n] standard errors of the distance of each rating from the mean of all."""


def rate(scores: Floats) -> Ratings:
    """The ratings of n players, given their scores.

    Args:
        scores: [n, n] the games that the row won against the column; a draw counts half for both. The
            diagonal is ignored.

    Raises:
        ValueError: the matrix is not square, or an entry is negative or not finite.
    """
    scores = np.array(scores, np.float64)
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f"found scores of shape {scores.shape}, expected [players, players]")
    if not np.isfinite(scores).all() or (scores < 0).any():
        raise ValueError("found negative or non-finite scores, expected numbers of games won")
    np.fill_diagonal(scores, 0.0)
    games = scores + scores.T
    n, precision = len(scores), PRIOR_DEVIATION**-2
    strength = np.zeros(n)
    for _ in range(100):  # Newton's method on a concave function
        expected = 1.0 / (1.0 + np.exp(np.clip(strength[None, :] - strength[:, None], -500, 500)))
        gradient = (scores - games * expected).sum(1) - precision * strength
        step = np.linalg.solve(_information(games, expected, precision), gradient)
        # Far from the maximum the curve is flat, and a full step would overshoot.
        step *= min(1.0, 2.0 / max(1e-300, float(np.abs(step).max())))
        strength += step
        if np.abs(step).max() < _TOLERANCE:
            break
    expected = 1.0 / (1.0 + np.exp(np.clip(strength[None, :] - strength[:, None], -500, 500)))
    covariance = np.linalg.inv(_information(games, expected, precision))
    centering = np.eye(n) - 1.0 / n
    errors = np.sqrt(np.maximum(np.diag(centering @ covariance @ centering), 0.0))
    return Ratings(MEAN + POINTS * (strength - strength.mean()), POINTS * errors)


def _information(games: Floats, expected: Floats, precision: float) -> Floats:
    """[n, n] the negative second derivatives of the log posterior."""
    between = games * expected * (1.0 - expected)
    information: Floats = np.diag(between.sum(1) + precision) - between
    return information
