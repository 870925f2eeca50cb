"""The returns by which policies are compared: `stop_at_reward`, `keep_best`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

EPISODES = 100
"""The number of last episodes whose mean is compared with `stop_at_reward`."""
FEWEST = 10
"""The fewest finished episodes by which a policy is compared (`keep_best`): a few may be luck."""
PATIENCE = 10 * EPISODES
"""Times the number of seats: after so many episodes without one of its own, a seat is not waited for."""


@dataclass(slots=True)
class SeatReturns:
    """The finished episodes of one seat."""

    of_groups: bool = False
    """The returns are those of groups, which earn rewards, not of single agents."""
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=EPISODES))
    number: int = 0
    """How many episodes of all seats had finished when its last one did, or when it was first expected."""
    count: int = 0
    total: float = 0.0
    """Number and sum of those since the last `RewardHistory.next_mean`."""

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        since = [self.count, self.total]
        recent = list(self.recent)
        return {"of_groups": self.of_groups, "recent": recent, "number": self.number, "since": since}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> SeatReturns:
        """Restore what `state_dict` returned.

        Raises:
            KeyError, TypeError, ValueError: something else was saved.
        """
        count, total = state["since"]
        recent = deque(map(float, state["recent"]), EPISODES)
        return cls(bool(state["of_groups"]), recent, int(state["number"]), int(count), float(total))


class RewardHistory:
    """The returns of finished episodes by seat, which is a team of the behavior.

    Means are taken over the means of the seats, once each of them has enough episodes. Otherwise the seat
    whose episodes are counted first would decide a zero-sum game.
    """

    def __init__(self) -> None:
        """Start without any episode or seat."""
        self._seats: dict[str, SeatReturns] = {}
        self._saved: dict[str, SeatReturns] = {}
        """Those of a checkpoint that have not appeared again."""
        self._finished = 0

    def expect(self, seat: str) -> None:
        """Wait for episodes of this seat too."""
        if seat not in self._seats:
            self._seats[seat] = self._saved.pop(seat, SeatReturns(number=self._finished))

    def cleared(self) -> RewardHistory:
        """A history of the same seats without episodes."""
        new = RewardHistory()
        new._seats = {name: SeatReturns(seat.of_groups) for name, seat in self._seats.items()}
        return new

    def add(self, seat: str, of_agent: float, of_group: float = 0.0, *, ended: bool = True) -> None:
        """Add the returns of an agent's finished episode.

        Args:
            seat: whose.
            of_agent: what the agent earned itself.
            of_group: what its group earned meanwhile.
            ended: the whole group has ended.
        """
        self.expect(seat)
        if of_group and not self._seats[seat].of_groups:
            self._seats[seat] = SeatReturns(of_groups=True, number=self._finished)
        own = self._seats[seat]
        if own.of_groups and not ended:
            return
        returned = of_group if own.of_groups else of_agent
        self._finished += 1
        own.recent.append(returned)
        own.number = self._finished
        own.count += 1
        own.total += returned

    def _present(self) -> list[SeatReturns]:
        """The seats that are waited for, in an order that does not depend on who came first."""
        oldest = self._finished - PATIENCE * len(self._seats)
        return [self._seats[name] for name in sorted(self._seats) if self._seats[name].number >= oldest]

    def recent_mean(self) -> float | None:
        """Mean of each seat's last `EPISODES`; None before as many of each have finished."""
        present = self._present()
        if not present or any(len(seat.recent) < EPISODES for seat in present):
            return None
        return float(np.mean([np.mean(seat.recent) for seat in present]))

    def next_mean(self) -> float | None:
        """Mean of each seat's episodes since the last call that returned one.

        None if those of a seat are fewer than `FEWEST`; all then count for the next call.
        """
        present = self._present()
        if not present or any(seat.count < FEWEST for seat in present):
            return None
        mean = float(np.mean([seat.total / seat.count for seat in present]))
        for seat in self._seats.values():
            seat.count, seat.total = 0, 0.0
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        seats = {name: seat.state_dict() for name, seat in {**self._saved, **self._seats}.items()}
        return {"finished": self._finished, "seats": seats}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; one of an older version, without seats, is empty.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: something else was saved.
        """
        known = list(self._seats)
        self._seats, self._saved, self._finished = {}, {}, 0
        if "seats" in state:
            self._finished = int(state["finished"])
            self._saved = {
                str(name): SeatReturns.from_state_dict(seat) for name, seat in state["seats"].items()
            }
        for seat in known:
            self.expect(seat)
