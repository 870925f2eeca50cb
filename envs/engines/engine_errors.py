"""The errors that engines print, as the user is told of them: the first of each kind at once, and all counted.

A listener (`listener.py`) finds them in what an engine writes. `EngineErrors` is where the listeners of all
engines of a run meet: a run makes one and passes it to its engines in `EngineOptions.errors`; an environment
that is opened without has one of its own.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

logger = logging.getLogger(__name__)

MOST_KINDS = 100
"""Kinds of errors that are told apart; errors of further kinds are counted together."""
MOST_TOLD = 20
"""Kinds that are told at once; further ones are only counted."""
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

    @property
    def kind(self) -> tuple[str, str, str]:
        """What two errors have in common that count as one kind: engine, sentence without numbers, place."""
        return self.engine, _VARIABLE.sub("#", self.text), self.place

    def __str__(self) -> str:
        return self.text + (f" ({self.place})" if self.place else "")


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
        self._new: deque[EngineError] = deque()
        self._by_environment: dict[str, int] = {}

    @property
    def should_stop(self) -> bool:
        """Whether the run is to end for an error; see `ErrorPolicy.STOP`."""
        return self.policy is ErrorPolicy.STOP and bool(self._counts)

    @property
    def total(self) -> int:
        """How many errors were printed so far."""
        return sum(self._by_environment.values())

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
            new = list(self._new)
            self._new.clear()
        return new

    def add(self, error: EngineError, times: int = 1) -> None:
        """Count an error, and tell it if it is the first of its kind."""
        kind = error.kind
        with self._lock:
            self._by_environment[error.environment] = self.of_environment(error.environment) + times
            known = self._counts.get(kind)
            if known is not None:
                self._counts[kind] = replace(known, count=known.count + times)
                return
            if len(self._counts) == MOST_KINDS:
                self._of_further_kinds += times
                return
            self._counts[kind] = ErrorCount(error, times)
            self._new.append(error)
            number = len(self._counts)
        if number <= MOST_TOLD:
            where = f" Its log: {error.log}" if error.log is not None else ""
            logger.warning(
                "%s (%s) has printed an error: %s.%s", error.environment, error.engine, error, where
            )
        if number == MOST_TOLD:
            logger.warning("Errors of further kinds that engines print are only counted.")
