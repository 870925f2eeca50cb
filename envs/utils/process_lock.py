"""A lock between processes that names its holder: one process per run, per sweep, per download."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from .bounded_yaml import load_json

_UNSUPPORTED = frozenset({errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})
"""The error numbers of a file system without locks."""
_MOST_BYTES = 4096
"""The most bytes that are read of the holder's record, which somebody else may have written."""
_LOCKED_BYTES = 1
"""The number of locked bytes, which on Windows no other process can read: the holder's record follows."""


class LockingNotSupportedError(OSError):
    """The file system has no locks."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    host: str
    since: float
    """Seconds since the epoch."""

    def __str__(self) -> str:
        where = "" if self.host == socket.gethostname() else f" on {self.host}"
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid}{where}, since {since}"


def lock_beside(folder: Path) -> Path:
    """The file by which processes exclude each other from a folder, whichever link leads each of them there.

    It lies beside the folder, which may get another name meanwhile.
    """
    real = Path(os.path.realpath(folder))
    return real.with_name(f".{real.name}.lock")


class ProcessLock:
    """An exclusive lock on the file `path`, which exists, and names its holder, only while it is held.

    The operating system releases the lock of a process that dies; the file that it leaves is taken over.
    """

    def __init__(self, path: str | Path) -> None:
        from filelock import FileLock  # deferred: costs 25 ms

        self.path = Path(path)
        # No soft lock as a fallback: it would outlive a process that was killed.
        self._lock = FileLock(self.path, thread_local=False, fallback_to_soft=False)

    def acquire(self) -> bool:
        """Acquire the lock without waiting; False if another process, or another lock of this one, holds it.

        Raises:
            LockingNotSupportedError: The file system has no locks.
            OSError: The file cannot be created.
        """
        from filelock import Timeout

        try:
            # A file that its holder removes between our opening and locking it is retried.
            self._lock.acquire(timeout=0.02, poll_interval=0.01)
        except Timeout:
            return False
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            with suppress(OSError):
                self.path.unlink()
            raise LockingNotSupportedError(error.errno, error.strerror) from error
        holder = Holder(os.getpid(), socket.gethostname(), time.time())
        with (
            suppress(OSError),
            self.path.open("r+b") as file,
        ):  # a full disk takes no record, but the lock holds
            file.seek(_LOCKED_BYTES)
            file.truncate()
            file.write(json.dumps(asdict(holder)).encode())
        return True

    def release(self) -> None:
        """Release the lock and remove its file; does nothing if it is not held."""
        if not self._lock.is_locked:
            return
        if os.name != "nt":  # while it is still ours; on Windows filelock removes it
            with suppress(OSError):
                self.path.unlink()
        self._lock.release()

    def holder(self) -> Holder | None:
        """The last process that acquired the lock; None if that cannot be read."""
        try:
            with self.path.open("rb") as file:
                file.seek(_LOCKED_BYTES)
                return Holder(**load_json(file.read(_MOST_BYTES)))
        except (OSError, ValueError, TypeError):
            return None
