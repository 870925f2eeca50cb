"""Counts the file operations of this process below a folder, and lets one of them fail."""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ONE_PATH = ("mkdir", "unlink", "remove", "rmdir", "truncate", "chmod", "utime")
TWO_PATHS = ("rename", "replace", "link", "symlink")
HANDLES = ("fsync", "fdatasync", "ftruncate", "write")


@dataclass
class FileFaults:
    """Counts the file operations of this process below a folder, and lets one of them fail."""

    folder: Path
    number: int = 0
    """Of the operation that fails, from 1; 0: none."""
    code: int = errno.ENOSPC
    lasting: bool = False
    """All that follow fail too."""
    seen: list[str] = field(default_factory=list)

    def check(self, operation: str, path: object) -> None:
        """Count an operation. Raises OSError if it is the one that fails."""
        if not isinstance(path, (str, os.PathLike)):
            return
        place = os.path.abspath(path)
        if not place.startswith(f"{self.folder}{os.sep}"):
            return
        self.seen.append(f"{operation} {place[len(str(self.folder)) + 1 :]}")
        if len(self.seen) == self.number or (self.lasting and 0 < self.number < len(self.seen)):
            raise OSError(self.code, os.strerror(self.code), str(path))

    def install(self) -> None:
        """Take the place of Python's own functions, for the rest of this process."""
        for name in (*ONE_PATH, *TWO_PATHS):
            setattr(os, name, self._of_path(name, getattr(os, name), 1 if name in TWO_PATHS else 0))
        for name in HANDLES:
            setattr(os, name, self._of_handle(name, getattr(os, name)))
        os.open = self._of_path("open", os.open, 0)  # type: ignore[assignment]
        builtins.open = io.open = self._open  # type: ignore[assignment]

    def _of_path(self, name: str, real: Callable[..., Any], index: int) -> Callable[..., Any]:
        def checked(*arguments: Any, **options: Any) -> Any:
            if index < len(arguments):
                self.check(name, arguments[index])
            return real(*arguments, **options)

        return checked

    def _of_handle(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def checked(handle: int, *arguments: Any) -> Any:
            self.check(name, path_of(handle))
            return real(handle, *arguments)

        return checked

    def _open(self, file: Any, mode: str = "r", buffering: int = -1, *texts: Any, **options: Any) -> Any:
        if isinstance(file, int):
            return REAL_OPEN(file, mode, buffering, *texts, **options)
        opener = options.pop("opener", None)
        if opener is None:
            self.check("open", file)
        if mode.strip("bt") == "r":
            return REAL_OPEN(file, mode, buffering, *texts, opener=opener, **options)
        raw = FaultyFile(file, mode.replace("b", "").replace("t", ""), opener=opener)
        raw.faults = self
        buffered = raw if not buffering else io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, *texts, **options, line_buffering=buffering == 1)


REAL_OPEN = builtins.open


def path_of(handle: int) -> str | None:
    """Where an open file lies."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return None


class FaultyFile(io.FileIO):
    """A file that is written, whose operations are counted."""

    faults: FileFaults | None = None

    def write(self, data: Any, /) -> int:
        self._check("write")
        return super().write(data)

    def truncate(self, size: int | None = None, /) -> int:
        self._check("truncate")
        return super().truncate(size)

    def close(self) -> None:
        """As on a network's disk, which says at last that it is full; the file is closed all the same."""
        try:
            if not self.closed and sys.exc_info()[0] is None:
                self._check("close")
        finally:
            super().close()

    def _check(self, operation: str) -> None:
        if self.faults is not None:
            self.faults.check(operation, self.name)
