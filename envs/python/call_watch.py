"""Tells where an environment that this process steps hangs: nothing else would, and the run waits for it."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from .calls import place_of

logger = logging.getLogger(__name__)


class CallWatch:
    """Watches calls from a thread of its own, which starts with the first of them.

    Args:
        seconds: A call that takes longer is named, once.
        poll_seconds: How often that is looked at.
    """

    def __init__(self, seconds: float = 20.0, poll_seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._poll_seconds = poll_seconds
        self._running: dict[int, tuple[str, float]] = {}
        """What is called, and since when, by the number of the thread."""
        self._started = False

    def call(self, function: Callable[[], object], what: str) -> None:
        """Call a function; `what`: it and its environment, for the message."""
        thread = threading.get_ident()
        self._running[thread] = what, time.monotonic()
        if not self._started:
            self._started = True
            threading.Thread(target=self._watch, name="watch of calls", daemon=True).start()
        try:
            function()
        finally:
            self._running.pop(thread, None)

    def _watch(self) -> None:
        warned: dict[int, tuple[str, float]] = {}
        while True:
            time.sleep(self._poll_seconds)
            for thread, call in list(self._running.items()):
                what, since = call
                if call == warned.get(thread) or time.monotonic() < since + self._seconds:
                    continue
                warned[thread] = call
                frame = sys._current_frames().get(thread)
                place = "" if frame is None else place_of(traceback.extract_stack(frame))
                logger.warning(
                    "%s has not returned for %g s, and is waited for%s.", what, self._seconds, place
                )


WATCH = CallWatch()
"""The watch of this process."""
