"""The thread in which a trainer learns beside the collector."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..utils.errors import call_without_exit

if TYPE_CHECKING:
    from .learner import Learner


@contextmanager
def paused(threads: Sequence[LearnerThread]) -> Iterator[None]:
    """Within, none of the threads learns: weights, steps and statistics stay as they are."""
    for thread in threads:
        thread.pause()
    try:
        yield
    finally:
        for thread in threads:
            thread.resume()


def stop_all(threads: Sequence[LearnerThread], timeout: float = math.inf) -> None:
    """Let the current update of each be its last; wait at most `timeout` seconds for all threads."""
    for thread in threads:
        thread.request_stop()
    end = time.monotonic() + timeout
    for thread in threads:
        # In slices: without a limit, Windows would not let Ctrl-C through.
        while thread.is_alive() and time.monotonic() < end:
            thread.join(LearnerThread.POLL_INTERVAL)


class LearnerThread(threading.Thread):
    """Advances a trainer beside the collector (`threaded: true`)."""

    IDLE_WAIT = 0.0005
    POLL_INTERVAL = 0.05
    """Seconds between checks whether a thread that is to pause has failed or ended instead."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(name=f"learner {learner.name}", daemon=True)
        self.learner = learner
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._may_learn = threading.Event()
        self._may_learn.set()
        self._is_paused = threading.Event()

    def run(self) -> None:
        """Learn until asked to stop; an error is kept for the main thread."""
        try:
            call_without_exit(self._learn)
        except BaseException as error:
            self.error = error
            self._drain_until_stopped()

    def _learn(self) -> None:
        while not self._stopping.is_set():
            if not self._may_learn.is_set():
                self._is_paused.set()
                self._may_learn.wait()
            if not self.learner.learn():
                time.sleep(self.IDLE_WAIT)

    def _drain_until_stopped(self) -> None:
        """A collector that waits at a full queue must get on to see the error."""
        while not self._stopping.wait(self.IDLE_WAIT):
            self.learner.collected.drain()

    def raise_error(self) -> None:
        """Raise the error with which the thread has failed, if it has."""
        if self.error is not None:
            raise self.error

    def pause(self) -> None:
        """Wait until the current update is over; learn nothing until `resume`."""
        self._is_paused.clear()
        self._may_learn.clear()
        while not self._is_paused.wait(self.POLL_INTERVAL) and self.error is None and self.is_alive():
            pass

    def resume(self) -> None:
        """Learn again."""
        self._may_learn.set()

    def request_stop(self) -> None:
        """Let the current update be the last."""
        self._stopping.set()
        self._may_learn.set()
