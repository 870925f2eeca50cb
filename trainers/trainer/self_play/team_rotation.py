"""Which team learns: one of a run's teams at a time, of any behavior, in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol

from .snapshots import rating_change


class RatedOpponent(Protocol):
    """A behavior with teams that do not learn, and the ratings of their snapshots."""

    @property
    def opponent_rating(self) -> float:
        """The rating of the snapshot that the team acts with."""
        ...

    def lower_opponent_rating(self, change: float) -> None:
        """Lower that snapshot's rating: the learning team has gained `change` points in a game against it."""
        ...

    def add_result(self, team: int, result: float) -> None:
        """Record the learning team's `result`, 0 to 1, of a game against this team."""
        ...


class TeamRotation:
    """The teams of a run in the order in which they learn. Thread-safe."""

    def __init__(self) -> None:
        self.learning: int | None = None
        """The team that learns; None before there is any."""
        self.waiting: deque[int] = deque()
        """The other teams; the first one learns next."""
        self.changes = 0
        """How often the learning team has changed in the whole training."""
        self._behaviors: dict[int, list[RatedOpponent]] = {}
        """The behaviors of each team, in the order in which they joined; the first one's rating counts."""
        self.changed = False
        """Whether the learning team has changed since the last `take_change`."""
        self._lock = Lock()

    @property
    def teams(self) -> int:
        """How many teams have appeared, in this run or in the one that it resumes."""
        return 0 if self.learning is None else 1 + len(self.waiting)

    def join(self, team: int, behavior: RatedOpponent) -> None:
        """A behavior's team has appeared; the first one of all learns."""
        with self._lock:
            behaviors = self._behaviors.setdefault(team, [])
            if behavior not in behaviors:
                behaviors.append(behavior)
            if self.learning is None:
                self.learning = team
            elif team != self.learning and team not in self.waiting:
                self.waiting.append(team)

    def change(self) -> None:
        """Let the next team learn; the environments are to be reset."""
        with self._lock:
            assert self.learning is not None, "no team has joined"
            self.waiting.append(self.learning)
            self.learning = self.waiting.popleft()
            self.changes += 1
            self.changed = True

    def take_change(self) -> bool:
        """Whether the learning team has changed since the last call."""
        with self._lock:
            changed, self.changed = self.changed, False
            return changed

    def rate(self, rating: float, result: float) -> float:
        """The change of the learner's rating by a game's result, which the opponents take note of here.

        With more than one opposing team the last one's rating counts, as in ML-Agents.
        """
        opponents = {team: sides for team, sides in self._behaviors.items() if team != self.learning}
        rated = [sides[0] for sides in opponents.values()]
        if not rated:  # nobody plays against the learner yet
            return 0.0
        change = rating_change(rating, rated[-1].opponent_rating, result)
        for side in rated:
            side.lower_opponent_rating(change)
        for team, sides in opponents.items():
            for side in sides:
                side.add_result(team, result)
        return change

    def state_dict(self) -> dict[str, Any]:
        """The learning team and the order of the others."""
        with self._lock:
            return {"learning": self.learning, "waiting": list(self.waiting), "changes": self.changes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, unless another behavior's checkpoint has a later state."""
        with self._lock:
            if self.learning is not None and int(state["changes"]) < self.changes:
                return
            self.learning = state["learning"]
            self.waiting = deque(state["waiting"])
            self.changes = int(state["changes"])
