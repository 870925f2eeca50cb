"""The thread in which a trainer learns beside the collector."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .learner import Learner


@contextmanager
def resting(threads: Sequence[LearnerThread]) -> Iterator[None]:
    """Within, none of the threads learns: weights, steps and statistics stay as they are."""
    for thread in threads:
        thread.rest()
    try:
        yield
    finally:
        for thread in threads:
            thread.go_on()


class LearnerThread(threading.Thread):
    """Advances a trainer beside the collector (`threaded: true`)."""

    IDLE_WAIT = 0.0005
    LOOK = 0.05
    """Seconds between looks at whether a thread that is to rest has failed instead."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(name=f"learner {learner.name}", daemon=True)
        self.learner = learner
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._may_learn = threading.Event()
        self._may_learn.set()
        self._rests = threading.Event()

    def run(self) -> None:
        """Advance until told to stop; what goes wrong is kept for the main thread."""
        try:
            while not self._stopping.is_set():
                if not self._may_learn.is_set():
                    self._rests.set()
                    self._may_learn.wait()
                if not self.learner.learn():
                    time.sleep(self.IDLE_WAIT)
        except BaseException as error:
            self.error = error
            self._drain_until_stopped()

    def _drain_until_stopped(self) -> None:
        """A collector that waits at a full queue must get on to see the error."""
        while not self._stopping.wait(self.IDLE_WAIT):
            self.learner.collected.drain()

    def rest(self) -> None:
        """Let the update in hand end, wait for that, and learn nothing until `go_on`."""
        self._rests.clear()
        self._may_learn.clear()
        while not self._rests.wait(self.LOOK) and self.error is None:
            pass

    def go_on(self) -> None:
        """Learn again."""
        self._may_learn.set()

    def ask_to_stop(self) -> None:
        """Let the update in hand be the last."""
        self._stopping.set()
        self._may_learn.set()

    def stop(self, patience: float | None = None) -> None:
        """Let the update in hand end, then stop; wait for that, at most for `patience` seconds."""
        self.ask_to_stop()
        self.join(patience)
