"""Where what happens to many environments comes together: one wait for all of them."""

import math
import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from typing import Generic, TypeVar

from ..grpc.spin_wait import ShortWait

_LONGEST = 0.5 if os.name == "nt" else math.inf
"""Seconds of one wait. On Windows Ctrl-C does not end a wait for sockets; it is heard between two waits."""

K = TypeVar("K")
V = TypeVar("V")


class Arrivals(Generic[K, V]):
    """Waits at once for the sockets of all engines and for what other threads announce.

    Sockets are registered in `selector` with the environment that they belong to as data. Other threads
    `post`; a byte through a pair of sockets then ends the wait.
    """

    def __init__(self, awake: bool = True) -> None:
        """`awake`: stay so for answers that come soon; see `ShortWait`."""
        self._wait = ShortWait(awake)
        self.selector = DefaultSelector()
        self._posted: SimpleQueue[tuple[K, V | None]] = SimpleQueue()
        self._found: deque[tuple[K, V | None]] = deque()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self.selector.register(self._bell, EVENT_READ)

    def post(self, environment: K, news: V | None = None) -> None:
        """Announce something of an environment; from any thread, also after `close`."""
        self._posted.put((environment, news))
        # Full: it rings already. Closed: nobody waits any more.
        with suppress(OSError):
            self._rope.send(b"!")

    def wait(self, timeout: float) -> Iterator[tuple[K, V | None]]:
        """What has arrived, after at most `timeout` seconds; what is not taken stays for the next time.

        Yields:
            Environments whose sockets have something, with None, and what was posted, in its order.
        """
        for key, _ in self._wait.wait(self.selector.select, 0 if self._found else min(timeout, _LONGEST)):
            if key.data is None:
                self._hear()
            else:
                self._found.append((key.data, None))
        while self._found:
            yield self._found.popleft()

    def close(self) -> None:
        """Let go of the sockets; those of environments have been taken out of `selector` before."""
        self.selector.close()
        self._bell.close()
        self._rope.close()

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            while len(self._bell.recv(4096)) == 4096:
                pass
        with suppress(Empty):
            while True:
                self._found.append(self._posted.get_nowait())
