"""Errors in the output of Python programs: tracebacks, what `logging` writes as errors, and crashes.

What is raised in `__del__` and while Python ends ("Exception ignored in") is no error of a game's step.
"""

from __future__ import annotations

from pathlib import Path

from .base import ErrorReader, FoundError, OpenError, matcher

_HEADER = matcher(r"(?:Exception Group )?Traceback \(most recent call last\):\s*$")
_FRAME = matcher(r'\s*File "(?P<file>.+?)", line (?P<line>\d+)(?:,? in .+)?$')
_RAISED = matcher(r"(?P<name>[^\W\d][\w.]*)(?::.*)?$")
"""The last line of a traceback."""
_CAUSED = matcher(r"The above exception was the direct cause|During handling of the above exception, another")
_IGNORED = matcher(r"Exception ignored (?:in|while|on)\b")
_FATAL = matcher(r"Fatal Python error: .*$")
_LOGGED = matcher(
    r"(?:ERROR|CRITICAL|FATAL):[\w.\-]+:(?P<text>.+)$"
    r"|\S.*? - (?:ERROR|CRITICAL) - (?P<dashed>.+)$"
    r"|\S+ \S+ \| (?:ERROR|CRITICAL)\s*\| (?P<place>[\w.<>]+:[\w.<>]+:\d+) - (?P<piped>.+)$"
    r"|\[[\d:, .\-]+\] (?:ERROR|CRITICAL)(?: in [\w.]+)?: (?P<bracketed>.+)$"
)
"""The usual formats of `logging`, loguru and Flask."""
_GROUP = matcher(r"\s*[+|](?: [+|])*[ \-]")
"""What stands before the lines of exceptions in a group."""
_PACKAGE = Path(__file__).parents[3]
_OURS = tuple(
    str(root / layer)
    for root in {_PACKAGE, _PACKAGE.resolve()}
    for layer in ("envs", "trainers", "agent_processor")
)
_LIBRARY = matcher(
    r"<|.*[/\\](?:site-packages|dist-packages)[/\\]|.*[/\\]lib(?:64)?[/\\]python\d|.*[/\\]Lib[/\\]"
)
_MOST_LINES = 200
"""Lines of a traceback that are no frames, such as source code and marks below it."""
_MOST_TEXT_LINES = 10
"""Further lines of an exception's text."""


class PythonErrorReader(ErrorReader):
    """Finds the errors of Python programs."""

    engine = "Python"
    words = (b"Traceback", b"ERROR", b"CRITICAL", b"FATAL", b"Fatal Python", b"Exception ignored")

    def __init__(self) -> None:
        super().__init__()
        self._raised = False
        """Whether the last line of the open traceback has come: what follows is text, or a further one."""
        self._caused = False
        """Whether the next traceback belongs to the open one, which has caused it."""
        self._ignored = False
        """Whether the next traceback is of an exception that Python ignores."""
        self._innermost_first = False
        """The order of frames, as in crashes."""

    def read(self, line: str) -> list[FoundError]:
        """Read the next line; return the errors that are complete with it."""
        prefix = _GROUP(line)
        line = line[prefix.end() :].removeprefix(" ") if prefix is not None else line
        if _HEADER(line):
            return self._start_traceback()
        opened, found = self._open, list[FoundError]()
        if opened is not None and (self._raised or self._innermost_first):
            if self._belongs(opened, line):
                return found
            found = self.finish()
        elif opened is not None:
            self._read_traceback(opened, line)
            return found
        self._start(line)
        return found

    def finish(self) -> list[FoundError]:
        """Take what has come of an open error for the whole of it, since no more lines come."""
        self._raised = self._caused = self._innermost_first = False
        if self._open is not None and not self._open.text:
            self._open = None  # a traceback that was cut off
        return super().finish()

    def _start_traceback(self) -> list[FoundError]:
        opened = self._open
        if opened is not None and self._caused:
            # Python shows what was raised last as the error; where it was caused is where the user looks.
            opened.other_place, opened.place = opened.place or opened.other_place, ""
            opened.text, opened.lines = "", 0
            self._raised = self._caused = False
            return []
        logged = opened is not None and self._raised and not opened.in_frames and not opened.lines
        if logged:
            self._open = None
        found = self.finish()
        self._open, self._ignored = OpenError("", is_reported=not self._ignored), False
        return found

    def _read_traceback(self, opened: OpenError, line: str) -> None:
        frame = _FRAME(line)
        if frame is not None:
            place, is_users = f"{frame['file']}:{frame['line']}", _is_users(frame["file"])
            opened.in_frames = True
            if is_users:
                opened.place = place
            elif not opened.other_place:
                opened.other_place = place
            return
        raised = _RAISED(line)
        if raised is not None and opened.in_frames:
            opened.text, opened.lines, self._raised = line.strip(), 0, True
            return
        opened.lines += 1
        if opened.lines > _MOST_LINES:
            self.finish()

    def _belongs(self, opened: OpenError, line: str) -> bool:
        """Whether a line after an exception's text is still about it."""
        if not line.strip():
            return True
        if _CAUSED(line):
            self._caused = True
            return True
        frame = _FRAME(line)
        if frame is not None and self._innermost_first:
            opened.add_frame(f"{frame['file']}:{frame['line']}", _is_users(frame["file"]))
            return True
        if _LOGGED(line) or _IGNORED(line) or _FATAL(line):
            return False
        opened.lines += 1
        return opened.lines <= _MOST_TEXT_LINES

    def _start(self, line: str) -> None:
        logged = _LOGGED(line)
        if logged is not None:
            text = logged["text"] or logged["dashed"] or logged["piped"] or logged["bracketed"]
            self._open = OpenError(text, place=logged["place"] or "")
            self._raised = True
        elif _FATAL(line):
            self._open, self._innermost_first = OpenError(line.strip()), True
        elif _IGNORED(line):
            self._ignored = True
        elif line.strip():
            self._ignored = False


def _is_users(file: str) -> bool:
    return not (_LIBRARY(file) or file.startswith(_OURS))
