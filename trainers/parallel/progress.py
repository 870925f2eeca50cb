"""How far each learner has come, in a file that all see: so it is known who keeps others waiting."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FILE = "progress"


class Progress:
    """Counts of exchanges, of each learner: [size] int64."""

    def __init__(self, folder: Path, rank: int, size: int) -> None:
        """Open the file in `folder`; the first learner makes it."""
        path = folder / FILE
        mode = "w+" if rank == 0 else "r+"
        self._counts = np.memmap(path, np.int64, mode, shape=(size,))  # type: ignore[call-overload]
        self._rank = rank

    def entered(self) -> None:
        """This learner has come to its next exchange."""
        self._counts[self._rank] += 1

    def behind(self) -> list[int]:
        """Who has not come to the exchange in which this learner waits."""
        counts = self._counts.tolist()
        return [rank for rank, count in enumerate(counts) if count < counts[self._rank]]
