"""The last net around the commands: whatever happens in one, it ends with a line and a status."""

from __future__ import annotations

import errno
import os
import platform
import re
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress

from ..._shadows import shadowed
from .errors import is_out_of_memory
from .logging import print_error

INTERRUPTED = 130
"""The exit status of a command that was stopped by Ctrl-C."""
PIPE_CLOSED = 141
_WRITE_ERRORS = frozenset(
    (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EINVAL)
)
"""The errors with which writing fails; Windows says EINVAL where a pipe's reader has ended."""
_SECRET = re.compile(r"token|password|secret|key", re.IGNORECASE)


def guarded(program: str, command: Callable[[], int]) -> int:
    """Run a command; the exit status, after a line on standard error where something went wrong.

    A fault of the program is told with a file that holds the traceback; what the system refuses, in its
    words.
    """
    _open_closed_streams()
    if os.name == "posix":
        os.umask(os.umask(0o077) | stat.S_IWOTH)  # what a command writes is never for everybody to change
    try:
        os.getcwd()
    except OSError:
        print_error(program, "the working directory does not exist any more: change to another one.")
        return 1
    try:
        status = command()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print_error(program, ended.code)
        status = 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:
        print(f"\n{program}: stopped before it began.", file=sys.stderr)
        status = INTERRUPTED
    except Exception as error:
        # A stream that has refused text does not keep it: only more text shows whether it was this one.
        refused = isinstance(error, OSError) and error.filename is None and error.errno in _WRITE_ERRORS
        status = _unwritable(program, "\n" if refused else "") or _report_failure(program, error)
    return _unwritable(program) or status


def _open_closed_streams() -> None:
    """Give the null device to standard streams that were closed by the caller.

    The next files to be opened would otherwise take their numbers, and what is printed would go there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def _unwritable(program: str, probe: str = "") -> int:
    """The exit status if standard output does not take what was printed, and `probe`; else 0."""
    try:
        sys.stdout.write(probe)
        sys.stdout.flush()
    except BrokenPipeError:  # its reader has ended, as `head` does
        status = PIPE_CLOSED
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EIO:  # its terminal was closed: nobody reads
            status = 0
        else:
            cause = error.strerror if isinstance(error, OSError) else error
            print_error(program, f"standard output cannot be written: {cause}.")
            status = 1
    else:
        return 0
    with suppress(OSError, ValueError):  # else Python itself complains at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stdout.flush()
    return status


def _report_failure(program: str, error: Exception) -> int:
    """Explain an error that nothing below has expected; the exit status 1."""
    if hidden := shadowed(error):
        print_error(program, f"{hidden}.")
        return 1
    text = _report(error)
    try:
        with tempfile.NamedTemporaryFile(
            "w",
            prefix=f"{program}-",
            suffix=".txt",
            delete=False,
            encoding="utf-8",
            errors="backslashreplace",
        ) as file:
            file.write(text)
        details = f"the file {file.name}, which holds the traceback and the versions"
    except OSError as refused:
        if isinstance(error, OSError):  # a disk that takes nothing is no fault of the program
            details = f"what was done (no file could be written: {refused.strerror})"
        else:
            print(text, file=sys.stderr)
            details = "the traceback above"
    message = " ".join(str(error).split())[:300]
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        print_error(
            program, f"{where}{error.strerror}. If nothing here explains that, report it with {details}."
        )
    elif is_out_of_memory(error):
        print_error(
            program,
            f"there is not enough memory{': ' * bool(message)}{message}. What asked for it: {details}.",
        )
    else:
        what = f"{type(error).__name__}{': ' * bool(message)}{message}"
        print_error(program, f"{what}. That is a fault of Lanista: please report it with {details}.")
    return 1


def _report(error: Exception) -> str:
    """The traceback and what else a report needs, without the values of secret flags."""
    from ..._version import __version__

    versions = {"lanista": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in ("torch", "numpy", "pydantic", "onnxruntime", "mlagents_envs"):
        module = sys.modules.get(name)
        if module is not None:
            versions[name] = str(getattr(module, "__version__", "unknown"))
    lines = [f"{name} {version}" for name, version in versions.items()]
    return "\n".join(
        ["Command: " + " ".join(_without_secrets(sys.argv)), *lines, "", *traceback.format_exception(error)]
    )


def _without_secrets(arguments: list[str]) -> list[str]:
    """The arguments, with the values of flags that may name secrets hidden."""
    shown: list[str] = []
    for text in arguments:
        flag, equals, _ = text.partition("=")
        if equals and _SECRET.search(flag):
            text = f"{flag}=(hidden)"
        elif shown and shown[-1].startswith("-") and "=" not in shown[-1] and _SECRET.search(shown[-1]):
            text = "(hidden)"
        shown.append(text)
    return shown
