"""Images that arrive a few at a time, each stored once, in its final place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...envs.base import ObsArray
from ...envs.images import as_floats

SLACK = 1.25
"""Times the expected number: trajectories exceed it. The system commits memory only as it is filled."""


class ImageBuffer:
    """The images of one sensor, in order of arrival."""

    def __init__(self, expected: int) -> None:
        """Start empty; more than `expected` images are taken too, but copied when the array has to grow."""
        self._expected = expected
        self._rows: ObsArray | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def reserve(self, images: ObsArray) -> None:
        """Make room for these images; if memory runs out, nothing has changed."""
        need, rows = self._length + len(images), self._rows
        if rows is None:
            self._rows = np.empty((max(need, int(SLACK * self._expected)), *images.shape[1:]), images.dtype)
            return
        # In a resumed run images may be uint8 before and float32 after, or the other way round.
        mixed = rows.dtype != images.dtype and rows.dtype != np.float32
        if len(rows) >= need and not mixed:
            return
        capacity = len(rows) if len(rows) >= need else max(need, 3 * len(rows) // 2)
        wider: NDArray[np.float32] | ObsArray
        wider = np.empty((capacity, *rows.shape[1:]), np.float32 if mixed else rows.dtype)
        wider[: self._length] = as_floats(rows[: self._length]) if mixed else rows[: self._length]
        self._rows = wider

    def append(self, images: ObsArray) -> None:
        """Append images [n, C, H, W] for which there is room."""
        assert self._rows is not None
        rows = self._rows[self._length : self._length + len(images)]
        rows[:] = images if images.dtype == rows.dtype else as_floats(images)
        self._length += len(images)

    def images(self) -> ObsArray:
        """[N, C, H, W], a view that is valid until the buffer is cleared and filled again."""
        assert self._rows is not None
        return self._rows[: self._length]

    def clear(self) -> None:
        """Discard the images but keep the memory; the next ones may have another dtype."""
        self._length = 0
        if self._rows is not None and self._rows.dtype == np.float32:
            self._rows = None
