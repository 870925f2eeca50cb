"""A file that another program writes, read as it grows."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..utils.regular_files import open_file

_MARK = 64
"""Bytes before the place that was read last by which the file is known again."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """What has been read in one go."""

    start: int
    """Where it begins in the file."""
    data: bytes
    follows: bool
    """Whether it continues the piece before; else something was left out, or the file is another one."""


class GrowingFile:
    """What is new in a file since it was looked at last.

    It is opened only while it is read: Windows renames no file that is open. It may be missing, and may be
    replaced or emptied meanwhile, and is then read from its beginning. Of what is there at first, nothing is
    read: it is of the program's last run.

    Args:
        path: The file, which need not exist yet.
        most: Bytes that are read at once; of more, the first and the last are.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self.size = 0
        """Bytes of the file when it was looked at last."""
        self.left_out = False
        """Whether the file has grown faster than it was read."""
        self._most = most
        self._position = 0
        self._mark = b""
        self._seen: tuple[int, ...] = ()
        with suppress(OSError):  # told when it is read
            self._seek_end()

    def read(self, *, only_size: bool = False) -> list[LogPiece]:
        """What has been written since the last call.

        Args:
            only_size: Do not read it, but look how large the file is.

        Raises:
            OSError: The file is there and cannot be read, or is no file.
        """
        try:
            state = os.stat(self.path)
            if only_size:
                self.size = state.st_size
            if only_size or _version(state) == self._seen:
                return []
            file = open_file(self.path)
        except FileNotFoundError:
            return []
        with file:
            state = os.fstat(file.fileno())
            self._seen, self.size = _version(state), state.st_size
            is_other = self.size < self._position or not self._is_same(file)
            if is_other:
                self._position = 0
            pieces: list[LogPiece] = []
            for start, end in self._parts():
                file.seek(start)
                data = file.read(end - start)
                follows = start == self._position and not (is_other and not pieces)
                pieces.append(LogPiece(start, data, follows))
                self._position = start + len(data)
                self._mark = (self._mark + data)[-_MARK:] if follows else data[-_MARK:]
        return pieces

    def _parts(self) -> list[tuple[int, int]]:
        start, end = self._position, self.size
        if end - start <= self._most:
            return [(start, end)]
        self.left_out = True
        half = self._most // 2
        return [(start, start + half), (end - half, end)]

    def _is_same(self, file: BinaryIO) -> bool:
        """Whether what was read last still stands before the position."""
        file.seek(self._position - len(self._mark))
        return file.read(len(self._mark)) == self._mark

    def _seek_end(self) -> None:
        with open_file(self.path) as file:
            state = os.fstat(file.fileno())
            self._seen, self.size, self._position = _version(state), state.st_size, state.st_size
            file.seek(max(0, self._position - _MARK))
            self._mark = file.read(_MARK)


def _version(state: os.stat_result) -> tuple[int, ...]:
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns
