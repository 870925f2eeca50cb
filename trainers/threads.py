"""How many threads torch computes with."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

ACTING_THREADS = 1
"""A few agents' forward pass: more threads would wait for each other longer than they compute."""
MOST_UPDATE_THREADS = 4
"""Chosen by itself, that is: the products of usual minibatches are too small for more."""
FIRST_PATIENCE, LONGEST_PATIENCE = 4, 64
"""Updates before the slower number of threads is tried again."""


def wait_briefly_for_each_other() -> None:
    """Let OpenMP's threads fall asleep soon when idle; to be called before torch is loaded.

    By default they look for work for milliseconds. On a machine that others use too, the thread that is
    waited for may not have a processor: then each of the many small products of an update takes that long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


class UpdateThreads:
    """Chooses between one thread and `most` for the policy updates, by how long they take.

    While a policy is updated its engines wait for it and their processors are free; but whether more threads
    are faster depends on the size of the networks and on what else the machine does.
    """

    def __init__(self, most: int, *, fixed: bool = False) -> None:
        """`fixed`: always `most`. Sums are rounded differently by another number of threads."""
        self.most = most
        self._fixed = fixed or most == ACTING_THREADS
        self._seconds: dict[int, float] = {}
        """Per step, of the last update with so many threads."""
        self._patience = FIRST_PATIENCE
        self._left = 0

    @property
    def next(self) -> int:
        """The threads of the next update."""
        untried = [count for count in (self.most, ACTING_THREADS) if count not in self._seconds]
        if self._fixed or untried:
            return self.most if self._fixed else untried[0]
        best = min(self._seconds, key=lambda count: self._seconds[count])
        return best if self._left > 0 else self.most + ACTING_THREADS - best

    @contextmanager
    def update(self, steps: int) -> Iterator[None]:
        """Within this, torch has the threads of an update of so many steps; behind it, those of acting."""
        import torch

        count = self.next
        torch.set_num_threads(count)
        began = time.perf_counter()
        try:
            yield
        finally:
            torch.set_num_threads(ACTING_THREADS)
        self._took(count, (time.perf_counter() - began) / max(steps, 1))

    def _took(self, count: int, seconds: float) -> None:
        tried = len(self._seconds) > 1 and self._left == 0
        self._seconds[count] = seconds
        self._left -= 1
        if tried:
            won = seconds == min(self._seconds.values())
            self._patience = FIRST_PATIENCE if won else min(2 * self._patience, LONGEST_PATIENCE)
        if tried or self._left < 0:
            self._left = self._patience
