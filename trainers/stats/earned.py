"""What a behavior earns: the one meaning of its reward, by which whatever chooses or is told compares."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeVar

REWARD = "Environment/Cumulative Reward"
"""The tag of the returns of agents."""
GROUP_REWARD = "Environment/Group Cumulative Reward"
"""The tag of the returns of groups."""
EPISODES = 100
"""The number of last episodes whose mean is a behavior's reward."""
FEWEST = 10
"""The fewest finished episodes whose mean is told, or by which a policy is compared: a few may be luck."""
PATIENCE = 10 * EPISODES
"""Times the number of seats: after so many episodes without one of its own, a seat is not waited for."""


@dataclass(slots=True)
class SeatReturns:
    """The finished episodes of one seat."""

    recent: deque[float]
    number: int = 0
    """How many episodes of all seats had finished when its last one did, or when it was first expected."""
    count: int = 0
    total: float = 0.0
    """Number and sum of those since the last `RewardHistory.next_mean`."""

    def add(self, returned: float, number: int) -> None:
        """Add the return of the episode that is the `number`-th of all seats."""
        self.recent.append(returned)
        self.number = number
        self.count += 1
        self.total += returned


class RewardHistory:
    """The returns of a behavior's finished episodes.

    An episode's return is what a group earned where groups earn rewards, else what an agent did; the first
    group reward drops the returns of agents before it. A seat is a team of the behavior: means are taken over
    the means of the seats, once each of them has enough episodes. Otherwise the seat whose episodes are
    counted first would decide a zero-sum game.
    """

    def __init__(self, window: int = EPISODES, kept: int = 1) -> None:
        """Start without any episode or seat.

        Args:
            window: how many of each seat's last episodes `recent_mean` averages at most.
            kept: how many returns `last` holds.
        """
        self.by_groups = False
        """The returns are those of groups, which earn rewards, not of single agents."""
        self.last: deque[float] = deque(maxlen=max(1, kept))
        """The returns of the last finished episodes of all seats, newest first."""
        self._window = window
        self._seats: dict[str, SeatReturns] = {}
        self._saved: dict[str, SeatReturns] = {}
        """The seats of a checkpoint that have not appeared again."""
        self._finished = 0

    def _new_seat(self) -> SeatReturns:
        return SeatReturns(deque(maxlen=self._window), self._finished)

    def expect(self, seat: str) -> None:
        """Wait for episodes of this seat too."""
        if seat not in self._seats:
            self._seats[seat] = self._saved.pop(seat) if seat in self._saved else self._new_seat()

    def expect_saved(self) -> None:
        """Wait for all seats of the checkpoint, since nobody says which of them appear again."""
        for seat in list(self._saved):
            self.expect(seat)

    def cleared(self) -> RewardHistory:
        """A history of the same seats without episodes."""
        new = RewardHistory(self._window, self.last.maxlen or 1)
        new.by_groups = self.by_groups
        for name in list(self._seats):
            new.expect(name)
        return new

    def add(self, seat: str, of_agent: float, of_group: float = 0.0, *, ended: bool = True) -> None:
        """Add the returns of an agent's finished episode.

        Args:
            seat: the agent's.
            of_agent: what the agent earned itself.
            of_group: what its group earned meanwhile.
            ended: the whole group has ended.
        """
        self.expect(seat)
        if of_group:
            self.count_groups()
        if self.by_groups and not ended:
            return
        returned = of_group if self.by_groups else of_agent
        self._finished += 1
        self._seats[seat].add(returned, self._finished)
        self.last.appendleft(returned)

    def count_groups(self) -> None:
        """Count what groups earn from now on: one has earned something. Returns of agents are dropped."""
        if self.by_groups:
            return
        self.last.clear()
        self._seats = {name: self._new_seat() for name in self._seats}
        self._saved = {name: self._new_seat() for name in self._saved}
        self.by_groups = True  # last: whoever reads it in another thread finds no returns of agents then

    def _present(self) -> list[SeatReturns]:
        """The seats that are waited for, in an order that does not depend on who came first."""
        oldest = self._finished - PATIENCE * len(self._seats)
        return [self._seats[name] for name in sorted(self._seats) if self._seats[name].number >= oldest]

    def recent_mean(self, fewest: int = FEWEST) -> float | None:
        """Mean over the seats of the means of their last episodes; None before `fewest` of each are over."""
        present = self._present()
        if not present or any(len(seat.recent) < fewest for seat in present):
            return None
        return fmean(fmean(seat.recent) for seat in present)

    def next_mean(self) -> float | None:
        """Mean of each seat's episodes since the last call that returned one.

        None if those of a seat are fewer than `FEWEST`; all then count for the next call.
        """
        present = self._present()
        if not present or any(seat.count < FEWEST for seat in present):
            return None
        mean = fmean(seat.total / seat.count for seat in present)
        for seat in self._seats.values():
            seat.count, seat.total = 0, 0.0
        return mean

    def state_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        seats = {
            name: {"recent": list(seat.recent), "number": seat.number, "since": [seat.count, seat.total]}
            for name, seat in {**self._saved, **self._seats}.items()
        }
        return {
            "finished": self._finished,
            "by_groups": self.by_groups,
            "last": list(self.last),
            "seats": seats,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; one of an older version, without seats, is empty.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: something else was saved.
        """
        known = list(self._seats)
        self.last.clear()
        self._seats, self._saved, saved = {}, {}, state.get("seats", {})
        of_groups = [bool(seat.get("of_groups")) for seat in saved.values()]  # an older version, seat by seat
        self.by_groups = bool(state.get("by_groups", any(of_groups)))
        self._finished = int(state["finished"]) if "seats" in state else 0
        self.last.extend([float(one) for one in state.get("last", ())][: self.last.maxlen])
        for (name, seat), groups in zip(saved.items(), of_groups, strict=True):
            count, total = seat["since"]
            restored = SeatReturns(
                deque(map(float, seat["recent"]), self._window), int(seat["number"]), int(count), float(total)
            )
            comparable = "by_groups" in state or groups == self.by_groups
            self._saved[str(name)] = restored if comparable else self._new_seat()
        for seat_name in known:
            self.expect(seat_name)


Values = TypeVar("Values", bound=Sequence[float] | Mapping[int, float])


def earned(of_agents: Values, of_groups: Values) -> Values:
    """A behavior's rewards in a run's summaries, values or values by step: of groups where these earn any."""
    values = of_groups.values() if isinstance(of_groups, Mapping) else of_groups
    return of_groups if any(values) else of_agents
