"""The errors that engines print, as users are told of them: the first of each kind at once, all counted.

A listener (`listener.py`) finds them in what an engine writes. `EngineErrors` is where the listeners of all
engines of a run meet: a run makes one and passes it to its engines in `EngineOptions.errors`; an environment
that is opened without has one of its own.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

logger = logging.getLogger(__name__)

MOST_KINDS = 100
"""Kinds of errors that are told apart; errors of further kinds are counted together."""
MOST_REPORTED = 20
"""Kinds that are told at once; further ones are only counted."""
_MOST_LISTED = 5
"""Kinds that the summary lists: those of which most were printed."""
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
"""What differs between two errors of one kind: numbers and addresses."""


class ErrorPolicy(Enum):
    """What to do about errors that an engine prints; the values are those of `env_settings.engine_errors`."""

    WARN = "warn"
    """Tell the first of each kind, and count."""
    STOP = "stop"
    """End the run after the first, once it is saved."""
    IGNORE = "ignore"
    """Do not listen."""


@dataclass(frozen=True, slots=True)
class EngineError:
    """An error that an engine has printed."""

    engine: str
    """The engine's kind: `Unity`, `Godot`, `Unreal` or `Python`."""
    environment: str
    """The environment's name in messages: `environment 0`."""
    text: str
    """The error's own sentence, in one line without control characters."""
    place: str = ""
    """The user's file and line, `res://agent.gd:19`; a method where no file is known; empty if neither is."""
    log: Path | None = None
    """The file that holds it, if there is one."""
    is_warning: bool = False
    """Whether it is a warning of the plug-in that serves the trainer: told and counted, no reason to stop."""

    @property
    def kind(self) -> tuple[str, str, str]:
        """What two errors have in common that count as one kind: engine, sentence without numbers, place."""
        return self.engine, _VARIABLE.sub("#", self.text), self.place

    def with_log(self, path: Path, to: Path) -> EngineError:
        """The error after the log `path` was renamed."""
        is_its = self.log is not None and self.log.absolute() == path.absolute()
        return replace(self, log=to) if is_its else self

    def __str__(self) -> str:
        text = self.text.removesuffix(".")
        # What the sentence names itself, as those of Godot's addon do, is not said twice.
        named = re.search(rf"(?<![\w/.:]){re.escape(self.place)}(?![\w/.:])", text)
        return text if not self.place or named else f"{text} ({self.place})"


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How often errors of one kind were printed."""

    first: EngineError
    count: int


class EngineErrors:
    """The errors of the engines of a run. Every method may be called from any thread.

    Args:
        policy: What the user wants done about them.
    """

    def __init__(self, policy: ErrorPolicy = ErrorPolicy.WARN) -> None:
        self.policy = policy
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, str], ErrorCount] = {}
        self._of_further_kinds = 0
        self.new: deque[EngineError] = deque()
        """The first errors of kinds that `take_new` has not returned yet."""
        self.should_stop = False
        """Whether the run is to end for an error; see `ErrorPolicy.STOP`."""
        self._by_environment: dict[str, int] = {}
        self._first: EngineError | None = None
        self._incomplete: set[str] = set()
        self.moved_logs: list[tuple[Path, Path]] = []
        """The logs that were renamed when an engine was to write a new one: from and to, in their order."""

    @property
    def first(self) -> EngineError | None:
        """The first error that is no warning; None if there was none."""
        return self._first

    @property
    def is_complete(self) -> bool:
        """Whether all errors were counted; not if an engine has printed faster than was read."""
        return not self._incomplete

    @property
    def total(self) -> int:
        """How many errors were printed so far."""
        with self._lock:
            return sum(self._by_environment.values())

    @property
    def environments(self) -> list[str]:
        """The environments that have printed errors."""
        with self._lock:
            return list(self._by_environment)

    def counts(self) -> list[ErrorCount]:
        """Every kind that is told apart, in the order of their first errors."""
        with self._lock:
            return list(self._counts.values())

    def of_environment(self, environment: str) -> int:
        """How many errors one environment has printed so far."""
        return self._by_environment.get(environment, 0)

    def take_new(self) -> list[EngineError]:
        """The first error of each kind that has come since the last call."""
        with self._lock:
            new = list(self.new)
            self.new.clear()
        return new

    def add(self, error: EngineError, times: int = 1) -> None:
        """Count an error, and tell it if it is the first of its kind."""
        if self.policy is ErrorPolicy.IGNORE:
            return
        kind = error.kind
        with self._lock:
            if self._first is None and not error.is_warning:
                self._first = error
                self.should_stop = self.policy is ErrorPolicy.STOP
            self._by_environment[error.environment] = self.of_environment(error.environment) + times
            known = self._counts.get(kind)
            if known is not None:
                self._counts[kind] = replace(known, count=known.count + times)
                return
            if len(self._counts) == MOST_KINDS:
                self._of_further_kinds += times
                return
            self._counts[kind] = ErrorCount(error, times)
            self.new.append(error)
            number = len(self._counts)
        if number <= MOST_REPORTED:
            what = "a warning" if error.is_warning else "an error"
            where = f" Its log: {error.log}" if error.log is not None else ""
            logger.warning(
                "%s (%s) has printed %s: %s.%s", error.environment, error.engine, what, error, where
            )
        if number == MOST_REPORTED:
            logger.warning("Errors of further kinds that engines print are only counted.")

    def log_moved(self, path: Path, to: Path) -> None:
        """Note that a log was renamed, so that the errors in it name it by its new name."""
        with self._lock:
            self.moved_logs.append((path.absolute(), to.absolute()))
            for kind, known in self._counts.items():
                self._counts[kind] = replace(known, first=known.first.with_log(path, to))
            if self._first is not None:
                self._first = self._first.with_log(path, to)

    def leave_out(self, environment: str) -> None:
        """Note that an environment prints faster than is read, so that not all errors are counted."""
        if environment not in self._incomplete:
            self._incomplete.add(environment)
            logger.warning(
                "%s prints more than is looked through for errors: part of it is left out, and there may be "
                "more errors than are counted.",
                environment,
            )


def summary(errors: EngineErrors) -> str:
    """How many errors engines have printed, and which, in one line; empty if none.

    Such as `environment 0 (Unity) has printed 6,801 errors: 6,800 x NullReferenceException: ... (A.cs:42)`.
    """
    counts = errors.counts()
    if not counts:
        return ""
    names = errors.environments
    engines = ", ".join(sorted({each.first.engine for each in counts}))
    who = f"{names[0]} ({engines}) has" if len(names) == 1 else f"{len(names)} environments ({engines}) have"
    most = max(counts, key=lambda each: each.count).first
    where = "" if most.log is None else f". The log of {most.environment}: {most.log}"
    return f"{who} printed {in_words(errors.total, counts, is_complete=errors.is_complete)}{where}"


def in_words(total: int, counts: Sequence[ErrorCount], *, is_complete: bool) -> str:
    """The number of errors, and the kinds of which most were printed: `6,801 errors: 6,800 x ...; 1 x ...`.

    Args:
        total: Of all kinds, also of those that are not told apart.
        counts: The kinds.
        is_complete: Whether all were counted.
    """
    most = sorted(counts, key=lambda each: -each.count)
    warnings = {each.first.is_warning for each in counts}
    what = "warning" if warnings == {True} else "error" if True not in warnings else "errors and warning"
    what += "s" if total > 1 else ""
    listed = "; ".join(f"{each.count:,} x {each.first}" for each in most[:_MOST_LISTED])
    more = f"; and {len(most) - _MOST_LISTED} more kinds" if len(most) > _MOST_LISTED else ""
    return f"{'' if is_complete else 'at least '}{total:,} {what}: {listed}{more}"
