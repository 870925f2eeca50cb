"""Slots for the observations after trajectories' last steps, which belong to no step of the replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class PendingNext(NamedTuple):
    """The end of a trajectory whose agent goes on."""

    place: int
    """Of its last step."""
    slot: int
    """Of the observation after it, until another trajectory starts with that observation."""


class FinalObservations:
    """Allocates slots beyond the steps' places, and knows which agents go on from where."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._free: list[int] = []
        self.slots = 0
        """How many exist, in use or not."""
        self._pending: dict[int, PendingNext] = {}
        """By the number of the row with which the agent's next trajectory starts."""
        self._rows: dict[int, int] = {}
        """The row numbers of `_pending` by slot."""

    def allocate(self, place: int, row: int | None) -> int:
        """A slot for the observation after the step at `place`.

        `row`: the number of its row, which may be the first of a later trajectory; None: it will not.
        """
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._places + self.slots
            self.slots += 1
        if row is not None:
            self._pending[row] = PendingNext(place, slot)
            self._rows[slot] = row
        return slot

    def pop_pending(self, row: int) -> PendingNext | None:
        """The trajectory that this row continues, which is then no longer pending; None if there is none."""
        found = self._pending.pop(row, None)
        if found is not None:
            del self._rows[found.slot]
        return found

    def release(self, slots: Iterable[int]) -> None:
        """These slots are no longer needed."""
        for slot in slots:
            row = self._rows.pop(slot, None)
            if row is not None:
                del self._pending[row]
            self._free.append(slot)

    def restore(self, slots: int, free: Iterable[int]) -> None:
        """Resume with so many slots, some of them free; the rows of another process are not pending."""
        self.slots, self._free = slots, list(free)
        self._pending.clear()
        self._rows.clear()

    @property
    def free(self) -> list[int]:
        """Slots that are not in use."""
        return list(self._free)
