"""Waiting for events: of one engine's sockets, or of many environments at once.

Waking a process takes 50 to 100 microseconds on most machines, as long as a small engine computes. So a
waiter that expects an answer soon polls for a moment and yields the processor between two polls; one that has
learned that answers take long goes to sleep at once (`SpinWait`).
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from selectors import EVENT_READ
from typing import Generic, TypeVar

from ..base import processors
from .socket_groups import make_selector

_MAX_WAIT = 0.5 if os.name == "nt" else math.inf
"""The most seconds of one wait. On Windows Ctrl-C does not interrupt a wait for sockets; it is handled
between two."""
MAX_SPIN_SECONDS = 0.0005
_SMOOTHING = 1.0 / 8.0
_MAX_COUNTED = 4.0 * MAX_SPIN_SECONDS
"""The most seconds that a wait counts for, so that one pause does not put the next hundred waits to sleep."""

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_yield_processor: Callable[[], object] = getattr(os, "sched_yield", lambda: time.sleep(0))


class SpinWait:
    """Waits for one kind of event, and keeps a moving average of how long that has taken."""

    def __init__(self, spin: bool = True) -> None:
        """`spin`: poll for a moment before a wait sleeps; never done on a machine with one processor."""
        self._spin = spin and processors() > 1
        self._average = 0.0

    def wait(self, poll: Callable[[float], T], timeout: float) -> T:
        """Return what `poll` finds within `timeout` seconds.

        Args:
            poll: Waits at most this many seconds, 0 for not at all; its result is falsy if nothing was found.
            timeout: The longest wait, in seconds.
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


class EventSelector(Generic[K, V]):
    """Waits at once for the sockets of all engines and for what other threads announce.

    Sockets are registered in `selector` with the environment that they belong to as data. Other threads
    `post`; a byte through a pair of sockets then ends the wait.
    """

    def __init__(self, spin: bool = True) -> None:
        """`spin`: stay awake for events that come soon; see `SpinWait`."""
        self._spin_wait = SpinWait(spin)
        self.selector = make_selector()
        self._posted: SimpleQueue[tuple[K, V | None]] = SimpleQueue()
        self._events: deque[tuple[K, V | None]] = deque()
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        self.selector.register(self._wakeup_reader, EVENT_READ)

    def post(self, environment: K, outcome: V | None = None) -> None:
        """Announce an event of an environment; from any thread, also after `close`."""
        self._posted.put((environment, outcome))
        # Full: the waiter is woken anyway. Closed: there is no waiter any more.
        with suppress(OSError):
            self._wakeup_writer.send(b"!")

    def wait(self, timeout: float) -> deque[tuple[K, V | None]]:
        """The events after at most `timeout` seconds. The caller removes them; those left stay for next time.

        Returns:
            Environments whose sockets are readable, with None, and what was posted, in order.
        """
        found = self.selector.select(0)
        if not found and timeout > 0 and not self._events:
            found = self._spin_wait.wait(self.selector.select, min(timeout, _MAX_WAIT))
        for key, _ in found:
            if key.data is None:
                self._take_posted()
            else:
                self._events.append((key.data, None))
        return self._events

    def close(self) -> None:
        """Close the sockets; those of environments have been taken out of `selector` before."""
        self.selector.close()
        self._wakeup_reader.close()
        self._wakeup_writer.close()

    def _take_posted(self) -> None:
        with suppress(BlockingIOError):
            while len(self._wakeup_reader.recv(4096)) == 4096:
                pass
        with suppress(Empty):
            while True:
                self._events.append(self._posted.get_nowait())
