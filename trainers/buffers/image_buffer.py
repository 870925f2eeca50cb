"""Pictures that come a few at a time, each stored once, where it stays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...envs.base import ObsArray
from ...envs.images import as_floats

SLACK = 1.25
"""Of what is expected: trajectories come on top. The system gives memory only as it is filled."""


class ImageBuffer:
    """One sensor's pictures, in the order in which they came."""

    def __init__(self, expected: int) -> None:
        """Begin empty; more than `expected` pictures are taken as well, but copied when there is no room."""
        self._expected = expected
        self._rows: ObsArray | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def reserve(self, pictures: ObsArray) -> None:
        """Make room for these too; where memory ends, nothing has changed."""
        need, rows = self._length + len(pictures), self._rows
        if rows is None:
            self._rows = np.empty(
                (max(need, int(SLACK * self._expected)), *pictures.shape[1:]), pictures.dtype
            )
            return
        # Pictures of a resumed run that came as bytes come as numbers now, or the other way round.
        mixed = rows.dtype != pictures.dtype and rows.dtype != np.float32
        if len(rows) >= need and not mixed:
            return
        capacity = len(rows) if len(rows) >= need else max(need, 3 * len(rows) // 2)
        wider: NDArray[np.float32] | ObsArray
        wider = np.empty((capacity, *rows.shape[1:]), np.float32 if mixed else rows.dtype)
        wider[: self._length] = as_floats(rows[: self._length]) if mixed else rows[: self._length]
        self._rows = wider

    def append(self, pictures: ObsArray) -> None:
        """Take in pictures [n, C, H, W] for which there is room."""
        assert self._rows is not None
        rows = self._rows[self._length : self._length + len(pictures)]
        rows[:] = pictures if pictures.dtype == rows.dtype else as_floats(pictures)
        self._length += len(pictures)

    def pictures(self) -> ObsArray:
        """[N, C, H, W], a view that holds until the album is cleared and filled again."""
        assert self._rows is not None
        return self._rows[: self._length]

    def clear(self) -> None:
        """Forget the pictures, and keep the room; another type of numbers may come."""
        self._length = 0
        if self._rows is not None and self._rows.dtype == np.float32:
            self._rows = None
