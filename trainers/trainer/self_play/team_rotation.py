"""Which team learns: one of a run's teams at a time, of whatever behaviours, the others in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol

from .snapshots import rating_change


class Side(Protocol):
    """Who plays for a team that does not learn."""

    @property
    def opponent_rating(self) -> float:
        """Of the snapshot that it plays by."""
        ...

    def lower_opponent(self, change: float) -> None:
        """The learning team has gained so much from a game against that snapshot."""
        ...


class TeamRotation:
    """The teams of one run in the order in which they learn. Any thread may call any method."""

    def __init__(self) -> None:
        self.learning: int | None = None
        """The team that learns; None before there is one."""
        self.waiting: deque[int] = deque()
        """The other teams, the one that learns next in front."""
        self.changes = 0
        """How often another team has begun to learn, in the whole training."""
        self._sides: dict[int, Side] = {}
        self._changed = False
        self._lock = Lock()

    @property
    def teams(self) -> int:
        """How many teams have been seen."""
        return len(self._sides)

    def join(self, team: int, side: Side) -> None:
        """A team is there; the first one of all begins to learn. Who shows a team first, plays for it."""
        with self._lock:
            self._sides.setdefault(team, side)
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
            self._changed = True

    def take_change(self) -> bool:
        """Whether another team has begun to learn since this was asked last."""
        with self._lock:
            changed, self._changed = self._changed, False
            return changed

    def rate(self, rating: float, result: float) -> float:
        """How a game's result changes the learner's rating; the opponents' are changed here.

        With more than one opposing team the last one's rating is what counts, as in ML-Agents.
        """
        opponents = [side for team, side in self._sides.items() if team != self.learning]
        change = rating_change(rating, opponents[-1].opponent_rating if opponents else 0.0, result)
        for side in opponents:
            side.lower_opponent(change)
        return change

    def state_dict(self) -> dict[str, Any]:
        """Who learns and who waits."""
        with self._lock:
            return {"learning": self.learning, "waiting": list(self.waiting), "changes": self.changes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as `state_dict` says, unless another behaviour's checkpoint knew of later changes."""
        with self._lock:
            if self.learning is not None and int(state["changes"]) < self.changes:
                return
            self.learning = state["learning"]
            self.waiting = deque(state["waiting"])
            self.changes = int(state["changes"])
