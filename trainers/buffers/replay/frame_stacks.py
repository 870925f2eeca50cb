"""Stacks of frames, of which a replay stores each frame once.

An observation that stacks the last S images shares all but the newest with the previous one. So a step holds
the numbers of S frames, and the frames lie in a ring of their own, which overwrites the oldest. Whether an
observation continues the previous one is determined from the frames themselves: where it does not, as at the
start of an episode, all its frames are stored.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....envs.base import ObsArray
from .observations import Ints, Observations, SavedRows, from_both

BLACK = -1
"""The number of a frame of zeros, as before the start of an episode; such a frame is not stored."""
FEWEST_SPARE, SPARE = 1024, 32
"""The frames beyond one for each step: at least `FEWEST_SPARE`, and one for every `SPARE` steps."""
AT_ONCE = 256
"""The number of observations that are compared in one pass, so that temporary copies stay in the cache."""


def spare_frames(places: int, size: int, longest: int) -> int:
    """The number of frames beyond one for each step.

    Half of them are for one call of `write`, at most `longest` steps without a frame in common; the other
    half is how far back in the ring a step may share frames.
    """
    return max(FEWEST_SPARE, places // SPARE, 2 * size * (longest + 2))


class StackedObservations(Observations):
    """Stacks [frames x channels, height, width], the newest frame last, of one sensor."""

    def __init__(self, places: int, shape: tuple[int, ...], dtype: Any, size: int, longest: int) -> None:
        """Make room for `places` steps.

        Args:
            places: of steps.
            shape: of an observation.
            dtype: uint8 or float32.
            size: frames of an observation; it divides the first axis.
            longest: steps that one `write` may bring, with as many final observations.
        """
        self.shape = (shape[0] // size, *shape[1:])
        self.size = size
        spare = spare_frames(places, size, longest)
        self._reach = spare // 2
        self._frames: ObsArray = np.zeros((places + spare, prod(self.shape)), dtype)
        self._numbers: Ints = np.full((places, size), BLACK, np.int64)
        self._finals = np.full((0, size), BLACK, np.int64)
        self._written = 0
        """The number of frames so far; they are numbered, and frame k lies at k modulo the ring's size."""
        self._marks: deque[tuple[int, int]] = deque()
        """The pair (step, frames written before it) of each call of `begin_write`."""
        self._out: dict[int, ObsArray] = {}

    def begin_write(self, step: int) -> None:
        """Note that the steps numbered from `step` on are written next."""
        self._marks.append((step, self._written))

    def oldest(self, step: int) -> int:
        """The oldest complete step from `step` on: none of the frames that it may share is overwritten."""
        lost = self._written - len(self._frames)
        while len(self._marks) > 1 and (self._marks[1][0] <= step or self._marks[0][1] - self._reach < lost):
            self._marks.popleft()
        return max(step, self._marks[0][0]) if self._marks else step

    # Writing --------------------------------------------------------------------------------------------

    def write(self, slots: Ints, obs: ObsArray, before: Ints, known: Ints) -> None:
        """Put observations [n, *shape] into slots [n], storing only the frames that are new."""
        stacks = np.ascontiguousarray(obs).reshape(len(slots), self.size, -1)
        within = _positions(slots, before)
        earlier = self._within_reach(before)
        again = self._within_reach(known)
        numbers = np.full((len(slots), self.size), BLACK, np.int64)
        stored = again[:, 0] != _OUT_OF_REACH
        continues = ~stored & self._continues_previous(stacks, within, earlier)
        fresh = _fresh(stacks, stored, continues)
        count = int(fresh.sum())
        numbers[fresh] = self._written + np.arange(count)
        self._frames[numbers[fresh] % len(self._frames)] = stacks[fresh]
        self._written += count
        numbers[stored] = again[stored]
        for i in np.flatnonzero(~(stored | continues)).tolist():
            _repeat(numbers[i], stacks[i])
        for i in np.flatnonzero(continues).tolist():  # chronologically, each from the previous one
            numbers[i, :-1] = (numbers[within[i]] if within[i] >= 0 else earlier[i])[1:]
        final = slots >= len(self._numbers)
        self._numbers[slots[~final]] = numbers[~final]
        self._finals[slots[final] - len(self._numbers)] = numbers[final]

    def clear(self, slots: Ints) -> None:
        """Set these slots, which are padding, to stacks of zeros."""
        self._numbers[slots] = BLACK

    def _within_reach(self, slots: Ints) -> Ints:
        """[n, size] the frame numbers of these slots; `_OUT_OF_REACH` where too old or without a slot."""
        numbers: Ints = from_both(self._numbers, self._finals, np.maximum(slots, 0))
        old = (numbers < self._written - self._reach) & (numbers != BLACK)
        numbers[old.any(axis=1) | (slots < 0)] = _OUT_OF_REACH
        return numbers

    def _continues_previous(self, stacks: ObsArray, within: Ints, earlier: Ints) -> NDArray[np.bool_]:
        """[n] whether all but the newest frame equal the newer ones of the previous observation."""
        continues = np.zeros(len(stacks), np.bool_)
        inside = np.flatnonzero(within >= 0)
        for some in np.split(inside, range(AT_ONCE, len(inside), AT_ONCE)):
            same = stacks[some, :-1] == stacks[within[some], 1:]
            continues[some] = same.all(axis=(1, 2))
        for i in np.flatnonzero((within < 0) & (earlier[:, 0] != _OUT_OF_REACH)).tolist():
            continues[i] = np.array_equal(stacks[i, :-1], self._gather(earlier[i, 1:]))
        return continues

    # Reading --------------------------------------------------------------------------------------------

    def pairs(self, slots: Ints, following: Ints) -> tuple[ObsArray, ObsArray]:
        """The observations at both slots, as views of one array that holds frames shared by both once."""
        numbers = self._numbers[slots]
        ahead: Ints = from_both(self._numbers, self._finals, following)
        shared = bool((numbers[:, 1:] == ahead[:, :-1]).all())
        wanted = np.concatenate([numbers, ahead[:, -1:] if shared else ahead], axis=1)
        frames = self._gather(wanted.ravel(), self._output(wanted.size))
        frames = frames.reshape(len(slots), wanted.shape[1], *self.shape)
        whole = (len(slots), self.size * self.shape[0], *self.shape[1:])
        return frames[:, : self.size].reshape(whole), frames[:, -self.size :].reshape(whole)

    def _output(self, frames: int) -> ObsArray:
        """An array that is reused: new memory takes as much time as the copying."""
        if frames not in self._out:
            if len(self._out) > 1:
                self._out.clear()
            self._out[frames] = np.empty((frames, self._frames.shape[1]), self._frames.dtype)
        return self._out[frames]

    def _gather(self, numbers: Ints, out: ObsArray | None = None) -> ObsArray:
        """[n, words] the frames of these numbers."""
        found = self._frames.take(numbers % len(self._frames), axis=0, out=out, mode="clip")
        black = numbers == BLACK
        if black.any():
            found[black] = 0
        return found

    # Saving ---------------------------------------------------------------------------------------------

    def saved_rows(self, places: Sequence[slice]) -> dict[str, SavedRows]:
        """All arrays to be saved, by name; `places` are those of the steps that the replay holds."""
        return {
            "numbers": SavedRows(self._numbers, places),
            "ends": SavedRows(self._finals, [slice(0, self._final_count)]),
            "frames": SavedRows(self._frames, [slice(0, min(self._written, len(self._frames)))]),
        }

    def state(self) -> dict[str, Any]:
        """What is saved beside the arrays, as JSON."""
        return {"written": self._written, "marks": [list(mark) for mark in self._marks]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned, before the arrays are filled."""
        self._written = int(state["written"])
        self._marks = deque((int(step), int(frames)) for step, frames in state["marks"])


_OUT_OF_REACH = -2


def _positions(slots: Ints, before: Ints) -> Ints:
    """[n] the position of each of `before` in `slots`, -1 where it is not there."""
    order = np.argsort(slots, kind="stable")
    place = np.minimum(np.searchsorted(slots[order], before), len(slots) - 1)
    return np.where(slots[order][place] == before, order[place], -1)


def _fresh(stacks: ObsArray, stored: NDArray[np.bool_], continues: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[n, size] whether each frame is to be stored: of a first stack neither black ones nor repetitions."""
    fresh = np.zeros(stacks.shape[:2], np.bool_)
    fresh[~stored, -1] = True
    for i in np.flatnonzero(~(stored | continues)).tolist():
        fresh[i] = stacks[i].any(axis=1)
        fresh[i, 1:] &= (stacks[i, 1:] != stacks[i, :-1]).any(axis=1)
    return fresh


def _repeat(numbers: Ints, stack: ObsArray) -> None:
    """Give repetitions within a first stack the number of the frame that they repeat."""
    for k in range(1, len(numbers)):
        if numbers[k] == BLACK and stack[k].any():
            numbers[k] = numbers[k - 1]


_STACKING = re.compile(r"StackingSensor_size(\d+)_")


def stack_sizes(names: Sequence[str], shapes: Sequence[tuple[int, ...]], given: int = 1) -> list[int]:
    """The number of frames that each observation stacks, 1 if it is no stack.

    Only images, of three axes [channels, height, width], are stacks here: their frames follow each other
    along the first axis, the newest last.

    Args:
        names: of the sensors. Unity names one that stacks `StackingSensor_size4_<the sensor's own name>`.
        shapes: of the observations, without the axis of the batch.
        given: the size for images whose sensor's name does not state one.
    """
    return [_stack(name, shape, given) for name, shape in zip(names, shapes, strict=True)]


def _stack(name: str, shape: tuple[int, ...], given: int) -> int:
    if len(shape) != 3:
        return 1
    match = _STACKING.search(name)
    size = int(match[1]) if match else given
    return size if size > 1 and shape[0] % size == 0 else 1
