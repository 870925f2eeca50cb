"""How much of a run's processor time may go to callers that come to nothing."""

import threading
import time
from collections.abc import Callable

_BURST_SECONDS = 0.04
"""At once: what some dozens of engines take that join together and fail."""
_SHARE = 0.05
"""Of the processor time that the process takes otherwise."""
_SECONDS_PER_SECOND = 0.002
"""Besides, for a run that waits has none of which this could be a share."""
_LONGEST_WAIT = 0.5
"""Seconds after which it is worth to ask again: nobody can say what the run will have taken by then."""


class WorkBudget:
    """Processor time, as a share of what the process takes: on a busy machine a run gets little, and a caller
    that took as much as ever would take most of it.

    Any thread may use it.

    Args:
        clock: Seconds, monotonic.
        work_clock: Seconds of this process's processor time.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        work_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock, self._work_clock = clock, work_clock
        self._left = _BURST_SECONDS
        self._at, self._worked = clock(), work_clock()
        self._lock = threading.Lock()

    @property
    def wait(self) -> float:
        """Seconds until there may be some left; 0 while there is."""
        with self._lock:
            self._refill()
            if self._left > 0:
                return 0.0
            return min(_LONGEST_WAIT, max(1e-3, -self._left / _SECONDS_PER_SECOND))

    def spend(self, seconds: float) -> None:
        """So much has been taken."""
        with self._lock:
            self._refill()
            self._left -= seconds

    def _refill(self) -> None:
        now, worked = self._clock(), self._work_clock()
        earned = (now - self._at) * _SECONDS_PER_SECOND + (worked - self._worked) * _SHARE
        self._left = min(_BURST_SECONDS, self._left + earned)
        self._at, self._worked = now, worked
