"""Errors in the log of Unreal's games: `LogCategory: Error: text`, faults of Blueprints, and crashes.

A fault of a Blueprint is a warning of LogScript, with the Blueprint's function below it:

    [2026.01.05-10.00.01:123][ 42]LogScript: Warning: Accessed None trying to read property Target
            Function /Game/BP_Agent.BP_Agent_C:ReceiveTick:0042

A crash or a failed `ensure` is one error, in many lines of the categories that write nothing else.
"""

from __future__ import annotations

import re

from .base import ErrorReader, FoundError, OpenError, matcher
from .python import PythonErrorReader

_LINE = matcher(
    r"(?:\[[\d.:-]+\]\[\s*\d+\])?(?P<category>Log\w*|PIE|MapCheck|LoadErrors|AssetCheck|BlueprintLog|"
    r"[A-Za-z]\w*(?=: (?:Fatal|Error|Warning|Display): )): "
    r"(?:(?P<level>Fatal|Error|Warning|Display|Log|Verbose|VeryVerbose): ?)?(?P<text>.*)$"
)
_ERRORS = ("Fatal", "Error")
_SCRIPT_FAULT = matcher(
    r"Accessed None|Attempted to (?:access|assign)|Divide by zero|Infinite (?:script )?(?:recursion|loop)|"
    r"Runaway loop|Failed to (?:find|call) function"
)
_OF_SCRIPT_FAULT = matcher(r"Script call stack|Script Msg called by")
_NOISE = matcher(
    r"Log(?:Audio\w*|ALAudio|Steam\w*|Online\w*|EOS\w*|Http|Udp\w*|Tcp\w*|Messaging\w*|Analytics\w*|HMD|XR|"
    r"OpenXR|\w*RHI|Vulkan\w*|D3D\w*|Shader\w*|Slate\w*|Input\w*|Zen\w*|DerivedDataCache|StudioTelemetry|"
    r"SourceControl|Class|StylusInput|CrashReport\w*|Stats|Turnkey\w*|WebBrowser|MetaSound|Core\w*Net|NetVersion|AutomationTest\w*|Unix\w*File|PakFile)$"
)
"""Categories whose errors are about the machine: sound, screen, network, caches."""
_CRASH_CATEGORIES = ("LogOutputDevice", "LogWindows", "LogCore", "LogUnix", "LogLinux", "LogMac")
_CRASH = matcher(r"Signal \d+ caught|Assertion failed: .*\[File:|Fatal error: .*\[File:")
_NEXT = matcher(r"=== (?P<ensure>Handled ensure)|=== Critical error")
"""How a failed `ensure`, and what ends the game, begin."""
_HEADER = matcher(r"\s*$|===|Stack:|Fatal error!$|\[Callstack\]")
"""Lines of a crash that say nothing of its cause."""
_WEAK = re.compile(r"Signal \d+ caught|Fatal error!$|$")
"""What a crash is called where no line says more."""
_CAUSE = re.compile(r"Unhandled Exception: .+")
_FILE = re.compile(r"\[File:(?P<file>[^\[\]]*)\] \[Line: ?(?P<line>\d+)\]\s*")
_FRAME = re.compile(r"(?:\[Callstack\] )?0x\w+ (?P<method>.+) \[(?P<file>[^\[\]]+):(?P<line>\d+)\]\s*$")
_FUNCTION = matcher(r"\s+Function (?P<method>/\S+?)(?::[0-9A-F]{4})?\s*$")
_IN_TEXT = re.compile(r"(?: in \[(/Game/[^\[\]]+)\]|Blueprint: +(\S+))")
_ENGINE_FILE = re.compile(
    r"(?:.*[/\\])?engine[/\\](?:source|plugins)[/\\]|Runtime[/\\]|.*\+\+UE\d", re.IGNORECASE
)
_PROJECT = re.compile(r"^.*?[/\\](?=(?:Source|Plugins)[/\\])")
_LINES_BEFORE_FUNCTION = 2
"""Lines from the sentence of a Blueprint's fault to its function: the object is between them."""
_MOST_LINES, _MOST_CRASH_LINES = 10, 300
"""Lines without a category after which what follows is no part of an error, or of a crash."""


class UnrealErrorReader(ErrorReader):
    """Finds Unreal's errors."""

    engine = "Unreal"
    words = (b"Error", b"Fatal", b"Critical", b"LogScript", b"Signal", b"Assertion")

    def __init__(self) -> None:
        super().__init__()
        self._category = ""
        """That of the open error; empty for a crash."""
        self._python = PythonErrorReader()
        """Reads what scripts of the Python plug-in raise."""

    @property
    def is_open(self) -> bool:
        """Whether an error has begun, of which further lines may come."""
        return self._open is not None or self._python.is_open

    def read(self, line: str) -> list[FoundError]:
        """Read the next line; return the errors that are complete with it."""
        parts = _LINE(line)
        if parts is None:
            return self._read_further(line)
        category, level, text = parts["category"], parts["level"], parts["text"].strip()
        if category == "LogPython" and level in _ERRORS:
            return super().finish() + self._python.read(parts["text"])
        is_crash = category in _CRASH_CATEGORIES and (
            level in _ERRORS or _NEXT(text) is not None or _CRASH(text) is not None
        )
        if self._open is not None:
            if not self._category and category in _CRASH_CATEGORIES and not self._is_next(self._open, text):
                self._add_to_crash(self._open, text)
                return []
            if category == self._category and _OF_SCRIPT_FAULT(text):
                self._open.lines += _LINES_BEFORE_FUNCTION
                return []
        found = self.finish()
        is_message, text = text.startswith("Script Msg"), text.removeprefix("Script Msg: ")
        if is_crash:
            self._open, self._category = OpenError(""), ""
            self._add_to_crash(self._open, text)
        elif category == "LogScript" and (_SCRIPT_FAULT(text) or (level == "Warning" and not is_message)):
            # In another language than English it is told to be a fault by the function below.
            self._start(category, text, text, is_reported=_SCRIPT_FAULT(text) is not None)
        elif level in _ERRORS and not _NOISE(category):
            named = category in ("LogScript", "LogBlueprintUserMessages", "PIE")
            self._start(category, text if named else f"{category}: {text}", text)
        return found

    def finish(self) -> list[FoundError]:
        """Take what has come of an open error for the whole of it, since no more lines come."""
        if self._open is not None and not self._open.text:
            self._open.text = "Fatal error!"
        return super().finish() + self._python.finish()

    def _start(self, category: str, text: str, of: str, *, is_reported: bool = True) -> None:
        self._category = category
        self._open = OpenError(text, is_reported)
        named = _IN_TEXT.search(of)
        if named is not None:
            self._open.place = named[1] or named[2]
            if named[1]:
                self._open.text = text[: named.start()]

    def _read_further(self, line: str) -> list[FoundError]:
        """Read a line without a category."""
        opened = self._open
        if opened is None:
            if _CRASH(line):
                self._open, self._category = OpenError(""), ""
                self._add_to_crash(self._open, line.strip())
            return []
        function = _FUNCTION(line)
        if function is not None:
            opened.is_reported = opened.is_reported or opened.lines < _LINES_BEFORE_FUNCTION
            opened.add_frame(function["method"], not function["method"].startswith("/Script/"))
        elif not self._category:
            self._add_to_crash(opened, line.strip())
        opened.lines += 1
        most = _MOST_LINES if self._category else _MOST_CRASH_LINES
        return self.finish() if opened.lines > most else []

    def _is_next(self, opened: OpenError, text: str) -> bool:
        """Whether a line of a crash begins another one: an `ensure`, or what ends the game after one."""
        begins = _NEXT(text)
        if begins is None or _WEAK.match(opened.text):
            return False
        return begins["ensure"] is not None or opened.text.startswith("Ensure condition failed")

    def _add_to_crash(self, opened: OpenError, text: str) -> None:
        """Read a line of a crash: its cause, or a frame of its stack."""
        text = text.removeprefix("appError called: ")
        frame = _FRAME.match(text)
        if frame is not None:
            self._add_file(opened, frame)
        elif _CAUSE.match(text) and _WEAK.match(opened.text):
            opened.text = text
        elif not opened.text and not _HEADER(text):
            named = _FILE.search(text)
            if named is not None:
                self._add_file(opened, named)
                text = text[: named.start()].rstrip() + text[named.end() :]
            opened.text = text

    def _add_file(self, opened: OpenError, found: re.Match[str]) -> None:
        file = found["file"]
        is_engines = _ENGINE_FILE.match(file) is not None
        opened.add_frame(f"{_PROJECT.sub('', file, count=1)}:{found['line']}", not is_engines)
