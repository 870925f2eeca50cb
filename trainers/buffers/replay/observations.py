"""Storage of observations in a replay, each of them once, and the slots of final ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....envs.base import ObsArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SavedRows:
    """An array of a replay, and the rows of it that are in use."""

    array: NDArray[Any]
    rows: Sequence[slice]


class Observations(ABC):
    """One sensor's observations by slots: first the steps' own places, then those of final observations."""

    _finals: NDArray[Any]
    _final_count = 0

    def reserve(self, finals: int) -> None:
        """Make room for this many final observations; existing ones are preserved."""
        self._final_count, self._finals = finals, grown(self._finals, finals)

    def begin_write(self, step: int) -> None:
        """Note that the steps numbered from `step` on are written next."""
        return

    @abstractmethod
    def write(self, slots: Ints, obs: ObsArray, before: Ints, known: Ints) -> None:
        """Put observations [n, *shape] into slots [n], those of one agent in chronological order.

        `before` [n]: the slot of the agent's previous observation, -1 for none; `known` [n]: a slot that
        already holds the same observation, -1 for none.
        """

    @abstractmethod
    def clear(self, slots: Ints) -> None:
        """Set these slots, which are padding, to zeros."""

    def oldest(self, step: int) -> int:
        """The number of the oldest step, from `step` on, whose observations are still complete."""
        return step

    @abstractmethod
    def pairs(self, slots: Ints, following: Ints) -> tuple[ObsArray, ObsArray]:
        """The observations of B slots and of B others, [B, *shape] each; valid until the next call."""

    @abstractmethod
    def saved_rows(self, places: Sequence[slice]) -> dict[str, SavedRows]:
        """All arrays to be saved, by name; `places` are those of the steps that the replay holds."""

    def state(self) -> dict[str, Any]:
        """What is saved beside the arrays, as JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned, before the arrays are filled."""
        return


class PlainObservations(Observations):
    """Observations that are stored as they are; nothing is shared between steps."""

    def __init__(self, places: int, shape: tuple[int, ...], dtype: Any) -> None:
        """Make room for `places` steps, whose memory is not touched before it is written."""
        self._of_steps: NDArray[Any] = np.zeros((places, *shape), dtype)
        self._finals = np.zeros((0, *shape), dtype)

    def write(self, slots: Ints, obs: NDArray[Any], before: Ints, known: Ints) -> None:
        """Put observations [n, *shape] into slots [n]; `before` and `known` are not needed."""
        places = len(self._of_steps)
        ends = slots >= places
        if ends.any():
            self._finals[slots[ends] - places] = obs[ends]
            slots, obs = slots[~ends], obs[~ends]
        self._of_steps[slots] = obs

    def clear(self, slots: Ints) -> None:
        """Set these slots, which are padding, to zeros."""
        self._of_steps[slots] = 0

    def pairs(self, slots: Ints, following: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
        """The observations of B slots and of B others, [B, *shape] each."""
        return self._of_steps.take(slots, axis=0), from_both(self._of_steps, self._finals, following)

    def saved_rows(self, places: Sequence[slice]) -> dict[str, SavedRows]:
        """All arrays to be saved, by name; `places` are those of the steps that the replay holds."""
        return {
            "steps": SavedRows(self._of_steps, places),
            "ends": SavedRows(self._finals, [slice(0, self._final_count)]),
        }


def from_both(of_steps: NDArray[Any], finals: NDArray[Any], slots: Ints) -> NDArray[Any]:
    """The rows of slots; those beyond `of_steps` are in `finals`."""
    rows: NDArray[Any] = of_steps.take(slots, axis=0, mode="clip")
    ends = np.flatnonzero(slots >= len(of_steps))
    if len(ends):
        rows[ends] = finals[slots[ends] - len(of_steps)]
    return rows


def grown(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with at least this many rows, the new ones zeros; it grows by half or more."""
    if rows <= len(array):
        return array
    wider = np.zeros((max(rows, len(array) * 3 // 2), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider


class PendingNext(NamedTuple):
    """The end of a trajectory whose agent continues."""

    place: int
    """The place of the trajectory's last step."""
    slot: int
    """The slot of the observation after that step, until another trajectory starts with the observation."""


class FinalObservations:
    """Allocates slots for the observations after trajectories' last steps, which belong to no step.

    Also tracks which trajectories are pending: their agents continue.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._free: list[int] = []
        self.slots = 0
        """The number of slots that exist, in use or not."""
        self._pending: dict[int, PendingNext] = {}
        """The pending trajectories by the number of the row with which the agent's next one starts."""
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
        """Free these slots, which are no longer needed."""
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
