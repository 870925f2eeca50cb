"""Listens to what engines print, in their output and in the logs that they write, for errors.

One thread listens to all engines of this process, every half a second. How much it reads at once is limited,
and so is the part of the time that it works: what is printed faster is left out, and said.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .engine_errors import EngineError, EngineErrors, ErrorPolicy, summary
from .error_forms import FoundError, reader_of
from .growing_file import GrowingFile
from .line_scanner import LineScanner
from .options import EngineOptions

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_LONGEST_PAUSE = 5.0
_SHARE = 0.01
"""The part of the time that the thread may work, beside what it has to say at first."""
_CREDIT_SECONDS = 0.2
_MOST_BYTES = 1 << 20
"""Bytes of an output or a log that are read at once."""
_LARGE_LOG = 100 << 20
"""Bytes from which on a log's growth is told."""
_MOST_KINDS = 1000
"""Kinds of errors of which output and log are compared one by one; of further ones, their numbers are."""
_FURTHER = ("", "", "")


class EngineListener:
    """Listens to one engine.

    What an engine writes both to its output and to its log counts once.

    Args:
        errors: Where the errors are counted.
        environment: The environment's name in messages.
        engine: The engine's kind: `Unity`, `Godot`, `Unreal` or `Python`.
        log: The log that the engine writes; None if it is not known.
        repeats: Whether the log only repeats the output. It is read all the same where the output is silent,
            as that of a program with windows may be on Windows.
        summarizes: Whether to log the errors' summary when the engine has ended.
    """

    def __init__(
        self,
        errors: EngineErrors,
        environment: str,
        engine: str,
        log: Path | None,
        *,
        repeats: bool = False,
        summarizes: bool = False,
    ) -> None:
        self._errors = errors
        self._environment = environment
        self._engine = engine
        self._repeats = repeats
        self._summarizes = summarizes
        self._lock = threading.Lock()
        self._closed = False
        self._first: dict[tuple[str, str, str], EngineError] = {}
        self._placed: dict[str, EngineError] = {}
        """The first error of each sentence that was told with a place."""
        self._counts: Counter[tuple[str, str, str]] = Counter()
        """How many of each kind were reported."""
        self._output = LineScanner(reader_of(engine))
        self._of_output: Counter[tuple[str, str, str]] = Counter()
        self._heard = bytearray()
        self._heard_lock = threading.Lock()
        self._left_out = self._has_heard = False
        self._file = None if log is None else GrowingFile(log, _MOST_BYTES)
        self._logged = LineScanner(reader_of(engine))
        self._of_log: Counter[tuple[str, str, str]] = Counter()
        self._began = time.monotonic()
        self._warned_of_size = self._warned_of_unreadable = False

    @classmethod
    def of(
        cls, options: EngineOptions, engine: str, log: Path | None, *, repeats: bool = False
    ) -> EngineListener | None:
        """The listener of an engine that is about to start, unless its errors are to be ignored."""
        errors = options.errors or EngineErrors()
        if errors.policy is ErrorPolicy.IGNORE:
            return None
        return cls(errors, options.name, engine, log, repeats=repeats, summarizes=options.errors is None)

    def start(self) -> None:
        """Listen from now on. A log that several engines write to is read for the first of them alone."""
        if _THREAD.add(self):
            self._file = None

    @property
    def log(self) -> Path | None:
        """The log that is read."""
        return None if self._file is None else self._file.path

    def hear(self, data: bytes) -> None:
        """Take what the engine has written to its output; this costs next to nothing."""
        with self._heard_lock:
            if len(self._heard) + len(data) > _MOST_BYTES:
                self._left_out = True
            else:
                self._heard += data
            is_much = len(self._heard) > _MOST_BYTES // 2
        if is_much:
            _THREAD.wake()

    def poll(self) -> None:
        """Read what the engine has written since the last call."""
        with self._lock:
            if not self._closed:
                self._read()

    def close(self) -> None:
        """Read the rest, since the engine has ended, and stop listening. Does nothing the second time."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._read()
            self._report(self._output.finish(), self._of_output)
            self._report(self._logged.finish(), self._of_log)
        _THREAD.remove(self)
        if self._summarizes and self._counts:
            logger.warning("%s", summary(self._errors))

    def errors(self) -> Sequence[EngineError]:
        """The first of each kind of error that the engine has printed so far."""
        with self._lock:
            if not self._closed:
                self._read()
                self._report(self._output.settle(at_once=True), self._of_output)
                self._report(self._logged.settle(at_once=True), self._of_log)
            return list(self._first.values())

    def _read(self) -> None:
        self._read_output()
        if self._file is None:
            return
        try:
            pieces = self._file.read(only_size=self._repeats and self._has_heard)
        except OSError as error:
            if not self._warned_of_unreadable:
                self._warned_of_unreadable = True
                logger.warning(
                    "%s: its log %s cannot be read (%s), so that errors in it are not told.",
                    self._environment,
                    self._file.path,
                    error.strerror,
                )
            return
        if not pieces:
            self._report(self._logged.settle(), self._of_log)
        for piece in pieces:
            if not piece.follows:
                self._report(self._logged.cut(within_line=piece.start > 0), self._of_log)
            self._report(self._logged.feed(piece.data), self._of_log)
        if self._file.left_out:
            self._errors.leave_out(self._environment)
        self._check_size(self._file)

    def _read_output(self) -> None:
        with self._heard_lock:
            data, left_out = bytes(self._heard), self._left_out
            self._has_heard = self._has_heard or bool(data)
            self._heard.clear()
            self._left_out = False
        found = self._output.feed(data) if data else self._output.settle()
        self._report(found, self._of_output)
        if left_out:
            self._report(self._output.cut(), self._of_output)
            self._errors.leave_out(self._environment)

    def _report(self, found: Sequence[FoundError], of_source: Counter[tuple[str, str, str]]) -> None:
        """Count errors of the output or of the log that the other has not brought before."""
        for one, times in Counter(found).items():
            log = None if self._file is None else self._file.path
            error = EngineError(
                self._engine, self._environment, one.text, one.place, log, is_warning=one.is_warning
            )
            if error.place:
                if len(self._placed) < _MOST_KINDS:
                    self._placed.setdefault(error.kind[1], error)
            else:  # the lines that tell where it was may have been cut off, as at the engine's end
                error = self._placed.get(error.kind[1], error)
            kind = error.kind
            if kind not in self._counts and len(self._counts) >= _MOST_KINDS:
                kind = _FURTHER
            of_source[kind] += times
            more = of_source[kind] - self._counts[kind]
            if more > 0:
                self._counts[kind] += more
                self._first.setdefault(kind, error)
                self._errors.add(error, more)

    def _check_size(self, file: GrowingFile) -> None:
        if self._warned_of_size or file.size < _LARGE_LOG:
            return
        self._warned_of_size = True
        rate = file.size / (1 << 20) / max(1e-3, (time.monotonic() - self._began) / 60)
        logger.warning(
            "%s: its log %s has grown to %d MB, by %d MB a minute. What is printed at every step takes time "
            "and disk: print less, or mend what is printed.",
            self._environment,
            file.path,
            file.size >> 20,
            rate,
        )


class _ListenerThread:
    """The thread that listens to all engines; it lives while there are any."""

    def __init__(self) -> None:
        self._reset()
        # A forked process has none of its parent's engines, and no thread.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[EngineListener] = []
        self._runs = False
        self._wake = threading.Event()

    def wake(self) -> None:
        """Listen at once, if this has not worked too much yet."""
        self._wake.set()

    def add(self, listener: EngineListener) -> bool:
        """Listen to an engine; return whether another one's log, which is read already, is its own too."""
        with self._lock:
            is_read = listener.log is not None and listener.log in {one.log for one in self._listeners}
            self._listeners.append(listener)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="listener of engines", daemon=True).start()
        return is_read

    def remove(self, listener: EngineListener) -> None:
        """Listen to an engine no longer."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def _run(self) -> None:
        began, worked_before = time.monotonic(), time.thread_time()
        while True:
            with self._lock:
                listeners = list(self._listeners)
                self._runs = bool(listeners)
            if not listeners:
                return
            for listener in listeners:
                try:
                    listener.poll()
                except Exception:  # one engine's log must not end the listening to others
                    logger.exception("What an engine has printed could not be read.")
                    self.remove(listener)
            worked = time.thread_time() - worked_before - _CREDIT_SECONDS
            pause = worked / _SHARE - (time.monotonic() - began)
            time.sleep(min(_LONGEST_PAUSE, max(0.0, pause)))
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()


_THREAD = _ListenerThread()
