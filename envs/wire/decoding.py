"""Pictures are decoded by a few threads while whoever waits for them does something else."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from ..processors import processors
from .images import Picture, Seen

MOST_THREADS = 4
WORTH_A_THREAD = 1 << 14
"""Bytes of pixels. Waking a thread takes as long as decoding some thousand of them."""


class Decoding:
    """The pictures of one message, on their way."""

    def __init__(self, pictures: Sequence[Picture], seen: Seen, when_done: Callable[[], None] | None) -> None:
        """Begin, unless there is too little of it: then `finish` does it.

        Args:
            pictures: To decode, each into its own place.
            seen: What has been decoded before.
            when_done: Called once, from any thread, if this is not done at once.
        """
        self._todo = deque(enumerate(pictures))
        self._seen = seen
        self._when_done = when_done
        self._left = len(pictures)
        self._errors: dict[int, Exception] = {}
        self._lock = threading.Lock()
        self._all_done = threading.Event()
        self.apart = _threads() > 1 and sum(picture.out.size for picture in pictures) >= WORTH_A_THREAD
        """Threads are at it."""
        if self.apart:
            for _ in range(min(_threads(), len(pictures))):
                _pool().submit(self._work)

    @property
    def ready(self) -> bool:
        """Whether `finish` would not wait."""
        return not self.apart or self._all_done.is_set()

    def finish(self) -> None:
        """Decode what nobody has begun with, and wait for the rest.

        Raises:
            ObservationError: A picture cannot be decoded; the first one of those.
        """
        self._work()
        self._all_done.wait()
        if self._errors:
            raise self._errors[min(self._errors)]

    def _work(self) -> None:
        while True:
            try:
                number, picture = self._todo.popleft()
            except IndexError:
                return
            try:
                picture.decode(self._seen)
            except Exception as error:  # it is for whoever waits, not for a thread of the pool
                self._errors[number] = error
            with self._lock:
                self._left -= 1
                last = self._left == 0
            if last:
                self._all_done.set()
                if self.apart and self._when_done is not None:
                    self._when_done()


def _threads() -> int:
    return min(MOST_THREADS, processors())


@cache
def _pool() -> ThreadPoolExecutor:
    """Shared by all environments."""
    return ThreadPoolExecutor(_threads(), thread_name_prefix="lanista-png")
