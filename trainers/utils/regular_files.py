"""Reading only what is a file: opening a named pipe waits until somebody writes to it, mostly for ever."""

from __future__ import annotations

import errno
from pathlib import Path

MOST_BYTES = 1 << 24
"""Of a file of text that is read whole; the settings of a hundred behaviors take some hundred KiB."""


def refuse_pipe(path: Path) -> None:
    """Refuse what is there and neither a file nor a folder.

    Raises:
        OSError: it is a pipe, a socket or a device.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))


def read_text(path: Path, most: int = MOST_BYTES, errors: str = "strict") -> str:
    """The text of a file that may be of somebody else.

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
