"""A round-robin: everybody against everybody, and who stands where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from mlagents_envs.base_env import BaseEnv

from .match import Result, play_all_sides
from .players import Entrant
from .ratings import rate


@dataclass(frozen=True)
class Standing:
    """One entrant's part of the table."""

    name: str
    rating: float
    error: float
    """Of the rating, its standard error."""
    result: Result
    elo: float | None
    """What its training had rated it."""


class RoundRobin:
    """The results of a tournament, as far as it has come."""

    def __init__(self, entrants: Sequence[Entrant]) -> None:
        self.entrants = list(entrants)
        self.results: dict[tuple[int, int], Result] = {}
        """By pair, of the first one's view."""

    def play(
        self,
        env: BaseEnv,
        games: int,
        *,
        deterministic: bool = False,
        told: Callable[[Entrant, Entrant, Result], object] = lambda first, second, result: None,
    ) -> None:
        """Let every pair play so many games, each side of the game in turn; `told` after every match.

        Raises:
            MatchError: a match cannot be played.
        """
        for i, j in combinations(range(len(self.entrants)), 2):
            first, second = self.entrants[i], self.entrants[j]
            self.results[i, j] = play_all_sides(env, first, second, games, deterministic=deterministic)
            told(first, second, self.results[i, j])

    def between(self, i: int, j: int) -> Result | None:
        """The match of two entrants, of the first one's view."""
        if (i, j) in self.results:
            return self.results[i, j]
        found = self.results.get((j, i))
        return None if found is None else Result(found.losses, found.draws, found.wins)

    def order(self) -> list[int]:
        """The entrants' numbers, the best rated first."""
        return sorted(range(len(self.entrants)), key=lambda k: -self._rated()[0][k])

    def standings(self) -> list[Standing]:
        """The table, the best rated first."""
        points, errors = self._rated()
        table = []
        for k in self.order():
            whole = Result(0, 0, 0)
            for j in range(len(self.entrants)):
                match = self.between(k, j)
                whole = whole if match is None else whole.plus(match)
            entrant = self.entrants[k]
            table.append(Standing(entrant.name, float(points[k]), float(errors[k]), whole, entrant.elo))
        return table

    def as_dict(self) -> dict[str, Any]:
        """The table and all matches as plain values."""
        table = [
            {
                "name": one.name,
                "rating": one.rating,
                "rating_error": one.error,
                **one.result._asdict(),
                "score": one.result.score / max(1, one.result.games),
                **({} if one.elo is None else {"training_elo": one.elo}),
            }
            for one in self.standings()
        ]
        matches = [
            {"first": self.entrants[i].name, "second": self.entrants[j].name, **result._asdict()}
            for (i, j), result in self.results.items()
        ]
        return {"standings": table, "matches": matches}

    def _rated(self) -> tuple[Any, Any]:
        scores = np.zeros((len(self.entrants), len(self.entrants)))
        for (i, j), result in self.results.items():
            scores[i, j] += result.score
            scores[j, i] += result.games - result.score
        return rate(scores)
