"""Storage of one sensor's observations in a replay, each of them once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ....envs.base import ObsArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SavedRows:
    """An array of a replay, and the rows of it that are in use."""

    array: NDArray[Any]
    rows: Sequence[slice]


class Observations(Protocol):
    """One sensor's observations by slots: first the steps' own places, then those of final observations."""

    def reserve(self, finals: int) -> None:
        """Make room for this many final observations; existing ones are preserved."""
        ...

    def begin_write(self, step: int) -> None:
        """The steps numbered from `step` on are written next."""
        ...

    def write(self, slots: Ints, obs: ObsArray, before: Ints, known: Ints) -> None:
        """Put observations [n, *shape] into slots [n], those of one agent in chronological order.

        `before` [n]: the slot of the agent's previous observation, -1 for none; `known` [n]: a slot that
        already holds the same observation, -1 for none.
        """
        ...

    def clear(self, slots: Ints) -> None:
        """Set these slots, which are padding, to zeros."""
        ...

    def oldest(self, step: int) -> int:
        """The number of the oldest step, from `step` on, whose observations are still complete."""
        ...

    def pairs(self, slots: Ints, following: Ints) -> tuple[ObsArray, ObsArray]:
        """The observations of B slots and of B others, [B, *shape] each; valid until the next call."""
        ...

    def saved_rows(self, places: Sequence[slice]) -> dict[str, SavedRows]:
        """All arrays; `places`: of the steps that the replay holds."""
        ...

    def state(self) -> dict[str, Any]:
        """What is saved beside the arrays, as JSON."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned, before the arrays are filled."""
        ...


class PlainObservations:
    """Observations that are stored as they are."""

    def __init__(self, places: int, shape: tuple[int, ...], dtype: Any) -> None:
        """Room for `places` steps, whose memory is not touched before it is written."""
        self._of_steps: NDArray[Any] = np.zeros((places, *shape), dtype)
        self._finals: NDArray[Any] = np.zeros((0, *shape), dtype)
        self._final_count = 0

    def reserve(self, finals: int) -> None:
        """See `Observations`."""
        self._final_count, self._finals = finals, grown(self._finals, finals)

    def begin_write(self, step: int) -> None:
        """Nothing is shared between steps."""

    def write(self, slots: Ints, obs: NDArray[Any], before: Ints, known: Ints) -> None:
        """See `Observations`; `before` and `known` are not needed."""
        places = len(self._of_steps)
        ends = slots >= places
        if ends.any():
            self._finals[slots[ends] - places] = obs[ends]
            slots, obs = slots[~ends], obs[~ends]
        self._of_steps[slots] = obs

    def clear(self, slots: Ints) -> None:
        """See `Observations`."""
        self._of_steps[slots] = 0

    def oldest(self, step: int) -> int:
        """Every step's observation is its own."""
        return step

    def pairs(self, slots: Ints, following: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `Observations`."""
        return self._of_steps.take(slots, axis=0), from_both(self._of_steps, self._finals, following)

    def saved_rows(self, places: Sequence[slice]) -> dict[str, SavedRows]:
        """See `Observations`."""
        return {
            "steps": SavedRows(self._of_steps, places),
            "ends": SavedRows(self._finals, [slice(0, self._final_count)]),
        }

    def state(self) -> dict[str, Any]:
        """There is nothing but the arrays."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing but the arrays."""


def from_both(of_steps: NDArray[Any], finals: NDArray[Any], slots: Ints) -> NDArray[Any]:
    """The rows of slots; those beyond `of_steps` are in `finals`."""
    found: NDArray[Any] = of_steps.take(slots, axis=0, mode="clip")
    ends = np.flatnonzero(slots >= len(of_steps))
    if len(ends):
        found[ends] = finals[slots[ends] - len(of_steps)]
    return found


def grown(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with at least this many rows, the new ones zeros; it grows by half or more."""
    if rows <= len(array):
        return array
    wider = np.zeros((max(rows, len(array) * 3 // 2), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider
