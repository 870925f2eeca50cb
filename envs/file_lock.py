"""A lock that one process holds and the operating system takes back when that process dies, however it dies.

It lies on a file, which tells others who holds it. What a killed process leaves is a file without a lock: the
next one takes it over.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

BUSY = frozenset({errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK})
"""What systems say when another process holds a lock."""
LOCKED_BYTE = 1 << 30
"""Windows locks bytes, and nobody else can read them: this one is far behind what the file holds."""


class LockingNotSupportedError(OSError):
    """The file system has no locks."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    host: str
    since: float
    """Seconds since 1970."""

    @classmethod
    def myself(cls) -> Holder:
        """This process, from now on."""
        return cls(os.getpid(), socket.gethostname(), time.time())

    def __str__(self) -> str:
        where = "" if self.host == socket.gethostname() else f" on {self.host}"
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid}{where}, since {began}"


class Locking(Protocol):
    """How a system locks an open file."""

    def lock(self, handle: int) -> None:
        """Lock it at once. Raises OSError: one of `BUSY` where another process has locked it."""
        ...

    def unlock(self, handle: int) -> None:
        """Give the lock back."""
        ...


class PosixLocking:
    """`flock`, given the module `fcntl`: of the open file, so that a child process has no part in it."""

    def __init__(self, fcntl: Any) -> None:
        self._fcntl = fcntl

    def lock(self, handle: int) -> None:
        """As the protocol says."""
        self._fcntl.flock(handle, self._fcntl.LOCK_EX | self._fcntl.LOCK_NB)

    def unlock(self, handle: int) -> None:
        """As the protocol says."""
        self._fcntl.flock(handle, self._fcntl.LOCK_UN)


class WindowsLocking:
    """`locking`, given the module `msvcrt`: of one byte, at the position of the file."""

    def __init__(self, msvcrt: Any) -> None:
        self._msvcrt = msvcrt

    def lock(self, handle: int) -> None:
        """As the protocol says."""
        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        self._msvcrt.locking(handle, self._msvcrt.LK_NBLCK, 1)

    def unlock(self, handle: int) -> None:
        """As the protocol says."""
        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        self._msvcrt.locking(handle, self._msvcrt.LK_UNLCK, 1)


def system_locking() -> Locking:
    """How this system locks files."""
    if os.name == "nt":
        import msvcrt

        return WindowsLocking(msvcrt)
    import fcntl

    return PosixLocking(fcntl)


class FileLock:
    """A lock on the file `path`, which is made for it and removed when the lock is given back."""

    def __init__(self, path: str | Path, locking: Locking | None = None) -> None:
        self.path = Path(path)
        self._locking = locking or system_locking()
        self._handle: int | None = None

    def take(self) -> bool:
        """Take the lock; False where another process, or another lock of this one, has it.

        Raises:
            LockingNotSupportedError: the file system has no locks.
            OSError: the file cannot be made.
        """
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                self._locking.lock(handle)
            except OSError as error:
                os.close(handle)
                if error.errno in BUSY:
                    return False
                with suppress(OSError):
                    self.path.unlink()
                raise LockingNotSupportedError(error.errno, error.strerror) from error
            if self._is_still_the_file(handle):
                self._handle = handle
                self._sign(handle)
                return True
            # Its holder removed it between our opening and our locking: others lock a new one of its name.
            os.close(handle)

    def give_back(self) -> None:
        """Give the lock back and remove its file; without effect where it was not taken."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        # While it is locked, lest a file is removed that another process has locked since. Windows cannot
        # remove an open file; there it is removed afterwards, unless another process has opened it by then.
        with suppress(OSError):
            self.path.unlink()
        with suppress(OSError):
            self._locking.unlock(handle)
        os.close(handle)
        if os.name == "nt":
            with suppress(OSError):
                self.path.unlink()

    def holder(self) -> Holder | None:
        """Who said last that he holds the lock; None where that cannot be read."""
        try:
            return Holder(**json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _is_still_the_file(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _sign(self, handle: int) -> None:
        """Write down who holds the lock. Who cannot, for want of space, holds it all the same."""
        with suppress(OSError):
            os.lseek(handle, 0, os.SEEK_SET)
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(asdict(Holder.myself())).encode())
