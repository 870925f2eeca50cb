"""What becomes of a disk for a while: no room, no inodes, read-only, slow, or its `fsync` fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from pathlib import Path

from disk_full import ballast

SIZE = 4 << 20
INODES = 400
"""Of the file system."""
SLOW_SECONDS = 1.0
"""That a slow disk takes for each file that is flushed or renamed."""
_SLOW, _FSYNC = "slow", "fsync"

_SHIM = """\
import errno, os, time

def changed(name, real):
    def call(*arguments, **options):
        try:
            with open({flag!r}) as file:
                trouble = file.read()
        except OSError:
            trouble = ""
        if trouble:
            open({flag!r} + ".seen", "w").close()
        if trouble == "slow":
            time.sleep({seconds})
        if trouble == "fsync" and "sync" in name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **options)
    return call

for name in ("fsync", "fdatasync", "rename", "replace"):
    setattr(os, name, changed(name, getattr(os, name)))
"""
"""Python imports it as it starts, under the name sitecustomize; it looks at the flag at each call."""


class Disk:
    """The file system of a run's results, and what becomes of it."""

    def __init__(self, folder: Path, free: int) -> None:
        """`folder`: of the run, whose `results` are a file system. `free`: bytes that a full one has."""
        self.results = folder / "results"
        self._free = free
        self._flag = folder / "trouble"
        self._shim = folder / "shim"
        self.noticed = True
        """Whether the run did anything that a slow or failing disk concerns."""
        self._shim.mkdir()
        text = _SHIM.format(flag=str(self._flag), seconds=SLOW_SECONDS)
        (self._shim / "sitecustomize.py").write_text(text)

    def environ(self) -> dict[str, str]:
        """The environment in which a program notices a slow disk, and a failing one."""
        return {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(self._shim)}

    def full(self) -> AbstractContextManager[None]:
        """Only so many bytes are left."""
        return ballast(self.results, self._free)

    @contextmanager
    def inodes(self) -> Iterator[None]:
        """No further file can be made."""
        place = self.results / "ballast"
        place.mkdir()
        with suppress(OSError):
            for number in count():
                (place / str(number)).touch()
        yield
        shutil.rmtree(place)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """No file can be opened to be written, renamed or deleted; those that are open can be written."""
        place = str(self.results)
        subprocess.run(["mount", "--bind", place, place], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield
        subprocess.run(["umount", "-l", place], check=True)

    def slow(self) -> AbstractContextManager[None]:
        """Each file that is flushed or renamed takes SLOW_SECONDS."""
        return self._flagged(_SLOW)

    def fsync(self) -> AbstractContextManager[None]:
        """No file can be flushed to the disk."""
        return self._flagged(_FSYNC)

    @contextmanager
    def _flagged(self, trouble: str) -> Iterator[None]:
        self._flag.write_text(trouble)
        yield
        self._flag.unlink()
        self.noticed = self._flag.with_name(f"{self._flag.name}.seen").exists()


TROUBLES: dict[str, tuple[str, Callable[[Disk], AbstractContextManager[None]]]] = {
    "full": ("whole runs", Disk.full),
    "inodes": ("whole runs, no inodes", Disk.inodes),
    "read-only": ("whole runs, read-only", Disk.read_only),
    "slow": ("whole runs, slow disk", Disk.slow),
    "fsync": ("whole runs, fsync fails", Disk.fsync),
}
"""By name: how its figures are called, and how it is brought about."""
