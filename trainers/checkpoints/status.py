"""training_status.json: what a resumed run needs in addition to the weights, in ML-Agents' format."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from ...envs.utils.bounded_yaml import load_json
from ...envs.utils.regular_files import read_text
from ..utils.atomic_files import atomic_write_text, remove_partials
from ..utils.requirements import load_torch

FORMAT_VERSION = "0.3.0"
REFERENCE_VERSION = "1.1.0"
"""The release of ML-Agents whose format this is; its tools read the key."""
METADATA = "metadata"
LESSON = "lesson_num"
"""ML-Agents' key of an environment parameter's lesson."""
SMOOTHED = "smoothed_reward"
"""Our own key beside it, without which a resumed run would measure differently from an uninterrupted one."""

logger = logging.getLogger(__name__)


class TrainingStatusError(Exception):
    """training_status.json exists, but is not what this program or ML-Agents wrote."""


class TrainingStatus:
    """A tree `category -> key -> value` of plain JSON values that lives in one file.

    Categories are behavior names ("checkpoints", "final_checkpoint", "best_checkpoints", "elo") and
    environment parameters ("lesson_num"). The format has one namespace for both; no key belongs to both, so a
    behavior and a parameter of the same name share an object without conflict, and a parameter may even be
    called "metadata". Everything is kept in memory; `save` writes the whole file atomically. Thread-safe.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.loaded_ns = 0
        """When the file that was loaded had been written, in nanoseconds since 1970; 0 if none was."""
        self._tree: dict[str, dict[str, Any]] = {}
        self._lock = Lock()

    def get(self, category: str, key: str, default: Any = None) -> Any:
        """The value of `key` in `category`, or `default`."""
        with self._lock:
            return self._tree.get(category, {}).get(key, default)

    def set(self, category: str, key: str, value: Any) -> None:
        """Set a JSON value; the file changes with the next `save`."""
        if category == METADATA and key in _metadata():
            raise ValueError(f"{METADATA}.{key} is reserved for the status file itself.")
        with self._lock:
            self._tree.setdefault(category, {})[key] = value

    def save(self) -> None:
        """Write the file. Raises OSError; the old file is then as it was."""
        with self._lock:  # also while writing: an older tree must not replace a newer one
            self.path.parent.mkdir(parents=True, exist_ok=True)
            others = {name: keys for name, keys in self._tree.items() if name != METADATA}
            tree = {**others, METADATA: {**self._tree.get(METADATA, {}), **_metadata()}}
            atomic_write_text(self.path, json.dumps(_strict(tree), indent=4, allow_nan=False))

    def load(self) -> bool:
        """Read the file of the run that is resumed.

        Returns:
            False, after a warning, if there is no file.

        Raises:
            TrainingStatusError: the file cannot be read or is no status file.
        """
        remove_partials(self.path.parent)
        if not self.read():
            logger.warning("Training status file not found. Not all functions will resume properly.")
            return False
        for key, here in _metadata().items():
            there = self.get(METADATA, key)
            if there != here:
                logger.warning("The run was saved with %s %s and resumes with %s.", key, there, here)
        return True

    def read(self) -> bool:
        """Read the file, to look at it alone; False if there is none.

        Raises:
            TrainingStatusError: the file cannot be read or is no status file.
        """
        try:
            self.loaded_ns = self.path.stat().st_mtime_ns
            tree = load_json(read_text(self.path, within=self.path.parent.parent))
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            raise TrainingStatusError(
                f"{self.path} cannot be read: {error}. Remove it to resume with the weights alone "
                "(lessons, ratings and the list of checkpoints start over)."
            ) from error
        _check(self.path, tree)
        with self._lock:
            self._tree = tree
        return True


def _metadata() -> dict[str, str]:
    load_torch()
    import torch

    return {
        "stats_format_version": FORMAT_VERSION,
        "mlagents_version": REFERENCE_VERSION,
        "torch_version": str(torch.__version__),
    }


def _strict(value: Any) -> Any:
    """The same tree with what JSON cannot represent (NaN, infinities) as null."""
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _check(path: Path, tree: Any) -> None:
    if not isinstance(tree, dict) or not all(isinstance(value, dict) for value in tree.values()):
        raise TrainingStatusError(f"{path} is not a training status: expected an object of objects.")
    if METADATA not in tree:
        raise TrainingStatusError(
            f"{path}: Metadata not found, resuming from an incompatible version of ML-Agents. "
            "Expected the key 'metadata' at the top level."
        )


@dataclass(frozen=True)
class Checkpoint:
    """An entry of training_status.json; the names of the fields are those of the file."""

    steps: int
    file_path: str
    reward: float | None
    creation_time: float
    auxillary_file_paths: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, entry: Any) -> Checkpoint:
        """Parse an entry; other keys are ignored.

        Raises:
            ValueError: a key is missing, or its value has the wrong type.
        """
        if not isinstance(entry, Mapping):
            raise ValueError(f"found {entry!r}, expected an object")
        for key, (expected, fits) in _ENTRY.items():
            if key not in entry:
                raise ValueError(f"has no {key!r}, expected {expected}")
            if not fits(entry[key]):
                raise ValueError(f"its {key!r} is {entry[key]!r}, expected {expected}")
        return cls(**{key: entry[key] for key in _ENTRY})

    @property
    def files(self) -> list[Path]:
        """The model and its auxiliary files."""
        return [Path(self.file_path), *map(Path, self.auxillary_file_paths)]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_ENTRY: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "steps": ("a whole number", lambda value: _number(value) and isinstance(value, int)),
    "file_path": ("text", lambda value: isinstance(value, str)),
    "reward": ("a number or null", lambda value: value is None or _number(value)),
    "creation_time": ("a number", _number),
    "auxillary_file_paths": (
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(path, str) for path in value),
    ),
}
"""The expected value of each key of an entry, in words and as a predicate."""


def listed(status: TrainingStatus, behavior: str, key: str) -> list[Checkpoint]:
    """The checkpoints that the status file lists under a key.

    Raises:
        TrainingStatusError: names the one that is malformed.
    """
    entries = status.get(behavior, key, [])
    where = f"{status.path}: {behavior}.{key}"
    advice = "Remove the entry, or the file to resume with the weights alone."
    if not isinstance(entries, list):
        raise TrainingStatusError(f"{where}: found {entries!r}, expected a list. {advice}")
    found = []
    for index, entry in enumerate(entries):
        try:
            found.append(Checkpoint.read(entry))
        except ValueError as error:
            raise TrainingStatusError(f"{where}[{index}]: {error}. {advice}") from None
    return found
