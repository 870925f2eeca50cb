"""Slots for the observations behind trajectories, which no step of the replay has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Awaited(NamedTuple):
    """A trajectory whose agent goes on."""

    place: int
    """Of its last step."""
    slot: int
    """Of the observation behind it, until that begins another trajectory."""


class Ends:
    """Hands out slots behind the steps' places, takes them back, and knows which agents go on from where."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._free: list[int] = []
        self.slots = 0
        """How many there are, in use or not."""
        self._awaited: dict[int, Awaited] = {}
        self._numbers: dict[int, int] = {}
        """The row numbers that are awaited, by the slots that stand in for them."""

    def take(self, place: int, row: int | None) -> int:
        """A slot for what is behind the step at `place`.

        `row`: the number of its row, which may turn up as the first of a trajectory; None: it will not.
        """
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._places + self.slots
            self.slots += 1
        if row is not None:
            self._awaited[row] = Awaited(place, slot)
            self._numbers[slot] = row
        return slot

    def awaited(self, row: int) -> Awaited | None:
        """The trajectory behind which this row is, awaited no longer; None where there is none."""
        found = self._awaited.pop(row, None)
        if found is not None:
            del self._numbers[found.slot]
        return found

    def give_back(self, slots: Iterable[int]) -> None:
        """Nobody needs these slots any more."""
        for slot in slots:
            row = self._numbers.pop(slot, None)
            if row is not None:
                del self._awaited[row]
            self._free.append(slot)

    def restore(self, slots: int, free: Iterable[int]) -> None:
        """Go on with so many slots, some of them free; rows of another process are not awaited."""
        self.slots, self._free = slots, list(free)
        self._awaited.clear()
        self._numbers.clear()

    @property
    def free(self) -> list[int]:
        """Slots that are not in use."""
        return list(self._free)
