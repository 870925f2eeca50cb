"""What training_status.json says of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .training_status import TrainingStatus, TrainingStatusError


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
        """The entry as JSON holds it; what else it says is passed over.

        Raises:
            ValueError: a key is missing, or its value is of another kind.
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
        """The model and what belongs to it."""
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
"""What the keys of an entry must hold, in words and as a test."""


def listed(status: TrainingStatus, behavior: str, key: str) -> list[Checkpoint]:
    """The entries that the status file has under a key.

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
