"""Signals that stop a run: Ctrl-C, SIGTERM and the like."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

logger = logging.getLogger(__name__)

INTERRUPTED = 130
"""The exit status of a run that was stopped without saving."""


class StopSignals:
    """While open, the first SIGINT, SIGTERM or SIGHUP stops the run gracefully, the second at once.

    Windows' Ctrl-Break, SIGBREAK, is one of them. Before there is anything to save, and at the second signal,
    KeyboardInterrupt is raised wherever the main thread is. Files are written atomically, so that only the
    last save is lost.
    """

    def __init__(self) -> None:
        self._ask: Callable[[], None] | None = None
        self._asked = False
        self._before: dict[int, object] = {}

    def call(self, ask: Callable[[], None]) -> None:
        """Let the first signal call `ask`: from now on there is something to save.

        `ask` is called between any two instructions of the main thread, so it may only set flags.
        """
        self._ask = ask
        for number in self._before:
            if signal.getsignal(number) != self._signal:
                signal.signal(number, self._signal)
                logger.warning(
                    "The environment had replaced the handler of %s, by which the run is stopped and saved; "
                    "the run's is back. One that needs its own can have a process: --env-workers 1.",
                    signal.Signals(number).name,
                )

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is not threading.main_thread():
            return self  # Python handles signals in the main thread alone
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):  # no system has all of them
            number = getattr(signal, name, None)
            # A run that was started with nohup must not end with the terminal.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if self._ask is None:
            raise KeyboardInterrupt("before anything was learned")
        if self._asked:
            raise KeyboardInterrupt("at once; what was saved before is whole")
        self._asked = True
        self._ask()
