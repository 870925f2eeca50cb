"""Errors in the output of Godot 4: GDScript's, the engine's own, push_error, and exceptions of C#.

An error is a line that begins with its kind, lines below it that say where, and since 4.5 a backtrace:

    SCRIPT ERROR: Invalid access to property or key 'speed' on a base object of type 'Nil'.
              at: get_reward (res://walker.gd:19)
              GDScript backtrace (most recent call first):
                  [0] get_reward (res://walker.gd:19)

Warnings are told if they are those of Lanista's addon.
"""

from __future__ import annotations

import re

from .base import ErrorReader, FoundError, OpenError, matcher

_START = matcher(
    r"(?P<user>USER )?(?P<kind>(?:SCRIPT |SHADER )?ERROR|(?:SCRIPT )?WARNING): (?P<text>.*)$"
    r"|Unhandled exception\. (?P<thrown>.*)$|handle_crash: (?P<crash>.*)$"
)
_AT = matcher(r"\s*at: (?P<method>.+) \((?P<file>[^()]+):(?P<line>\d+)\)\s*$")
_FRAME = matcher(r"\s*\[\d+\] (?P<method>.+) \((?P<file>[^()]+):(?P<line>\d+)\)\s*$")
_SHARP_FRAME = matcher(r"\s*at (?P<method>[^:(]+\([^()]*\))(?: in (?P<file>.+):line (?P<line>\d+))?\s*$")
_BACKTRACE = matcher(r"\s*\S+ backtrace \(most recent call first\):\s*$")
_IN_TEXT = re.compile(r"res://[^\s\"':()]+(?::\d+)?")
_ADDON = "Lanista: "
"""How the sentences of Lanista's addon begin."""
_PLUGINS = ("res://addons/lanista/", "res://addons/godot_rl_agents/")
_SHARP_ENGINE = re.compile(r"(?:Godot|System|Microsoft)\.")
_NOISE_PLACES = re.compile(r"(?:\./)?(?:drivers|platform|servers/audio|servers/rendering|core/templates)\b")
"""Parts of the engine whose errors are about the machine: sound, screen, and memory at the end. Those that a
script of the game has called are about the script."""
_NOISE = re.compile(r"\bat exit\b|\bexist at exit\b")
_MOST_LINES, _MOST_CRASH_LINES = 20, 200
"""Lines of a message before the line that says where; lines of a crash."""


class GodotErrorReader(ErrorReader):
    """Finds Godot's errors."""

    engine = "Godot"
    words = (b"ERROR", b"Lanista", b"Unhandled", b"handle_crash")

    def __init__(self) -> None:
        super().__init__()
        self._most_lines = _MOST_LINES
        self._is_noise = False
        """Whether the open error is not told since it is about the machine."""

    def read(self, line: str) -> list[FoundError]:
        """Read the next line; return the errors that are complete with it."""
        opened, found = self._open, list[FoundError]()
        start = _START(line)
        if opened is not None and start is None:
            if self._add_frame(opened, line) or _BACKTRACE(line):
                return found
            opened.lines += 1
            is_crash = self._most_lines == _MOST_CRASH_LINES
            if opened.lines <= self._most_lines and (is_crash or not opened.in_frames):
                return found
        if opened is not None:
            found = self.finish()
        if start is not None:
            self._start(start)
        return found

    def _start(self, start: re.Match[str]) -> None:
        self._is_noise = False
        self._most_lines = _MOST_CRASH_LINES if start["crash"] is not None else _MOST_LINES
        if start["kind"] is None:
            self._open = OpenError(start["thrown"] or start["crash"] or "")
            return
        text, is_warning = start["text"], start["kind"].endswith("WARNING")
        is_reported = (
            text.startswith(_ADDON) if is_warning else start["user"] is not None or not _NOISE.search(text)
        )
        self._open = OpenError(text, is_reported, is_warning)
        named = _IN_TEXT.search(text)
        if named is not None and start["kind"] == "ERROR":
            self._open.other_place = named[0].rstrip(".")

    def _add_frame(self, opened: OpenError, line: str) -> bool:
        at = _AT(line)
        frame = at or _FRAME(line) or _SHARP_FRAME(line)
        if frame is None:
            return False
        if not opened.in_frames and at is not None and _NOISE_PLACES.match(frame["file"]):
            self._is_noise = opened.is_reported and not opened.is_warning
            opened.is_reported = opened.is_reported and opened.is_warning
        method, file = frame["method"].removesuffix("()"), frame["file"]
        is_sharp = file is not None and file.endswith(".cs") and "GodotSharp" not in file
        if file is None:
            opened.add_frame(method, not _SHARP_ENGINE.match(method))
        elif file.startswith("res://"):
            if not file.startswith(_PLUGINS):
                opened.add_frame(f"{file}:{frame['line']}", True)
                opened.is_reported = opened.is_reported or self._is_noise
            elif not opened.text.startswith(_ADDON):
                opened.add_frame(f"{file}:{frame['line']}", False)
        elif is_sharp:
            generated = file.endswith(".generated.cs") or _SHARP_ENGINE.match(method) is not None
            opened.add_frame(f"{file}:{frame['line']}", not generated)
        elif method not in ("push_error", "push_warning") and "GodotSharp" not in file and file != "??":
            opened.add_frame(method, False)
        # Of a message of several lines, and of an exception of C#, this line is the first after the text.
        opened.in_frames = opened.in_frames or at is not None
        return True
