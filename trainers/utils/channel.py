"""Objects from one process to another of this machine, with their arrays in shared memory.

A message goes over a connection; the numbers of its arrays and tensors are written once, into memory that the
other process sees. Nothing is locked, because the two take turns: who has sent something does not send again
before it was answered, and by then the other one no longer reads.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

_ALIGNMENT = 64
"""Bytes, of the beginning of each array: a cache line."""
_SLACK = 1.25
"""Times the size that was needed: messages of about one size should not need new memory."""


class ByteConnection(Protocol):
    """What a channel needs of a `multiprocessing.connection`, whose class depends on the system."""

    def send_bytes(self, buf: bytes) -> None:
        """Send a message."""

    def recv_bytes(self) -> bytes:
        """Wait for a message."""

    def poll(self, timeout: float) -> bool:
        """Whether there is a message; waits for one at most `timeout` seconds."""

    def close(self) -> None:
        """End the connection."""


class Channel:
    """One end of a connection over which two processes send each other objects in turns."""

    def __init__(self, connection: ByteConnection, folder: Path) -> None:
        """`folder`: that only this user can enter, for memory where the system has none without a file."""
        self._connection = connection
        self._written = _WrittenMemory(folder)
        self._read = _ReadMemory()

    def send(self, message: Any) -> None:
        """Send any object that can be pickled; tensors arrive on the CPU.

        Raises:
            OSError: the other process has ended.
        """
        file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(message)
        arrays = [buffer.raw() for buffer in buffers]
        bounds = _bounds([array.nbytes for array in arrays])
        # The connection carries a few bytes, for which there is room even if the other process has stopped.
        place = self._written.write([*arrays, memoryview(pickle.dumps((bounds, file.getvalue())))])
        self._connection.send_bytes(pickle.dumps(place))

    def receive(self) -> Any:
        """Wait for an object. Its arrays are views, valid until this end sends.

        Raises:
            EOFError, OSError: the other process has ended.
        """
        received = self._connection.recv_bytes()
        path, size, (start, end) = pickle.loads(received)  # noqa: S301 (of a process of this run)
        whole = self._read.memory(path, size)
        bounds, pickled = pickle.loads(whole[start:end])  # noqa: S301 (likewise)
        buffers = [whole[start:end] for start, end in bounds]
        return pickle.loads(pickled, buffers=buffers)  # noqa: S301 (likewise)

    def has_message(self, timeout: float = 0.0) -> bool:
        """Whether `receive` would not wait, perhaps because the other process has ended.

        `timeout`: seconds to wait for a message.
        """
        return self._connection.poll(timeout)

    def close(self) -> None:
        """Tell the other end that nothing more comes."""
        self._connection.close()
        self._written.close()
        self._read.close()


class _Pickler(pickle.Pickler):
    """Pickles tensors as arrays, which pickle can leave to shared memory."""

    def reducer_override(self, found: Any) -> Any:
        if isinstance(found, Tensor):
            return torch.from_numpy, (found.detach().cpu().numpy(),)
        return NotImplemented


_Bounds = tuple[int, int]
"""Where a part of the memory begins and ends."""
_Place = tuple[str, int, _Bounds]
"""A path, the size of its memory, and where in it the last part lies, which tells of the others."""


def _bounds(sizes: Sequence[int]) -> list[_Bounds]:
    """Where parts of so many bytes lie."""
    bounds, end = [], 0
    for size in sizes:
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = start + size
        bounds.append((start, end))
    return bounds


class _WrittenMemory:
    """The memory that this process writes; there is a larger one where a message needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        self._path = ""
        self._memory: mmap.mmap | None = None

    def write(self, parts: list[memoryview]) -> _Place:
        """Copy the bytes of each part, of which there is at least one; where they are now."""
        bounds = _bounds([part.nbytes for part in parts])
        end = bounds[-1][1]
        if self._memory is None or len(self._memory) < end:
            self._memory = self._larger(int(_SLACK * end))
        whole = memoryview(self._memory)
        for (start, end), part in zip(bounds, parts, strict=True):
            whole[start:end] = part
        return self._path, len(self._memory), bounds[-1]

    def _larger(self, size: int) -> mmap.mmap:
        self.close()
        if hasattr(os, "memfd_create"):  # neither a file that may stay behind nor the limit of /dev/shm
            self._file = os.memfd_create("lanista")
            self._path = f"/proc/{os.getpid()}/fd/{self._file}"
        else:
            self._file, self._path = tempfile.mkstemp(dir=self._folder)
        os.ftruncate(self._file, size)
        return mmap.mmap(self._file, size)

    def close(self) -> None:
        """Let the system have the memory, once nobody sees it any more."""
        if self._memory is not None:
            with suppress(BufferError):  # somebody here still sees it
                self._memory.close()
            self._memory = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class _ReadMemory:
    """The memory that the other process writes."""

    def __init__(self) -> None:
        self._place: tuple[str, int] | None = None
        self._memory: mmap.mmap | None = None

    def memory(self, path: str, size: int) -> memoryview:
        """The bytes at a path, of which there are `size`."""
        if self._memory is None or self._place != (path, size):
            self.close()
            file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            try:
                self._memory, self._place = mmap.mmap(file, size), (path, size)
            finally:
                os.close(file)
        return memoryview(self._memory)

    def close(self) -> None:
        """Let the system have the memory, unless some array here still lies in it."""
        if self._memory is not None:
            with suppress(BufferError):
                self._memory.close()
            self._memory = None
