"""Reading only what is a file: opening a named pipe waits until somebody writes to it, mostly for ever."""

from __future__ import annotations

import errno
from pathlib import Path


def refuse_pipe(path: Path) -> None:
    """Refuse what is there and neither a file nor a folder.

    Raises:
        OSError: it is a pipe, a socket or a device.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
