"""What the readers of all engines have in common: an error is open while lines come that say where it was."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

_LINES_KNOWN = 1000
"""Lines that need not be matched anew when they come again, as those of errors do."""
_LONGEST_TEXT = 500
"""Characters of an error's sentence, and of its place, that are kept."""


def matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """A function that matches this pattern at the beginning of a line."""
    return lru_cache(_LINES_KNOWN)(re.compile(pattern).match)


@dataclass(frozen=True, slots=True)
class FoundError:
    """An error in a log."""

    text: str
    """Its own sentence, in one line."""
    place: str = ""
    """The user's file and line; a method where no file is known; empty if neither is."""
    is_warning: bool = False


@dataclass(slots=True)
class OpenError:
    """An error whose further lines are being read."""

    text: str
    is_reported: bool = True
    """Whether it is an error at all; lines below the sentence may tell that it is none."""
    is_warning: bool = False
    place: str = ""
    """The first place that is the user's."""
    other_place: str = ""
    """The first place that is the engine's, for an error that has no other."""
    in_frames: bool = False
    """Whether frames have come."""
    lines: int = 0
    """Lines that have come since the sentence and are no frames."""

    def add_frame(self, place: str, is_users: bool) -> None:
        """Note a frame of the error's stack, the innermost first."""
        self.in_frames = True
        if is_users:
            self.place = self.place or place
        else:
            self.other_place = self.other_place or place


class ErrorReader(ABC):
    """Finds the errors in the lines of one log. Lines are given without control characters and their ends."""

    engine: ClassVar[str]
    """The engine's kind."""
    words: ClassVar[tuple[bytes, ...]]
    """Words of which every error has one, in one of its first lines."""

    def __init__(self) -> None:
        self._open: OpenError | None = None

    @property
    def is_open(self) -> bool:
        """Whether an error has begun, of which further lines may come."""
        return self._open is not None

    @abstractmethod
    def read(self, line: str) -> list[FoundError]:
        """Read the next line; return the errors that are complete with it."""

    def finish(self) -> list[FoundError]:
        """Take what has come of an open error for the whole of it, since no more lines come."""
        opened, self._open = self._open, None
        if opened is None or not opened.is_reported:
            return []
        text = opened.text.strip()
        text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
        place = opened.place or opened.other_place
        place = place if len(place) <= _LONGEST_TEXT else f"...{place[-_LONGEST_TEXT:]}"
        return [FoundError(text, place, opened.is_warning)]
