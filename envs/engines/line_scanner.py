"""The lines of a log, of which any bytes may come, in pieces of any size."""

from __future__ import annotations

import re
import time
import unicodedata
from functools import lru_cache

from .error_forms import ErrorReader, FoundError

_LONGEST_LINE = 4096
"""Bytes of a line that are read."""
_LAST_LINES = 20
"""Lines that are read even if no word in them is an error's: one may begin with them that the next tells."""
_LINES_KNOWN = 1000
"""Lines that need not be cleaned anew when they come again, as those of errors do."""
_LINES_AT_ONCE = 100
"""Lines after which other threads may go on."""
_WAITS_FOR_LINE = 10
"""How often nothing may come while half a line has."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
"""Colors, titles of windows and other commands to a terminal (ECMA-48)."""


class LineScanner:
    """Finds errors in the bytes that an engine writes.

    Args:
        reader: Knows the engine's forms of errors.
    """

    def __init__(self, reader: ErrorReader) -> None:
        self._reader = reader
        self._partial = bytearray()
        """The beginning of a line whose end has not come."""
        self._skips = False
        """Whether the line that is coming is not to be read."""
        self._waited = 0
        """How often nothing has come since something came."""

    def feed(self, data: bytes) -> list[FoundError]:
        """Read what has come; return the errors that are complete with it."""
        found: list[FoundError] = []
        self._waited = 0
        end = data.rfind(b"\n")
        if end >= 0:
            begin = data.index(b"\n")
            self._append(data[:begin])
            first, whole = bytes(self._partial), data[begin:end]
            self._partial.clear()
            if not self._skips:
                found += self._reader.read(clean(first))
            self._skips = False
            found += self._read_all(self._lines(whole))
        self._append(data[end + 1 :])
        return found

    def _read_all(self, lines: list[bytes]) -> list[FoundError]:
        """Read whole lines. The repetitions of an error that repeats itself are only counted."""
        found: list[FoundError] = []
        last: list[FoundError] = []
        at = last_at = yielded_at = 0
        while at < len(lines):
            new = self._reader.read(clean(lines[at][:_LONGEST_LINE]))
            at += 1
            if at - yielded_at > _LINES_AT_ONCE:
                yielded_at = at
                time.sleep(0)
            if not new:
                continue
            found += new
            # After the same line that has completed the same error, the reader is as it was after that one.
            if new == last and lines[at - 1] == lines[last_at - 1]:
                cycle = lines[last_at:at]
                while lines[at : at + len(cycle)] == cycle:
                    found += new
                    at += len(cycle)
            last, last_at = new, at
        return found

    def _lines(self, whole: bytes) -> list[bytes]:
        """The lines that are to be read, of text in which each follows a line's end."""
        if self._reader.is_open or any(word in whole for word in self._reader.words):
            return whole.split(b"\n")[1:]
        return whole.rsplit(b"\n", _LAST_LINES)[1:]

    def settle(self, *, at_once: bool = False) -> list[FoundError]:
        """Note that nothing has come; the second time, or at once, return an open error as it is.

        Half a line, as engines that write in blocks leave it, is waited for longer: it may yet tell where the
        error was.
        """
        self._waited += 1
        most = _WAITS_FOR_LINE if self._partial else 1
        return self._reader.finish() if at_once or self._waited > most else []

    def cut(self, *, within_line: bool = True) -> list[FoundError]:
        """Note that what comes next does not follow; return an open error if it is known where it was.

        Args:
            within_line: Whether it may begin in the middle of a line, the rest of which is not read then.
        """
        self._partial.clear()
        self._skips = within_line
        return [error for error in self._reader.finish() if error.place]

    def finish(self) -> list[FoundError]:
        """Take what has come for everything; return the errors that are complete with it."""
        whole = self._partial and not self._skips
        found = self._reader.read(clean(bytes(self._partial))) if whole else []
        self._partial.clear()
        return found + self._reader.finish()

    def _append(self, part: bytes) -> None:
        room = _LONGEST_LINE - len(self._partial)
        if room > 0:
            self._partial += part[:room]


@lru_cache(_LINES_KNOWN)
def clean(line: bytes) -> str:
    r"""A line as text that neither a terminal nor a browser acts on.

    What is no UTF-8 becomes U+FFFD. Of a line that overwrites itself with `\r`, as a progress bar, what
    stands at last is left.
    """
    text = line.decode(errors="replace")
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text).rstrip("\r")
    text = text.rpartition("\r")[2].replace("\t", "    ")
    return "".join(
        letter for letter in text if unicodedata.category(letter)[0] != "C" and letter not in "\u2028\u2029"
    )
