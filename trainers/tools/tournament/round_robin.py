"""A round-robin: every participant plays against every other; their ratings, and a leaderboard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from mlagents_envs.base_env import BaseEnv
from numpy.typing import NDArray

from .match import Participant, Result, play_all_sides

Floats = NDArray[np.float64]

POINTS = 400.0 / math.log(10.0)
"""Elo points of one natural unit of strength."""
MEAN = 1200.0
"""The mean of all ratings; only differences are meaningful."""
PRIOR_DEVIATION = 1000.0 / POINTS
"""Standard deviation of a strength before any game, in natural units."""
_TOLERANCE = 1e-10


class Ratings(NamedTuple):
    """The ratings of n players, in Elo points."""

    points: Floats
    """The ratings [n]; their mean is 1200."""
    errors: Floats
    """The standard errors [n] of the distance of each rating from the mean of all."""


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
    """The negative second derivatives [n, n] of the log posterior."""
    between = games * expected * (1.0 - expected)
    information: Floats = np.diag(between.sum(1) + precision) - between
    return information


@dataclass(frozen=True)
class Rank:
    """A participant's row of the leaderboard."""

    name: str
    rating: float
    error: float
    """The standard error of the rating."""
    result: Result
    elo: float | None
    """The rating from the participant's training."""


class RoundRobin:
    """The matches of a tournament, and the ratings that follow from them."""

    def __init__(self, participants: Sequence[Participant]) -> None:
        self.participants = list(participants)
        self.results: dict[tuple[int, int], Result] = {}
        """The results by pair of participants; each is the first one's."""

    def play(
        self,
        env: BaseEnv,
        games: int,
        *,
        deterministic: bool = False,
        on_match: Callable[[Participant, Participant, Result], object] = lambda first, second, result: None,
    ) -> None:
        """Let every pair play this many games, on each side in turn; calls `on_match` after each match.

        Raises:
            MatchError: a match cannot be played.
        """
        for i, j in combinations(range(len(self.participants)), 2):
            first, second = self.participants[i], self.participants[j]
            self.results[i, j] = play_all_sides(env, first, second, games, deterministic=deterministic)
            on_match(first, second, self.results[i, j])

    def between(self, i: int, j: int) -> Result | None:
        """The result of a participant against another; None if they have not played."""
        if (i, j) in self.results:
            return self.results[i, j]
        found = self.results.get((j, i))
        return None if found is None else Result(found.losses, found.draws, found.wins)

    def order(self) -> list[int]:
        """Indices of the participants, the best rated first."""
        return sorted(range(len(self.participants)), key=lambda k: -self._rated()[0][k])

    def leaderboard(self) -> list[Rank]:
        """All participants, the best rated first."""
        points, errors = self._rated()
        table = []
        for k in self.order():
            whole = Result(0, 0, 0)
            for j in range(len(self.participants)):
                match = self.between(k, j)
                whole = whole if match is None else whole.plus(match)
            participant = self.participants[k]
            table.append(Rank(participant.name, float(points[k]), float(errors[k]), whole, participant.elo))
        return table

    def as_dict(self) -> dict[str, Any]:
        """The leaderboard and all matches as plain values."""
        table = [
            {
                "name": one.name,
                "rating": one.rating,
                "rating_error": one.error,
                **one.result._asdict(),
                "score": one.result.score / max(1, one.result.games),
                **({} if one.elo is None else {"training_elo": one.elo}),
            }
            for one in self.leaderboard()
        ]
        matches = [
            {"first": self.participants[i].name, "second": self.participants[j].name, **result._asdict()}
            for (i, j), result in self.results.items()
        ]
        return {"standings": table, "matches": matches}

    def _rated(self) -> tuple[Any, Any]:
        scores = np.zeros((len(self.participants), len(self.participants)))
        for (i, j), result in self.results.items():
            scores[i, j] += result.score
            scores[j, i] += result.games - result.score
        return rate(scores)
