"""Where a replay keeps one sensor's observations, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ....envs.base import ObsArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Kept:
    """An array of a replay, and which of its rows are of any use."""

    array: NDArray[Any]
    rows: Sequence[slice]


class Observations(Protocol):
    """One sensor's observations, by slots: first the steps' own places, behind them those of ends."""

    def reserve(self, ends: int) -> None:
        """Make room for this many ends; those there are stay as they are."""
        ...

    def room(self, step: int) -> None:
        """The steps numbered from `step` on are written next."""
        ...

    def write(self, slots: Ints, obs: ObsArray, before: Ints, known: Ints) -> None:
        """Put observations [n, *shape] into slots [n], those of one agent in the order of time.

        `before` [n]: the slot of the agent's observation one step earlier, -1 for none; `known` [n]: a slot
        that holds the same observation already, -1 for none.
        """
        ...

    def blank(self, slots: Ints) -> None:
        """These slots are of padding: zeros."""
        ...

    def oldest(self, step: int) -> int:
        """The number of the oldest step, from `step` on, whose observations are still whole."""
        ...

    def pairs(self, slots: Ints, following: Ints) -> tuple[ObsArray, ObsArray]:
        """The observations of B slots and of B others, [B, *shape] each. Good until the next call."""
        ...

    def kept(self, places: Sequence[slice]) -> dict[str, Kept]:
        """All arrays; `places`: of the steps that the replay holds."""
        ...

    def state(self) -> dict[str, Any]:
        """What is to be saved beside the arrays, as JSON has it."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave, before the arrays are filled."""
        ...


class PlainObservations:
    """Observations that are kept as they are."""

    def __init__(self, places: int, shape: tuple[int, ...], dtype: Any) -> None:
        """Room for `places` steps, not touched before it is written."""
        self._of_steps: NDArray[Any] = np.zeros((places, *shape), dtype)
        self._of_ends: NDArray[Any] = np.zeros((0, *shape), dtype)
        self._ends = 0

    def reserve(self, ends: int) -> None:
        """See `Observations`."""
        self._ends, self._of_ends = ends, grown(self._of_ends, ends)

    def room(self, step: int) -> None:
        """Nothing is shared between steps."""

    def write(self, slots: Ints, obs: NDArray[Any], before: Ints, known: Ints) -> None:
        """See `Observations`; neither `before` nor `known` is of use."""
        places = len(self._of_steps)
        ends = slots >= places
        if ends.any():
            self._of_ends[slots[ends] - places] = obs[ends]
            slots, obs = slots[~ends], obs[~ends]
        self._of_steps[slots] = obs

    def blank(self, slots: Ints) -> None:
        """See `Observations`."""
        self._of_steps[slots] = 0

    def oldest(self, step: int) -> int:
        """Every step's observation is its own."""
        return step

    def pairs(self, slots: Ints, following: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
        """See `Observations`."""
        return self._of_steps.take(slots, axis=0), from_both(self._of_steps, self._of_ends, following)

    def kept(self, places: Sequence[slice]) -> dict[str, Kept]:
        """See `Observations`."""
        return {"steps": Kept(self._of_steps, places), "ends": Kept(self._of_ends, [slice(0, self._ends)])}

    def state(self) -> dict[str, Any]:
        """The arrays are all."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """There is nothing but the arrays."""


def from_both(of_steps: NDArray[Any], of_ends: NDArray[Any], slots: Ints) -> NDArray[Any]:
    """The rows of slots, of which those beyond `of_steps` are in `of_ends`."""
    found: NDArray[Any] = of_steps.take(slots, axis=0, mode="clip")
    ends = np.flatnonzero(slots >= len(of_steps))
    if len(ends):
        found[ends] = of_ends[slots[ends] - len(of_steps)]
    return found


def grown(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with at least this many rows, the new ones zeros; it grows by half or more."""
    if rows <= len(array):
        return array
    wider = np.zeros((max(rows, len(array) * 3 // 2), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider
