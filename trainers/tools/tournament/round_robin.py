"""A round-robin: every participant plays against every other, and a leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from mlagents_envs.base_env import BaseEnv

from .match import Participant, Result, play_all_sides
from .ratings import rate


@dataclass(frozen=True)
class Rank:
    """A participant's row of the leaderboard."""

    name: str
    rating: float
    error: float
    """The standard error of the rating."""
    result: Result
    elo: float | None
    """The rating from its training."""


class RoundRobin:
    """The matches of a tournament, and the ratings that follow from them."""

    def __init__(self, participants: Sequence[Participant]) -> None:
        self.participants = list(participants)
        self.results: dict[tuple[int, int], Result] = {}
        """By pair of participants; the result is the first one's."""

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
