"""Errors in the log and the output of Unity's players, development and release builds, Mono and IL2CPP.

An exception is its sentence, and its frames below: `  at Game.Act () [0x00012] in /x/Assets/Game.cs:42`, or
`Game.Act () (at Assets/Game.cs:42)`. What a script logs is its text, and below it frames with colons, of
which one tells how it was logged: `UnityEngine.Debug:LogError (object)`. What the engine itself prints as
`ERROR:`, such as shaders without a GPU, has no frames, and stops no script.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from .base import ErrorReader, FoundError, OpenError

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?\|0x[0-9a-fA-F]+\|")
"""What `-timestamps` puts before every line."""
_THROWN = re.compile(
    r"(?:Unhandled Exception: |Rethrow as )?((?:\w[\w.`+]*\.)?\w+(?:Exception|Error)(?::.*)?|"
    r"Assertion failed(?: on expression:.*)?)$"
)
_SDK_WARNING = re.compile(r"(?:Fewer|More) observations \(\d+\) made than vector observation size .*$")
"""What ML-Agents' package warns of, since agents then observe something else than was meant."""
_THROWN_AGAIN = re.compile(r"\[ERROR\] FATAL UNHANDLED EXCEPTION: (.*)$")
_CRASH = re.compile(
    r"(?:\* )?(Assertion(?: at|:) .+|Got a SIG\w+ while executing native code\.?|"
    r"Caught fatal signal - signo:\d+.*|Crash!!!|Stack overflow: IP: .*|Could not allocate memory: .*)"
)
_THROWN_FRAME = re.compile(
    r"\s+at (?P<method>\(wrapper .+?|\S+?) ?"
    r"(?:\(.*\)(?: (?:\[0x\w+\] )?in (?P<file>.*):(?:line )?(?P<line>\d+))?|(?:\(.*\) )?<0x\w+.*>)\s*$"
)
_LISTED_FRAME = re.compile(
    r"(?P<method>[\w.`+<>|/\[\],]+[.:][\w.<>`|\[\],]+) ?\(.*?\)(?: \(at (?P<file>.*):(?P<line>\d+)\))?\s*$"
)
_FULL_FRAME = re.compile(r"0x\w{8,} \([^)]*\) (?:\[(?P<file>[^\]]+):(?P<line>\d+)\] )?(?P<rest>.*)$")
"""A frame of a full stack trace, with the engine's own; a managed one goes on as a listed frame."""
_NATIVE_FRAME = re.compile(r"#\d+\s+0x\w+ in (?P<rest>.*)$")
_BETWEEN = re.compile(r"\s*--- End of |Rethrow as |Unhandled Exception:$")
"""Lines among the frames of exceptions that were caused by others."""
_END = "(Filename:"
_LOGGED_AS_ERROR = re.compile(
    r"UnityEngine\.(?:(?:Debug|Logger)\.(?:LogError|LogException|LogAssertion|Assert)|Assertions\.Assert\b)"
)
_LOGGED_AS_LESS = re.compile(r"UnityEngine\.Debug\.Log(?:Warning)?(?:Format)?$")
_LOGGING = re.compile(r"UnityEngine\.(?:StackTraceUtility|DebugLogHandler|Logger|Debug)\.")
_ENGINE = re.compile(
    r"(?:Unity(?:Engine|Editor)?|System|Mono|Microsoft|Google|Grpc|Newtonsoft)\.|[(<]|object\."
)
_PROJECT = re.compile(r".*?[/\\](?=(?:Assets|Packages|Library[/\\]PackageCache)[/\\])")
"""What is before a project's own folders in the path of a file."""
_MOST_LINES, _MOST_CRASH_LINES = 5, 400
"""Lines without a frame after which what follows is no part of an exception, or of a crash."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What a line is, as far as that does not depend on others."""

    text: str
    """Without the time."""
    method: str | None = None
    """The method of a frame, empty if it is not known; None for a line that is none."""
    place: str = ""
    """The frame's file and line, else its method."""
    thrown: str = ""
    """The sentence of an exception, an assertion or a crash."""
    is_crash: bool = False
    is_warning: bool = False
    """Whether the sentence is a warning of ML-Agents' package."""
    is_thrown_frame: bool = False
    """Whether the frame has the form of those of exceptions."""


@lru_cache(1000)
def _parse(line: str) -> _Line:
    """Read a line; those of errors come again and again."""
    stamp = _STAMP.match(line)
    line = line[stamp.end() :] if stamp is not None else line
    full = _FULL_FRAME.match(line)
    native = full or _NATIVE_FRAME.match(line)
    rest = line if native is None else native["rest"]
    frame = _THROWN_FRAME.match(rest) or _LISTED_FRAME.match(rest)
    if frame is None and native is None:
        if _SDK_WARNING.match(line):
            return _Line(line, thrown=line.strip(), is_warning=True)
        crash = _CRASH.match(line)
        thrown = crash or _THROWN.match(line) or _THROWN_AGAIN.match(line)
        return _Line(line, thrown="" if thrown is None else thrown[1], is_crash=crash is not None)
    method = "" if frame is None else frame["method"].replace(":", ".")
    file, number = ("", "0") if frame is None else (frame["file"] or "", frame["line"] or "0")
    if full is not None and full["file"]:
        file, number = full["file"], full["line"]
    place = method
    if number != "0" and not file.startswith("<"):
        place = f"{_PROJECT.sub('', file, count=1)}:{number}".replace("\\", "/")
    is_thrown = frame is not None and frame.re is _THROWN_FRAME and frame["file"] is not None
    return _Line(line, method, place, is_thrown_frame=is_thrown)


class UnityErrorReader(ErrorReader):
    """Finds Unity's errors."""

    engine = "Unity"
    words = (
        *(b"xception", b"Error", b"ssert", b"] in ", b" observations ("),
        *(b"SIG", b"signo", b"Crash!!!", b"Stack overflow", b"allocate memory"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._previous = ""
        """The last line that was part of no error: if frames follow, it is what a script has logged."""
        self._crashed = False

    def read(self, line: str) -> list[FoundError]:
        """Read the next line; return the errors that are complete with it."""
        parsed = _parse(line)
        found: list[FoundError] = []
        if parsed.method is not None and self._add_frame(parsed, parsed.method):
            return found
        if self._open is not None:
            if self._continues(self._open, parsed):
                return found
            found = self.finish()
        if parsed.thrown:
            self._open = OpenError(parsed.thrown, is_warning=parsed.is_warning)
            self._crashed = parsed.is_crash
        else:
            self._previous = "" if parsed.text.startswith(_END) else parsed.text.strip()
        return found

    def finish(self) -> list[FoundError]:
        """Take what has come of an open error for the whole of it, since no more lines come."""
        self._crashed, self._previous = False, ""
        return super().finish()

    def _continues(self, opened: OpenError, line: _Line) -> bool:
        """Whether a line that is no frame is still about the open error."""
        if line.thrown:
            # One that has caused the next, is told again as the reason of the end, or has crashed the player.
            return bool(
                _BETWEEN.match(line.text)
                or (_THROWN_AGAIN.match(line.text) and line.thrown == opened.text)
                or (self._crashed and line.is_crash)
            )
        if line.text.startswith(_END):
            return False
        if _BETWEEN.match(line.text):
            return True
        opened.lines += 1
        if self._crashed:
            return opened.lines <= _MOST_CRASH_LINES
        return not opened.in_frames and opened.lines <= _MOST_LINES

    def _add_frame(self, line: _Line, method: str) -> bool:
        """Add a frame to the open error; return False for one of no error."""
        if self._open is None:
            if not self._previous or not (line.is_thrown_frame or not method or _ENGINE.match(method)):
                return False
            # Of an exception whose class is called otherwise, or what a script has logged.
            self._open = OpenError(self._previous, told=line.is_thrown_frame)
        if _LOGGED_AS_ERROR.match(method):
            self._open.told = True
        elif _LOGGED_AS_LESS.match(method):
            self._open.told = self._crashed or self._open.is_warning
        place = "" if _LOGGING.match(method) else line.place
        self._open.add_frame(place, bool(method) and not _ENGINE.match(method))
        return True
