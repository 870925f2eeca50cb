"""The checkpoints of one behaviour: names, order of writing, which are kept, which one is resumed from."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from .atomic import atomic_link, atomic_write_bytes, remove_partials
from .checkpoint_file import (
    CheckpointError,
    load_checkpoint,
    numbered_checkpoints,
    save_checkpoint,
    serialise,
)
from .training_status import TrainingStatus, TrainingStatusError

__all__ = [
    "LATEST",
    "Checkpoint",
    "CheckpointError",
    "CheckpointManager",
    "load_checkpoint",
    "numbered_checkpoints",
    "save_checkpoint",
]

logger = logging.getLogger(__name__)

LATEST = "checkpoint.pt"
"""The copy of the newest checkpoint that --resume and --initialize-from read."""


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


class CheckpointManager:
    """Writes the checkpoints of one behaviour in an order that survives a kill at any instant.

    A save writes `<behavior>-<step>.pt`, then `checkpoint.pt`, then the ONNX file, each of them atomically;
    removes what `keep` no longer allows; and last writes the status file. At every instant `checkpoint.pt` is
    thus the checkpoint just saved or the one before it, and the status file lists nothing that never was.
    `checkpoint.pt` is a copy, which nothing that happens to the other file harms; where there is no room for
    one, a second name.
    """

    def __init__(
        self,
        behavior: str,
        run_folder: str | Path,
        keep: int,
        status: TrainingStatus,
        suffixes: Sequence[str] = ("",),
    ) -> None:
        """Look after the files of one behaviour.

        Args:
            behavior: its name.
            run_folder: where its own folder lies.
            keep: how many numbered checkpoints stay; 0 or less keeps all.
            status: the run's status file.
            suffixes: what is added to the names of brains, of which there may be several.
        """
        self.behavior = behavior
        self.run_folder = Path(run_folder)
        self.folder = self.run_folder / behavior
        self.keep = keep
        self.suffixes = tuple(suffixes)
        self.status = status
        self.checkpoints: list[Checkpoint] = []
        """Oldest first."""
        remove_partials(self.folder)
        remove_partials(self.run_folder)

    @property
    def latest_path(self) -> Path:
        """The file that a resumed run reads."""
        return self.folder / LATEST

    @property
    def any_saved(self) -> bool:
        """Whether there is a checkpoint to resume from, be it intact or not."""
        return self.latest_path.exists() or bool(numbered_checkpoints(self.folder, self.behavior))

    def save(
        self,
        step: int,
        state: Mapping[str, Any],
        reward: float | None = None,
        export: Callable[[Path], object] | None = None,
    ) -> Checkpoint | None:
        """Write a checkpoint at `step`.

        Args:
            step: the trainer's step counter; it numbers the files.
            state: what `save_checkpoint` takes.
            reward: mean return of the recent episodes, for the status file.
            export: writes the ONNX file to the path that it is given; each of several with its suffix.

        Returns:
            None where the file system failed: a warning says so, the older checkpoints are untouched, and
            the run goes on.

        Raises:
            CheckpointError: the state must not be saved (see `save_checkpoint`).
            Exception: what `export` raises, except an OSError; the weights are then saved and listed.
        """
        data = serialise(state)
        plain = self.folder / f"{self.behavior}-{step}.onnx"
        models = [plain.with_name(f"{plain.stem}{suffix}.onnx") for suffix in self.suffixes]
        weights = plain.with_suffix(".pt")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(weights, data)
        except OSError as error:
            self._give_up(step, error)
            return None
        self._renew_latest(weights, data)
        for model in models:
            _remove(model)  # of a save at the same step, with other weights
        others = [str(path) for path in (weights, *models[1:])]
        saved = Checkpoint(step, str(models[0]), reward, time.time(), others)
        try:
            if export is not None:
                self._export(plain, export)
        finally:
            self._list(saved)
            self.save_status()
        return saved

    def _renew_latest(self, weights: Path, data: bytes) -> None:
        try:
            try:
                atomic_write_bytes(self.latest_path, data)
            except OSError:
                atomic_link(weights, self.latest_path)
        except OSError as error:
            logger.warning(
                "%s could not be written (%s). The checkpoint is saved as %s, and --resume finds it there.",
                *(self.latest_path, error, weights),
            )

    def _export(self, model: Path, export: Callable[[Path], object]) -> None:
        try:
            export(model)
        except OSError as error:
            logger.warning(
                "%s could not be written (%s); the weights are saved and training goes on.", model, error
            )

    def _give_up(self, step: int, error: OSError) -> None:
        """Say what a failed save means."""
        last = (
            f"the last one is of step {self.checkpoints[-1].steps}"
            if self.checkpoints
            else "there is none yet"
        )
        logger.warning(
            "%s: the checkpoint of step %d could not be saved (%s); %s. Training goes on. Free some space or "
            "make the folder writable before the next checkpoint.",
            self.behavior,
            step,
            error,
            last,
        )

    def _list(self, saved: Checkpoint) -> None:
        """Add an entry, in place of one of the same step, and remove the files of those beyond `keep`."""
        self.checkpoints = [entry for entry in self.checkpoints if entry.steps != saved.steps] + [saved]
        while 0 < self.keep < len(self.checkpoints):
            oldest = self.checkpoints.pop(0)
            for file in self._located(oldest):
                _remove(file)
        self.status.set(self.behavior, "checkpoints", [asdict(entry) for entry in self.checkpoints])

    def _located(self, entry: Checkpoint) -> list[Path]:
        """The entry's files where they are now: the folder may have been moved since they were listed."""
        return [self.folder / file.name for file in entry.files]

    def save_status(self) -> bool:
        """Write the status file; False, after a warning, where that fails."""
        try:
            self.status.save()
        except OSError as error:
            logger.warning("%s could not be written (%s); training goes on.", self.status.path, error)
            return False
        return True

    def finish(self) -> Path | None:
        """Copy the newest checkpoint's models to `<run>/<behavior>.onnx` and list it as the final one.

        Returns:
            The (first) copy, or None where the newest checkpoint has no model or it could not be copied (a
            warning said so); what was there and listed before is then as it was.
        """
        if not self.checkpoints:
            return None
        last = self.checkpoints[-1]
        targets = [self.run_folder / f"{self.behavior}{suffix}.onnx" for suffix in self.suffixes]
        sources = [file for file in self._located(last) if file.suffix == ".onnx"]
        if len(sources) != len(targets) or not all(source.exists() for source in sources):
            return None
        for source, target in zip(sources, targets):
            try:
                atomic_write_bytes(target, source.read_bytes())
                logger.info("Copied %s to %s.", source, target)
            except OSError as error:
                logger.warning("%s could not be copied to %s (%s).", source, target, error)
                return None
        self.status.set(self.behavior, "final_checkpoint", {**asdict(last), "file_path": str(targets[0])})
        self.save_status()
        return targets[0]

    # ---- resuming

    def load(self, device: str | torch.device = "cpu") -> dict[str, Any]:
        """The state of `checkpoint.pt`, or, after a warning, of the newest numbered one that is intact.

        A numbered one that was written behind `checkpoint.pt` comes first: it was saved, and a kill or a full
        disk kept `checkpoint.pt` from following. (Who copies an older one to `checkpoint.pt` to go back there
        makes that the younger file.)

        The list of checkpoints is taken from the status file, together with those that a killed run had
        written and not yet listed.

        Raises:
            CheckpointError: none of the files can be used; says what is wrong with each.
            TrainingStatusError: an entry of the status file is malformed.
        """
        self._restore_list()
        complaints = []
        for path in self._candidates():
            try:
                state = load_checkpoint(path, device)
            except CheckpointError as error:
                complaints.append(str(error))
                continue
            if complaints:
                logger.warning("%s Resuming from %s instead.", " ".join(complaints), path)
            return state
        raise CheckpointError("\n".join(complaints))

    def _candidates(self) -> list[Path]:
        """What may be resumed from, the best first."""
        numbered = [path for _, path in numbered_checkpoints(self.folder, self.behavior)]
        if not self.latest_path.exists():
            return numbered or [self.latest_path]
        latest = self.latest_path.stat().st_mtime_ns
        ahead = [path for path in numbered[:1] if path.stat().st_mtime_ns > latest]
        return [*ahead, self.latest_path, *numbered[len(ahead) :]]

    def _listed(self) -> list[Checkpoint]:
        """The entries of the status file."""
        entries = self.status.get(self.behavior, "checkpoints", [])
        where = f"{self.status.path}: {self.behavior}.checkpoints"
        advice = "Remove the entry, or the file to resume with the weights alone."
        if not isinstance(entries, list):
            raise TrainingStatusError(f"{where}: found {entries!r}, expected a list. {advice}")
        listed = []
        for index, entry in enumerate(entries):
            try:
                listed.append(Checkpoint.read(entry))
            except ValueError as error:
                raise TrainingStatusError(f"{where}[{index}]: {error}. {advice}") from None
        return listed

    def _restore_list(self) -> None:
        """Take over the listed checkpoints that exist, and newer ones that a kill kept from being listed."""
        listed = self._listed()
        self.checkpoints = [entry for entry in listed if any(file.exists() for file in self._located(entry))]
        newest = max((entry.steps for entry in listed), default=-1)
        for step, path in reversed(numbered_checkpoints(self.folder, self.behavior)):
            if step > newest:
                model = path.with_suffix(".onnx")
                self.checkpoints.append(Checkpoint(step, str(model), None, path.stat().st_mtime, [str(path)]))


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s could not be removed (%s).", file, error)
