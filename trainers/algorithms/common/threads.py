"""How many threads torch computes with."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

ACTING_THREADS = 1
"""A few agents' forward pass: more threads would wait for each other longer than they compute."""
MOST_UPDATE_THREADS = 4
"""Chosen by itself, that is: the products of usual minibatches are too small for more."""
TRIAL = 3
"""Minibatches with each number of threads in a trial, the quickest of which counts."""
LONGEST_PATIENCE = 32
"""Updates from one trial to the next, at most."""
SUDDENLY_SLOW = 1.5
"""Times the trial's figure: an update that takes longer makes the next one a trial."""

T = TypeVar("T")


def wait_briefly_for_each_other() -> None:
    """Let OpenMP's threads fall asleep soon when idle; to be called before torch is loaded.

    By default they look for work for milliseconds. On a machine that others use too, the thread that is
    waited for may not have a processor: then each of the many small products of an update takes that long.
    """
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")


class UpdateThreads:
    """Chooses between one thread and `most` for the minibatches of policy updates, by how long they take.

    While a policy is updated its engines wait for it and their processors are free; but whether more threads
    are faster depends on the size of the networks and on what else the machine does. So the first update
    tries both for a few minibatches, as does the next, the fourth, the eighth and so on.
    """

    def __init__(self, most: int, *, fixed: bool = False) -> None:
        """`fixed`: always `most`. Sums are rounded differently by another number of threads."""
        self.most = most
        self.best = most
        self.fixed = fixed or most == ACTING_THREADS
        """There is nothing to choose."""
        self._trials: list[int] = []
        """Numbers of threads of the minibatches to come in a trial, the next one last."""
        self._seconds: dict[int, float] = {}
        self._patience, self._left = 1, 0
        self._minibatches, self._spent, self._since = 0, 0.0, 0.0
        """Of the update in hand, but for those of a trial: how many, and the seconds that they took."""

    @contextmanager
    def update(self) -> Iterator[None]:
        """Within this, torch has the threads of an update; behind it, those of acting."""
        if not self.fixed and self._left == 0 and not self._trials:
            self._seconds.clear()
            self._trials = [ACTING_THREADS] * TRIAL + [self.most] * TRIAL
        self._use(self._trials[-1] if self._trials else self.best)
        self._minibatches, self._spent = 0, 0.0
        try:
            yield
        finally:
            self._use(ACTING_THREADS)
        if not self.fixed and not self._trials:  # else the trial goes on with the next update
            self._look_back()

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Within this, torch has the threads that updates do best with; behind it, those of acting."""
        self._use(self.best)
        try:
            yield
        finally:
            self._use(ACTING_THREADS)

    def over(self, minibatches: Iterable[T]) -> Iterator[T]:
        """The same minibatches of an update; each is learnt from before the next is asked for."""
        self._since = time.perf_counter()
        for minibatch in minibatches:
            yield minibatch
            self._minibatch_done()

    def _minibatch_done(self) -> None:
        now = time.perf_counter()
        taken, self._since = now - self._since, now
        if not self._trials:
            self._minibatches += 1
            self._spent += taken
            return
        count = self._trials.pop()
        self._seconds[count] = min(self._seconds.get(count, taken), taken)
        if not self._trials:
            self.best = min(self._seconds, key=lambda threads: self._seconds[threads])
        self._use(self._trials[-1] if self._trials else self.best)

    def _look_back(self) -> None:
        """An update is over, and no trial is under way: when is the next one?"""
        if self._left == 0:
            self._left, self._patience = self._patience, min(2 * self._patience, LONGEST_PATIENCE)
        self._left -= 1
        if self._spent > SUDDENLY_SLOW * self._minibatches * self._seconds[self.best]:
            self._left, self._patience = 0, 1

    def _use(self, count: int) -> None:
        if self.most != ACTING_THREADS:
            import torch

            torch.set_num_threads(count)
