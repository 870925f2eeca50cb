"""The logs of engines: an engine truncates its log when it starts, so that of the one before is renamed."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..utils.regular_files import remove_link
from .engine_errors import EngineError, EngineErrors
from .line_scanner import clean

logger = logging.getLogger(__name__)

LINES = 12
"""Last lines of a log that a message shows."""
_ERROR = re.compile(
    r"\s*(?:Unhandled \w+[:.]\s*)?[\w.]+(?:Exception|Error):|\s*(?:USER )?(?:SCRIPT )?ERROR:"
    r"|\S*Log\w+: Error:"
)
"""How the report of an error begins, in C#, GDScript and Unreal."""
_MOST_ERRORS = 5
"""Kinds of errors that a message shows."""
KEPT = 10
"""Logs of earlier engines that are kept of each environment: the newest."""


@dataclass(frozen=True, slots=True)
class EngineLog:
    """The log that an engine writes."""

    path: Path
    kept_as: Path | None = None
    """What it is renamed to when the environment's next engine starts; None for a file that the user has
    named, which is left to the engine."""

    def __str__(self) -> str:
        kept = "" if self.kept_as is None else f" (kept as {self.kept_as.name} when the next engine starts)"
        return f"{self.path}{kept}"


def new_log(folder: Path, worker_id: int, errors: EngineErrors | None = None) -> EngineLog:
    """The log of an engine that is about to start: `Player-3.log`, in a folder that is made if it is missing.

    That of the engine before, in this run or in the one that is resumed, is kept as `Player-3.1.log`; those
    of later ones as `Player-3.2.log` and so on. An empty one is not kept. The `errors` in it learn its name.

    Raises:
        OSError: The folder cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"Player-{worker_id}.log"
    name = re.compile(rf"Player-{worker_id}\.(\d+)\.log")
    numbers = sorted(int(found[1]) for one in folder.iterdir() if (found := name.fullmatch(one.name)))
    number = (numbers or [0])[-1] + 1
    try:
        remove_link(path)
        if path.exists() and (not path.is_file() or path.stat().st_size):  # on a pipe an engine would wait
            path.rename(_numbered(path, number))
            if errors is not None:
                errors.log_moved(path, _numbered(path, number))
            for old in [*numbers, number][:-KEPT]:
                _numbered(path, old).unlink()
            number += 1
    except OSError as error:  # Windows renames no file that is open
        logger.warning("The log %s could not be kept: %s.", path, error.strerror)
    return EngineLog(path, _numbered(path, number))


def log_at(path: Path | None, own: EngineLog | None) -> EngineLog | None:
    """The log of an engine that writes to `path`: `own`, or one that the user's arguments name.

    None if it is not known.
    """
    if path is None:
        return None
    return own if own is not None and path.absolute() == own.path.absolute() else EngineLog(path)


def last_lines(data: bytes) -> list[str]:
    """The last lines of a log, and how the report of its last error begins, if that is before them."""
    lines = [clean(line) for line in data.splitlines() if line.strip()]
    last = max((row for row, line in enumerate(lines) if _ERROR.match(line)), default=len(lines))
    if last >= len(lines) - LINES:
        return lines[-LINES:]
    return [lines[last], "    ...", *lines[-LINES:][2:]]


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}.{number}{path.suffix}")


def listed(title: str, lines: Sequence[str]) -> str:
    """A paragraph of a message, to stand after a sentence; empty without lines."""
    return "\n".join([f" {title}:", *(f"    {line}" for line in lines)]) if lines else ""


def listed_errors(errors: Sequence[EngineError]) -> str:
    """The paragraph about the first errors that an engine has printed; empty without any."""
    return listed("The first errors that it has printed", [str(error) for error in errors[:_MOST_ERRORS]])
