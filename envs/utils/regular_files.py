"""Files that may be somebody else's: read if they are files in their place, and written through no link.

A pipe is waited for, a device is read for ever, and a link leads to a file of the user's. What a run's
folder holds is read with `within`, that folder: the folder itself may be reached by a link, what is in it
may not lead out of it.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 24
"""The most bytes of a text file that is read whole; settings of a hundred behaviors take some hundred KiB."""
_CERTAIN_BYTES = 1 << 28
"""The bytes that are read without asking how much memory is free."""
_GIVEN = re.compile(r"/dev/stdin|(?:/dev|/proc/self)/fd/[0-9]+")
"""A shell's names for what it has opened already, as in `<(command)`: read as a file is."""


def refuse_pipe(path: Path) -> None:
    """Refuse what is there and neither a file nor a folder.

    Opening a named pipe waits until somebody opens its other end, mostly for ever.

    Raises:
        OSError: it is a pipe, a socket or a device.
    """
    if _GIVEN.fullmatch(str(path)):
        return
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise _not_a_file(path)


def require_within(path: Path, folder: Path) -> None:
    """Refuse what lies in a run's folder by its name alone.

    Raises:
        OSError: links, or its name, lead out of the folder.
    """
    if _has_no_link(path, folder):
        return
    try:
        real, root = (os.path.normcase(os.path.realpath(each)) for each in (path, folder))
    except ValueError:
        raise OSError(errno.EINVAL, "its name has a null character", str(path)) from None
    if real != root and not real.startswith(os.path.join(root, "")):
        raise OSError(errno.EINVAL, f"it leads to {real}, outside of {folder}", str(path))


def _has_no_link(path: Path, folder: Path) -> bool:
    """Whether a path's parts below the folder can lead nowhere else; quicker than resolving it."""
    count = len(folder.parts)
    inner = path.parts[count:]
    if os.name == "nt" or path.parts[:count] != folder.parts or ".." in inner or "\0" in str(path):
        return False  # Windows has further kinds of links
    return not any(os.path.islink(Path(folder, *inner[: k + 1])) for k in range(len(inner)))


def is_file_within(path: Path, folder: Path) -> bool:
    """Whether a run's folder holds this file."""
    try:
        require_within(path, folder)
    except OSError:
        return False
    return path.is_file()


def links_out(folder: Path) -> Iterator[Path]:
    """The links in a run's folder that lead out of it, Windows' junctions among them."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if os.path.islink(path) or os.name == "nt":
                try:
                    require_within(path, folder)
                except OSError:
                    yield path


def open_file(path: Path, within: Path | None = None) -> BinaryIO:
    """Open a file that may be somebody else's, to read it.

    Args:
        path: its path.
        within: the run's folder that it must lie in.

    Raises:
        OSError: there is no such file, it cannot be read, is a pipe, a socket or a device, or lies elsewhere.
    """
    if within is not None:
        require_within(path, within)
    elif _GIVEN.fullmatch(str(path)):
        return path.open("rb")
    refuse_pipe(path)  # opening a device may do something
    file = cast("BinaryIO", open(path, "rb", opener=_without_waiting))  # noqa: SIM115 (returned)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it has just taken the file's place
        file.close()
        raise _not_a_file(path)
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _not_a_file(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


def read_bytes(path: Path, most: int | None = None, within: Path | None = None) -> bytes:
    """The content of a file that may be somebody else's.

    Args:
        path: its path.
        most: bytes that it may hold; None: as many as there is memory for.
        within: as of `open_file`.

    Raises:
        OSError: as `open_file`; or it holds more than `most`.
    """
    with open_file(path, within) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise _too_large(path, most)
        if size > _CERTAIN_BYTES:
            import psutil

            free = psutil.virtual_memory().available
            if size > free:
                raise OSError(errno.EFBIG, f"it holds {size >> 20:,} MiB, more than is free", str(path))
        if most is None:
            return file.read()
        data = file.read((size or most) + 1)  # what a shell has opened has no size beforehand
        if len(data) > most:
            raise _too_large(path, most)
        return data


def _too_large(path: Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it holds more than {most >> 20:,} MiB", str(path))


def read_text(path: Path, most: int = MOST_BYTES, errors: str = "strict", within: Path | None = None) -> str:
    """The text of a file that may be somebody else's.

    Raises:
        OSError: as `read_bytes`.
        UnicodeDecodeError: it is not UTF-8, and `errors` says nothing else of it.
    """
    return read_bytes(path, most, within).decode("utf-8", errors)


def remove_link(path: Path) -> None:
    """Remove the link that stands where a program is about to write a file of its own; its target stays.

    A run that came from somebody else could hold links to files of the user's, which would be appended to,
    or emptied.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_symlink():
        target = os.readlink(path)
        path.unlink()
        logger.warning("%s was a link to %s, and is a file now. What it led to is as it was.", path, target)


def open_own(path: Path, mode: str, **options: Any) -> IO[Any]:
    """`open` for a file that is written in place; a link there is removed, and never followed.

    Raises:
        OSError: it cannot be opened, or is a pipe or a device.
    """
    remove_link(path)
    refuse_pipe(path)
    return open(path, mode, opener=_without_following, **options)


def _without_following(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
