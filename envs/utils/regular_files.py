"""Opening only what is a file in its place: neither a pipe, which is waited for, nor a link to elsewhere."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 24
"""The most bytes of a text file that is read whole; settings of a hundred behaviors take some hundred KiB."""
_GIVEN = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""The start of a shell's names for what it has opened already, as in `<(command)`: read as a file is."""


def refuse_pipe(path: Path) -> None:
    """Refuse what is there and neither a file nor a folder.

    Opening a named pipe waits until somebody opens its other end, mostly for ever.

    Raises:
        OSError: it is a pipe, a socket or a device.
    """
    if str(path).startswith(_GIVEN):
        return
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


def read_bytes(path: Path) -> bytes:
    """The content of a file that may be somebody else's. Raises OSError, also as `refuse_pipe` does."""
    refuse_pipe(path)
    return path.read_bytes()


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


def read_text(path: Path, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """The text of a file that may be somebody else's.

    Raises:
        OSError: there is no such file, it cannot be read, or holds more than `most` bytes; or as
            `refuse_pipe`.
        UnicodeDecodeError: it is not UTF-8, and `errors` says nothing else of it.
    """
    refuse_pipe(path)
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it holds more than {most >> 20} MiB", str(path))
    return data.decode("utf-8", errors)
