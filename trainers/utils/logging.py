"""What the program says, as lines `[LEVEL] message` on standard output."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...envs.utils.regular_files import open_own, refuse_pipe, remove_link

if TYPE_CHECKING:
    from rich.console import Console

PACKAGE = "lanista"
_PLAIN = "[%(levelname)s] %(message)s"
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, what changes the direction of writing, and halves of characters."""
_NEXT_LINE = re.compile(r"\n(?=\S)")
_DEBUG = "%(asctime)s %(levelname)s [%(filename)s:%(lineno)d] %(message)s"


def configure_logging(
    debug: bool = False, console: Console | None = None, *, quiet: bool = False
) -> logging.Logger:
    """Let the package's messages appear; calling it again replaces what the last call set up.

    Args:
        debug: also messages of level DEBUG, each with its time and source.
        console: the terminal that a live display is drawn on: lines then scroll past above it.
        quiet: only warnings and errors.
    """
    logger = logging.getLogger(PACKAGE)
    handler = StdoutHandler() if console is None else ConsoleHandler(console)
    handler.setFormatter(PlainFormatter(_DEBUG if debug else _PLAIN, datefmt="%Y-%m-%d %H:%M:%S"))
    logger.handlers[:] = [handler]
    logger.setLevel(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO)
    logger.propagate = False
    return logger


def plain(text: str) -> str:
    """Text that came from outside, such as a behavior's name or what an engine printed, for a terminal.

    What would move the cursor, color, erase or reverse the text is shown as its code, and lines after the
    first are indented, so that none of them looks like a message of its own.
    """
    shown = _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    return _NEXT_LINE.sub("\n  ", shown)


def print_error(program: str, error: object) -> None:
    """Say on standard error why `program` has failed."""
    with suppress(OSError):  # there is no other place to say it
        print(f"{program}: error: {plain(str(error))}", file=sys.stderr, flush=True)


class PlainFormatter(logging.Formatter):
    """Formats messages as `plain` text."""

    def format(self, record: logging.LogRecord) -> str:
        """The whole message, a traceback included."""
        return plain(super().format(record))


@contextmanager
def warnings_kept(path: Path) -> Iterator[None]:
    """While open, warnings and errors also go to the end of a file, which the first of them makes."""
    handler = WarningsFile(path, encoding="utf-8", errors="backslashreplace", delay=True)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger = logging.getLogger(PACKAGE)
    try:
        remove_link(path)
        refuse_pipe(path)
        logger.addHandler(handler)
    except OSError as error:
        logger.warning("Warnings are not kept in %s: %s.", path, error.strerror)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        with suppress(OSError):
            handler.close()


def show_any_letter() -> None:
    """Let output whose encoding lacks a letter show the letter's code, in place of failing.

    Windows gives pipes and files an encoding of 256 characters; names of behaviors may have others.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class StdoutHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to whatever `sys.stdout` is at that moment, and forgives one that takes no more (`| head`)."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        self.stream = sys.stdout
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the base class's name)
        """Stay silent if the stream takes no more, of which the command tells; else do as the base class."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class WarningsFile(logging.FileHandler):
    """A file of warnings; on a full disk they appear elsewhere alone."""

    def _open(self) -> Any:
        return open_own(Path(self.baseFilename), self.mode, encoding=self.encoding, errors=self.errors)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the base class's name)
        """Stay silent: every message is on the console too."""


class ConsoleHandler(logging.Handler):
    """Prints above a live display; warnings and errors in color."""

    STYLES = ((logging.ERROR, "bold red"), (logging.WARNING, "yellow"))

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        style = next((style for level, style in self.STYLES if record.levelno >= level), None)
        try:
            self.console.print(
                self.format(record), style=style, markup=False, highlight=False, soft_wrap=True
            )
        except Exception:
            self.handleError(record)
