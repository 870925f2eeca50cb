"""The checkpoints of one behaviour: names, order of writing, which are kept, which one is resumed from."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from .atomic import atomic_write_bytes, remove_partials
from .checkpoint_file import (
    CheckpointError,
    load_checkpoint,
    numbered_checkpoints,
    save_checkpoint,
    serialise,
)
from .training_status import TrainingStatus

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

    @property
    def files(self) -> list[Path]:
        """The model and what belongs to it."""
        return [Path(self.file_path), *map(Path, self.auxillary_file_paths)]


class CheckpointManager:
    """Writes the checkpoints of one behaviour in an order that survives a kill at any instant.

    A save writes `<behavior>-<step>.pt`, then `checkpoint.pt`, then the ONNX file, each of them atomically;
    removes what `keep` no longer allows; and last writes the status file. At every instant `checkpoint.pt` is
    thus the checkpoint just saved or the one before it, and the status file lists nothing that never was.
    """

    def __init__(self, behavior: str, run_folder: str | Path, keep: int, status: TrainingStatus) -> None:
        self.behavior = behavior
        self.run_folder = Path(run_folder)
        self.folder = self.run_folder / behavior
        self.keep = keep
        """How many numbered checkpoints stay; 0 or less keeps all."""
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
            export: writes the ONNX file to the path that it is given.

        Returns:
            None where the file system failed: a warning says so, the older checkpoints are untouched, and
            the run goes on.

        Raises:
            CheckpointError: the state must not be saved (see `save_checkpoint`).
            Exception: what `export` raises, except an OSError; the weights are then saved and listed.
        """
        data = serialise(state)
        model = self.folder / f"{self.behavior}-{step}.onnx"
        weights = model.with_suffix(".pt")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(weights, data)
            atomic_write_bytes(self.latest_path, data)
        except OSError as error:
            self._give_up(step, error, weights)
            return None
        saved = Checkpoint(step, str(model), reward, time.time(), [str(weights)])
        try:
            if export is not None:
                self._export(model, export)
        finally:
            self._list(saved)
            self.save_status()
        return saved

    def _export(self, model: Path, export: Callable[[Path], object]) -> None:
        try:
            export(model)
        except OSError as error:
            logger.warning(
                "%s could not be written (%s); the weights are saved and training goes on.", model, error
            )

    def _give_up(self, step: int, error: OSError, weights: Path) -> None:
        """Leave no half of a failed save behind, and say what it means."""
        if all(entry.steps != step for entry in self.checkpoints):
            _remove(weights)
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
        """Copy the newest checkpoint's model to `<run>/<behavior>.onnx` and list it as the final one.

        Returns:
            The copy, or None where there is no model or it could not be written (a warning says so).
        """
        if not self.checkpoints:
            return None
        last = self.checkpoints[-1]
        source = self._located(last)[0]
        target = self.run_folder / f"{self.behavior}.onnx"
        try:
            if source.exists():
                atomic_write_bytes(target, source.read_bytes())
                logger.info("Copied %s to %s.", source, target)
        except OSError as error:
            logger.warning("%s could not be copied to %s (%s).", source, target, error)
            return None
        self.status.set(self.behavior, "final_checkpoint", {**asdict(last), "file_path": str(target)})
        self.save_status()
        return target if target.exists() else None

    # ---- resuming

    def load(self, device: str | torch.device = "cpu") -> dict[str, Any]:
        """The state of `checkpoint.pt`, or, after a warning, of the newest numbered one that is intact.

        The list of checkpoints is taken from the status file, together with those that a killed run had
        written and not yet listed.

        Raises:
            CheckpointError: none of the files can be used; says what is wrong with each.
        """
        self._restore_list()
        complaints = []
        candidates = [
            self.latest_path,
            *(path for _, path in numbered_checkpoints(self.folder, self.behavior)),
        ]
        for path in candidates:
            try:
                state = load_checkpoint(path, device)
            except CheckpointError as error:
                complaints.append(str(error))
                continue
            if complaints:
                logger.warning("%s Resuming from %s instead.", complaints[0], path)
            return state
        raise CheckpointError("\n".join(complaints))

    def _restore_list(self) -> None:
        """Take over the listed checkpoints that exist, and newer ones that a kill kept from being listed."""
        listed = [Checkpoint(**entry) for entry in self.status.get(self.behavior, "checkpoints", [])]
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
