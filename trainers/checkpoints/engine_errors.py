"""run_logs/engine_errors.json: the errors that a run's engines have printed, in all processes of the run."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...envs.engines.engine_errors import MOST_KINDS, EngineError, EngineErrors, ErrorCount, in_words
from ...envs.utils.bounded_yaml import load_json
from ...envs.utils.regular_files import read_text
from ..utils.atomic_files import atomic_write_text

MOST_BYTES = 1 << 20
"""The most bytes of a file: a hundred kinds take some ten KiB."""
MOST_TEXT = 2000
"""Characters of an error's sentence that are kept."""
_NAME = re.compile(r"engine_errors(-[0-9]+)?\.json")
_TEXTS = ("engine", "environment", "text", "place", "log")

logger = logging.getLogger(__name__)


def errors_file(folder: Path, rank: int = 0, of: str = "") -> Path:
    """The file of one learner of the run in `folder`; `of`: an ending that sets it apart, as of inference."""
    return folder / "run_logs" / f"engine_errors{f'-{rank}' if rank else ''}{of}.json"


def errors_files(folder: Path) -> Iterator[Path]:
    """The files of all learners of the run in `folder` that have one."""
    for path in sorted((folder / "run_logs").glob("engine_errors*.json")):
        if _NAME.fullmatch(path.name):
            yield path


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """How many errors engines have printed, and of which kinds."""

    total: int = 0
    """All errors, also of kinds that are not told apart."""
    kinds: tuple[ErrorCount, ...] = ()
    """At most `MOST_KINDS`, in the order of their first errors."""
    is_complete: bool = True
    """Whether all were counted; not if an engine has printed faster than was read."""

    @classmethod
    def read(cls, path: Path) -> ErrorRecord:
        """The record in a file; an empty one where there is no file.

        Raises:
            OSError, ValueError: it cannot be read, or is no such record.
        """
        try:
            tree = load_json(read_text(path, MOST_BYTES, within=path.parent.parent))
        except FileNotFoundError:
            return cls()
        kinds = tree.get("kinds") if isinstance(tree, dict) else None
        if not isinstance(kinds, list) or len(kinds) > MOST_KINDS:
            raise ValueError(f"expected an object with `total`, and `kinds`, a list of at most {MOST_KINDS}")
        complete = tree.get("is_complete", True) is True
        return cls(_number(tree.get("total"), "total"), tuple(map(_count, kinds)), complete)

    def plus(self, later: ErrorRecord) -> ErrorRecord:
        """This record with later errors added."""
        found = {one.first.kind: one for one in self.kinds}
        for one in later.kinds:
            known = found.get(one.first.kind)
            if known is not None:
                found[one.first.kind] = ErrorCount(known.first, known.count + one.count)
            elif len(found) < MOST_KINDS:
                found[one.first.kind] = one
        complete = self.is_complete and later.is_complete
        return ErrorRecord(self.total + later.total, tuple(found.values()), complete)

    def since(self, earlier: ErrorRecord) -> ErrorRecord:
        """What this record has more than an earlier one of the same file."""
        known = {one.first.kind: one.count for one in earlier.kinds}
        more = ((one.first, one.count - known.get(one.first.kind, 0)) for one in self.kinds)
        kinds = tuple(ErrorCount(first, count) for first, count in more if count > 0)
        return ErrorRecord(max(0, self.total - earlier.total), kinds, self.is_complete)

    def in_words(self) -> str:
        """The number of errors, and the most frequent kinds."""
        return in_words(self.total, self.kinds, is_complete=self.is_complete)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        kinds = [
            {
                "engine": one.first.engine,
                "environment": one.first.environment,
                "text": one.first.text[:MOST_TEXT],
                "place": one.first.place[:MOST_TEXT],
                "is_warning": one.first.is_warning,
                "log": None if one.first.log is None else one.first.log.as_posix(),
                "count": one.count,
            }
            for one in self.kinds
        ]
        return {"total": self.total, "is_complete": self.is_complete, "kinds": kinds}


def _count(entry: Any) -> ErrorCount:
    if not isinstance(entry, dict):
        raise ValueError(f"found {type(entry).__name__} among its kinds, expected an object")
    engine, environment, text, place, log = (_text(entry, key) for key in _TEXTS)
    warns = entry.get("is_warning", False) is True
    error = EngineError(engine, environment, text, place, Path(log) if log else None, warns)
    return ErrorCount(error, _number(entry.get("count"), "count"))


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is None and key == "log":
        return ""
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise ValueError(f"the key {key} of a kind is no text, or too long")
    return value


def _number(value: Any, key: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"the key {key} is no number of errors")
    return value


class RecordedErrors:
    """The errors that the engines of this process print, and the file that keeps them.

    Args:
        printed: Where the engines' listeners put them.
        path: Of the file; None to keep none.
        resumed: Whether to add to what the file holds.
    """

    def __init__(
        self, printed: EngineErrors | None = None, path: Path | None = None, *, resumed: bool = False
    ) -> None:
        self.printed = EngineErrors() if printed is None else printed
        self._path = path
        self._saved = (0, 0)
        """How many errors and renamed logs the file knows of."""
        self.elsewhere: EngineError | None = None
        """An error of another process of the run, with which this one ends too."""
        self._earlier = _earlier(path) if resumed and path is not None else ErrorRecord()

    @property
    def stopping(self) -> EngineError | None:
        """The error with which the run is to end; None if there is none."""
        return self.printed.first if self.printed.should_stop else self.elsewhere

    def save(self) -> None:
        """Write the file if there is something that it lacks; a full disk costs a warning."""
        total, moved = self.printed.total, tuple(self.printed.moved_logs)
        if self._path is None or (total, len(moved)) == self._saved or not (total or self._earlier.total):
            return
        kinds = tuple(ErrorCount(self._placed(one.first), one.count) for one in self.printed.counts())
        earlier = replace(
            self._earlier, kinds=tuple(self._renamed(one, moved) for one in self._earlier.kinds)
        )
        tree = earlier.plus(ErrorRecord(total, kinds, self.printed.is_complete)).as_dict()
        try:
            atomic_write_text(self._path, json.dumps(tree, indent=1) + "\n")
            self._saved = total, len(moved)
        except OSError as error:
            logger.warning("%s could not be written (%s); the run goes on.", self._path, error)

    def _renamed(self, count: ErrorCount, moved: Sequence[tuple[Path, Path]]) -> ErrorCount:
        """The errors of an earlier process, whose log this one's engines may have renamed."""
        assert self._path is not None
        error = count.first
        if error.log is None:
            return count
        error = replace(error, log=self._path.parent.parent / error.log)
        for path, to in moved:
            error = error.with_log(path, to)
        return ErrorCount(self._placed(error), count.count)

    def _placed(self, error: EngineError) -> EngineError:
        """The error with its log as seen from the run's folder, which may be moved."""
        assert self._path is not None
        folder = self._path.parent.parent.absolute()
        if error.log is None or not error.log.absolute().is_relative_to(folder):
            return error
        return replace(error, log=error.log.absolute().relative_to(folder))


def _earlier(path: Path) -> ErrorRecord:
    """What earlier processes of the run have recorded; nothing, after a warning, if that is damaged."""
    try:
        return ErrorRecord.read(path)
    except (OSError, ValueError) as error:
        logger.warning(
            "%s cannot be read: %s. The errors that engines printed before are not counted any more.",
            path,
            error,
        )
        return ErrorRecord()
