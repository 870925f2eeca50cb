"""Waiting for what comes soon without falling asleep.

Waking a process takes 50 to 100 microseconds on most machines, as long as a small engine computes. So a
waiter that expects an answer soon polls for a moment and yields the processor between two polls; one that has
learned that answers take long goes to sleep at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from ..base import processors

MAX_SPIN_SECONDS = 0.0005
_SMOOTHING = 1.0 / 8.0
_MAX_COUNTED = 4.0 * MAX_SPIN_SECONDS
"""A wait counts for no more than this, so that one pause does not put the next hundred waits to sleep."""

T = TypeVar("T")

_yield_processor: Callable[[], object] = getattr(os, "sched_yield", lambda: time.sleep(0))


class SpinWait:
    """Waits for one kind of event, and keeps a moving average of how long that has taken."""

    def __init__(self, spin: bool = True) -> None:
        """With `spin=False`, and on a machine with one processor, every wait sleeps."""
        self._spin = spin and processors() > 1
        self._average = 0.0

    def wait(self, poll: Callable[[float], T], timeout: float) -> T:
        """What `poll` finds within `timeout` seconds.

        Args:
            poll: Waits at most this many seconds, 0 for not at all; its result is falsy if nothing was found.
            timeout: In seconds.
        """
        start = time.perf_counter()
        found = poll(0.0)
        if not found and self._spin and self._average < MAX_SPIN_SECONDS:
            end = start + min(MAX_SPIN_SECONDS, timeout)
            while not found and time.perf_counter() < end:
                _yield_processor()
                found = poll(0.0)
        if not found:
            found = poll(timeout)
        waited = min(time.perf_counter() - start, _MAX_COUNTED)
        self._average += _SMOOTHING * (waited - self._average)
        return found
