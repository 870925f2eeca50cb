"""Errors in the log and the output of Unity's players, development and release builds, Mono and IL2CPP.

An exception is its sentence, and its frames below: `  at Game.Act () [0x00012] in /x/Assets/Game.cs:42`, or
`Game.Act () (at Assets/Game.cs:42)`. What a script logs is its text, and below it frames with colons, of
which one tells how it was logged: `UnityEngine.Debug:LogError (object)`. What the engine itself prints as
`ERROR:`, such as shaders without a GPU, has no frames, and stops no script.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from functools import lru_cache

from .base import ErrorReader, FoundError, OpenError

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?\|0x[0-9a-fA-F]+\|")
"""What `-timestamps` puts before every line."""
_THROWN = re.compile(
    r"(?:Unhandled Exception: |Rethrow as )?((?:\w[\w.`+]*\.)?\w+(?:Exception|Error)(?::.*)?|"
    r"Assertion failed(?: on expression:.*)?)$"
)
_ENGINES_OWN = re.compile(
    r"Assertion failed|Invalid (?:\w+)?AABB\b|Converting invalid MinMaxAABB|IsFinite\(|"
    r"\S+ assign attempt for '.*' is not valid\.|Coroutine couldn't be started because |"
    r'"\w+" can only be called on |SendMessage \S+ has no receiver!|'
    r"Trying to Invoke method: .* couldn't be |Scene '.*' couldn't be loaded because "
)
"""Errors that the engine itself prints of what scripts do, in one line; below them are at most the frames."""
_SDK_WARNING = re.compile(r"(?:Fewer|More) observations \(\d+\) made than vector observation size .*$")
"""What ML-Agents' package warns of, since agents then observe something else than was meant."""
_THROWN_AGAIN = re.compile(r"\[ERROR\] FATAL UNHANDLED EXCEPTION: (.*)$")
_CRASH = re.compile(
    r"(?:\* )?(Assertion(?: at|:) .+|Got a SIG\w+ while executing native code\.?|"
    r"Caught fatal signal - signo:\d+.*|Crash!!!|Stack overflow: IP: .*|Could not allocate memory: .*)"
)
_THROWN_FRAME = re.compile(r"\s+at (?P<method>\(wrapper [^(]+?|[^\s(]+?) ?(?=\(|<0x)")
"""The beginning of a frame of an exception."""
_LISTED_FRAME = re.compile(
    r"(?=[^\s(]*[.:][^\s(])(?P<method>[\w.`+<>|/\[\],]+(?::[\w.<>`|\[\],]+)?) ?(?=\(.*\)\s*$)"
)
"""The beginning of a frame of what a script logs."""
_FILE_AND_LINE = re.compile(r"(?P<file>.*):(?:line )?(?P<line>\d+)\)?$")
_FULL_FRAME = re.compile(r"0x\w{8,} \([^)]*\) (?:\[(?P<file>[^\]]+):(?P<line>\d+)\] )?(?P<rest>.*)$")
"""A frame of a full stack trace, with the engine's own; a managed one goes on as a listed frame."""
_NATIVE_FRAME = re.compile(r"#\d+\s+0x\w+ in (?P<rest>.*)$")
_BETWEEN = re.compile(r"\s*--- End of |---> |Rethrow as |Unhandled Exception:$")
"""Lines among the frames of exceptions that were caused by others."""
_END = "(Filename:"
_STARTS = re.compile(r"\[UnityMemory\] Configuration|Mono path\[0\]|Initialize engine version")
"""How a player begins, one after a crash too."""
_LOGGED_AS_ERROR = re.compile(
    r"UnityEngine\.(?:(?:Debug|Logger)\.(?:LogError|LogException|LogAssertion|Assert)|Assertions\.Assert\b)"
)
_LOGGED_AS_LESS = re.compile(r"UnityEngine\.Debug\.Log(?:Warning)?(?:Format)?$")
_LOGGING = re.compile(r"UnityEngine\.(?:StackTraceUtility|DebugLogHandler|Logger|Debug)\.")
_ENGINE = re.compile(
    r"(?:Unity(?:Engine|Editor)?|System|Mono|Microsoft|Google|Grpc|Newtonsoft)\.|[(<]|object\."
)
_PROJECT = re.compile(r"^.*?[/\\](?=(?:Assets|Packages|Library[/\\]PackageCache)[/\\])")
"""What is before a project's own folders in the path of a file."""
_MOST_LINES, _MOST_CRASH_LINES = 20, 400
"""Lines without a frame after which what follows is no part of an exception, or of a crash."""
_BEGINS_TEXT = re.compile(r"\S*\w")
"""What the lines of a text of several lines begin with, except for what is listed in it."""


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
    is_engines: bool = False
    """Whether the engine itself has printed the sentence."""
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
    frame = _frame(rest)
    if frame is None and native is None:
        if _SDK_WARNING.match(line):
            return _Line(line, thrown=line.strip(), is_warning=True)
        crash = _CRASH.match(line)
        if _ENGINES_OWN.match(line):
            return _Line(line, thrown=line.strip(), is_engines=True)
        thrown = crash or _THROWN.match(line) or _THROWN_AGAIN.match(line)
        return _Line(line, thrown="" if thrown is None else thrown[1], is_crash=crash is not None)
    method, file, number, is_thrown = frame or ("", "", "0", False)
    if full is not None and full["file"]:
        file, number = full["file"], full["line"]
    place = method
    if number != "0" and not file.startswith("<"):
        place = f"{_PROJECT.sub('', file, count=1)}:{number}".replace("\\", "/")
    return _Line(line, method, place, is_thrown_frame=is_thrown)


def _frame(text: str) -> tuple[str, str, str, bool] | None:
    """Method, file, line and whether it is an exception's, of a frame; the latter are empty if not known."""
    thrown = _THROWN_FRAME.match(text)
    frame = thrown or _LISTED_FRAME.match(text)
    if frame is None:
        return None
    # What follows is looked for from its end: a pattern would try every parenthesis with every other.
    rest = text[frame.end() :].rstrip().removesuffix(" <---")
    at = max(map(rest.rfind, (") (at ",) if thrown is None else (") in ", "] in ")))
    named = _FILE_AND_LINE.match(rest, rest.index(" ", at + 2) + 1) if at >= 0 else None
    if named is None and not rest.endswith((")", ">")):
        return None
    file, number = ("", "0") if named is None else (named["file"], named["line"])
    return frame["method"].replace(":", "."), file, number, thrown is not None and named is not None


class UnityErrorReader(ErrorReader):
    """Finds Unity's errors."""

    engine = "Unity"
    words = (
        *(b"xception", b"Error", b"ssert", b"] in ", b" observations ("),
        *(
            b"AABB",
            b"IsFinite(",
            b" assign attempt ",
            b"couldn't be ",
            b" can only be called on ",
            b"no receiver!",
        ),
        *(b"SIG", b"signo", b"Crash!!!", b"Stack overflow", b"allocate memory"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._previous: deque[str] = deque(maxlen=_MOST_LINES)
        """The last lines that were part of no error: if frames follow, they are what a script has logged."""
        self._crashed = self._is_engines = self._blank = False
        """Whether the open error is a crash; one of the engine itself; and has had an empty line."""

    def read(self, line: str) -> list[FoundError]:
        """Read the next line; return the errors that are complete with it."""
        parsed = _parse(line)
        found: list[FoundError] = []
        if parsed.method is not None:
            if self._is_of_next(parsed.method):
                found = self.finish()
                self._open = OpenError("", is_reported=False)
            if self._add_frame(parsed, parsed.method):
                return found
        if self._open is not None:
            if self._continues(self._open, parsed):
                return found
            found = self.finish()
        if parsed.thrown:
            self._open = OpenError(parsed.thrown, is_warning=parsed.is_warning)
            self._crashed, self._is_engines = parsed.is_crash, parsed.is_engines
        elif parsed.text.startswith(_END) or (parsed.method and _LOGGING.match(parsed.method)):
            self._previous.clear()
        else:
            self._previous.append(parsed.text)
        return found

    def finish(self) -> list[FoundError]:
        """Take what has come of an open error for the whole of it, since no more lines come."""
        self._crashed = self._is_engines = self._blank = False
        self._previous.clear()
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
        if line.text.startswith(_END) or _STARTS.match(line.text):
            return False
        if _BETWEEN.match(line.text):
            return True
        opened.lines += 1
        self._blank = self._blank or not line.text.strip()
        if self._crashed:
            return opened.lines <= _MOST_CRASH_LINES
        return not opened.in_frames and opened.lines <= _MOST_LINES

    def _is_of_next(self, method: str) -> bool:
        """Whether a frame is of a later message, for it logs no error, and the open error had none."""
        opened = self._open
        if opened is None or self._crashed or not _LOGGED_AS_LESS.match(method):
            return False
        if opened.place or opened.other_place:
            return False
        return self._blank or (self._is_engines and opened.lines > 0)

    def _logged_text(self) -> str:
        """The line that says most of what a script has logged; empty if there is none."""
        last = ""
        for text in reversed(self._previous):
            if _BEGINS_TEXT.match(text):
                return text.strip()
            last = last or text.strip()
        return last

    def _add_frame(self, line: _Line, method: str) -> bool:
        """Add a frame to the open error; return False for one of no error."""
        if self._open is None:
            text = self._logged_text()
            if not text or not (line.is_thrown_frame or not method or _ENGINE.match(method)):
                return False
            # Of an exception whose class is called otherwise, or what a script has logged.
            self._open = OpenError(text, is_reported=line.is_thrown_frame)
        if _LOGGED_AS_ERROR.match(method):
            self._open.is_reported = True
        elif _LOGGED_AS_LESS.match(method):
            self._open.is_reported = self._crashed or self._open.is_warning
        place = "" if _LOGGING.match(method) else line.place
        self._open.add_frame(place, bool(method) and not _ENGINE.match(method))
        return True
