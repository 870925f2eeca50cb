"""Waiting for what comes soon without falling asleep.

To be woken takes a process 50 to 100 microseconds on most machines, which is as long as a small engine
computes. So who expects an answer soon looks again and again for a moment, and lets others have the processor
between two looks; who has learnt that answers take long goes to sleep at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from ..base import processors

LONGEST = 0.0005
"""Seconds for which it stays awake."""
_FADING = 1.0 / 8.0
_SLOW = 4.0 * LONGEST
"""A wait counts for no more than this, so that one pause does not put the next hundred waits to sleep."""

T = TypeVar("T")


def _let_others_compute() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)


class ShortWait:
    """Waits for one kind of event, and knows how long that has taken of late."""

    def __init__(self, awake: bool = True) -> None:
        """`awake=False` always sleeps, as does a machine with one processor."""
        self._awake = awake and processors() > 1
        self._usual = 0.0

    def wait(self, look: Callable[[float], T], timeout: float) -> T:
        """What `look` finds within `timeout` seconds.

        Args:
            look: waits for at most so many seconds, 0 for not at all; what it returns is false if nothing
                was found.
            timeout: seconds.
        """
        began = time.perf_counter()
        found = look(0.0)
        if not found and self._awake and self._usual < LONGEST:
            end = began + min(LONGEST, timeout)
            while not found and time.perf_counter() < end:
                _let_others_compute()
                found = look(0.0)
        if not found:
            found = look(timeout)
        took = min(time.perf_counter() - began, _SLOW)
        self._usual += _FADING * (took - self._usual)
        return found
