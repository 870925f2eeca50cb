"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

from . import distributed

_PARTIAL = re.compile(r"\..+\.([0-9a-f]{12})-[0-9]+\.partial")
_numbers = count()
_PATIENCE = 2.0 if os.name == "nt" else 0.0
"""Seconds. Windows does not replace an open file, and virus scanners open new files for a moment."""


class _Session:
    """This process's mark in its temporary files' names: process ids come again, in containers always."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Take a mark that no other process has."""
        self.mark = secrets.token_hex(6)


_session = _Session()


def atomic_write(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object], *, replace: bool = True
) -> None:
    """Replace `path` by what `write` puts into the binary file that it is given.

    The bytes go to a temporary file in the same folder, which is flushed to the disk and then renamed:
    a reader of `path`, also after a power cut, finds the old file or the new one, never a part.

    Raises whatever `write` or the file system raises; the old file is then as it was and the temporary
    one is gone. Where `replace` is false and there is such a file, by now at the latest, FileExistsError.
    """
    target = Path(path)
    partial = _partial(target)
    try:
        with open(partial, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        (_replace if replace else place_new)(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def atomic_link(source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Replace `path` by another name of the file `source`, in the same file system. It takes no space.

    Raises OSError where that cannot be done; the old file is then as it was.
    """
    target = Path(path)
    partial = _partial(target)
    try:
        os.link(source, partial)
        _replace(partial, target)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)  # also where both were names of one file: it is not renamed then
    sync_folder(target.parent)


def _replace(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`, waiting for readers of `target` where the system wants that."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            os.replace(partial, target)
            return
        except PermissionError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.02)


def place_new(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`. Raises FileExistsError if there is such a file, made meanwhile too."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            _replace(partial, target)
        except BaseException:
            target.unlink(missing_ok=True)  # the empty file that kept the name
            raise
    else:
        partial.unlink()


def _partial(target: Path) -> Path:
    """An unused temporary name beside `target`."""
    return target.with_name(f".{target.name}.{_session.mark}-{next(_numbers)}.partial")


def atomic_write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace `path` by `data`, as `atomic_write` does."""
    atomic_write(path, lambda file: file.write(data))


def atomic_write_text(path: str | os.PathLike[str], text: str, *, replace: bool = True) -> None:
    """Replace `path` by `text` in UTF-8, as `atomic_write` does."""
    data = text.encode("utf-8")
    atomic_write(path, lambda file: file.write(data), replace=replace)


def is_partial(name: str) -> bool:
    """Whether a file's name is one that `atomic_write` gives, which a kill or a full disk leaves behind."""
    return _PARTIAL.fullmatch(name) is not None


def remove_partials(folder: str | os.PathLike[str]) -> None:
    """Remove what other processes, killed in `atomic_write`, left in `folder` (nothing below it).

    Of a run with several ranks only rank 0 does: the others would remove what it is just writing.
    """
    if distributed.rank():
        return
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            match = _PARTIAL.fullmatch(entry.name)
            if match and match[1] != _session.mark:
                os.unlink(entry.path)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in `folder` survive a power cut, where the system can (Windows cannot open folders)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
