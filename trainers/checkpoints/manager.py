"""The checkpoints of one behavior: names, order of writing, which are kept, which one resumes a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ...envs.utils.regular_files import read_bytes
from ..utils.atomic_files import atomic_link, atomic_write_bytes, remove_partials
from .best import BestCheckpoints
from .file import (
    CheckpointError,
    load_checkpoint,
    not_finite,
    numbered_checkpoints,
    save_checkpoint,
    serialize,
)
from .resuming import LATEST_STEP, RESUME_STEP, resumable, resume_step
from .status import Checkpoint, TrainingStatus, listed
from .transfer import LATEST

logger = logging.getLogger(__name__)


class CheckpointManager:
    """Writes the checkpoints of one behavior in an order that survives a kill at any instant.

    A save writes `<behavior>-<step>.pt`, then `checkpoint.pt`, then the ONNX file, each of them atomically;
    removes what `keep` no longer allows; and last writes the status file. At every instant `checkpoint.pt` is
    thus the checkpoint just saved or the one before it, and the status file lists nothing that never existed.
    `checkpoint.pt` is a copy, independent of the other file; if there is no room for a copy, a hard link.

    Where other behaviors have checkpoints too, the status file names the step from which each is resumed
    (`resuming.py`); its file is kept, also if `keep` does not count it, until the file names another.
    """

    def __init__(
        self,
        behavior: str,
        run_folder: str | Path,
        keep: int,
        status: TrainingStatus,
        suffixes: Sequence[str] = ("",),
        keep_best: int = 0,
    ) -> None:
        """Manage the files of one behavior.

        Args:
            behavior: its name.
            run_folder: where its own folder lies.
            keep: how many numbered checkpoints are kept; 0 or less keeps all.
            status: the run's status file.
            suffixes: of the names of the ONNX files, of which there may be several.
            keep_best: how many of the best are kept in addition to those.
        """
        self.behavior = behavior
        self.run_folder = Path(run_folder)
        self.folder = self.run_folder / behavior
        self.keep = keep
        self.suffixes = tuple(suffixes)
        self.status = status
        self.checkpoints: list[Checkpoint] = []
        """Those that `keep` counts, oldest first."""
        self._resume_steps: set[int] = set()
        """Those that the status file may name on the disk."""
        self.best = BestCheckpoints(behavior, self.folder, keep_best, status, self.suffixes)
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
        *,
        best_metric: float | None = None,
        due: bool = True,
        final: bool = False,
    ) -> Checkpoint | None:
        """Write a checkpoint at `step`.

        Args:
            step: the trainer's step counter; it numbers the files.
            state: what `save_checkpoint` takes.
            reward: mean return of the recent episodes, for the status file.
            export: writes the ONNX file to the path that it is given; each of several with its suffix.
            best_metric: the reward that makes it one of the best; None: it is not.
            due: it is one of those that `keep` counts.
            final: the run ends with it.

        Returns:
            None if the file system failed: this is logged, the older checkpoints are untouched, and the run
            continues.

        Raises:
            CheckpointError: the state must not be saved (see `save_checkpoint`).
            Exception: what `export` raises, except an OSError; the weights are then saved and listed.
        """
        data = serialize(state)
        weights, models = self._weights(step), self._models(step)
        model = weights.with_suffix(".onnx")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(weights, data)
        except OSError as error:
            self._warn_not_saved(step, error, final=final)
            return None
        self._note_latest(step, written=self._update_latest(weights, data))
        for old in models:
            _remove(old)  # of a save at the same step, with other weights
        if reward is None:  # saved again by a run that was resumed at its end, without new episodes
            reward = next((entry.reward for entry in self.checkpoints if entry.steps == step), None)
        others = [str(path) for path in (weights, *models[1:])]
        saved = Checkpoint(step, str(models[0]), reward, time.time(), others)
        try:
            if export is not None:
                self._export(model, export)
        finally:
            self._list(saved, best_metric, due)
            self.save_status()
            if best_metric is not None:
                self.best.update_copies()
        return saved

    def save_weights(self, step: int, state: Mapping[str, Any]) -> bool:
        """Write `<behavior>-<step>.pt` alone, without a model and in no list, to resume from it.

        Returns:
            False, after a warning, if the file system failed.

        Raises:
            CheckpointError: the state must not be saved (see `save_checkpoint`).
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_checkpoint(self._weights(step), state)
        except OSError as error:
            self._warn_not_saved(step, error)
            return False
        return True

    def _warn_not_saved(self, step: int, error: OSError, *, final: bool = False) -> None:
        steps = [f"the last one is of step {entry.steps}" for entry in self.checkpoints]
        advice = " Training goes on. Free some space or make the folder writable before the next checkpoint."
        logger.warning(
            "%s: the checkpoint of step %d could not be saved (%s); %s.%s",
            self.behavior,
            step,
            error,
            steps[-1] if steps else "there is no other one",
            "" if final else advice,
        )

    def _weights(self, step: int) -> Path:
        return self.folder / f"{self.behavior}-{step}.pt"

    def _models(self, step: int) -> list[Path]:
        return [self.folder / f"{self.behavior}-{step}{suffix}.onnx" for suffix in self.suffixes]

    def _update_latest(self, weights: Path, data: bytes) -> bool:
        """Write `checkpoint.pt`; False, after a warning, if that fails."""
        try:
            try:
                atomic_write_bytes(self.latest_path, data)
            except OSError:
                atomic_link(weights, self.latest_path)
        except OSError as error:
            logger.warning(
                "%s could not be written (%s). The checkpoint is saved as %s, and --resume finds it there.",
                self.latest_path,
                error,
                weights,
            )
            return False
        return True

    def _note_latest(self, step: int, written: bool) -> None:
        """Let the status file tell which checkpoint `checkpoint.pt` holds, if it is not the last one."""
        noted = self.status.get(self.behavior, LATEST_STEP)
        if written and noted is not None:
            self.status.set(self.behavior, LATEST_STEP, step)
        elif not written and noted is None:
            before = self.checkpoints[-1].steps if self.checkpoints else -1
            self.status.set(self.behavior, LATEST_STEP, before)

    def _export(self, model: Path, export: Callable[[Path], object]) -> None:
        try:
            export(model)
        except OSError as error:
            logger.warning("%s could not be written (%s); the weights are saved.", model, error)

    def _list(self, saved: Checkpoint, best_metric: float | None, due: bool) -> None:
        """Add an entry, replacing one of the same step, and remove the files that are no longer kept."""
        self.best.apply_reset()
        gone = self.best.add(saved, best_metric) if best_metric is not None else []
        if due:
            self.checkpoints = [entry for entry in self.checkpoints if entry.steps != saved.steps] + [saved]
        while 0 < self.keep < len(self.checkpoints):
            gone.append(self.checkpoints.pop(0))
        for entry in gone:
            for file in () if self._is_kept(entry.steps) else self._located(entry):
                _remove(file)
        self.status.set(self.behavior, "checkpoints", [asdict(entry) for entry in self.checkpoints])

    def _is_kept(self, step: int) -> bool:
        listed_steps = {entry.steps for entry in (*self.checkpoints, *self.best.entries)}
        return step in listed_steps or step in self._resume_steps

    def set_resume_step(self, step: int) -> None:
        """Let the status file, when it is next written, name a step whose weights are saved."""
        self._resume_steps.add(step)
        self.status.set(self.behavior, RESUME_STEP, step)

    def remove_former_resume_steps(self) -> None:
        """The status file has been written: remove the files that only its former text named."""
        current = resume_step(self.status, self.behavior)
        former = {step for step in self._resume_steps if step != current}
        self._resume_steps -= former
        for step in former:
            for file in () if self._is_kept(step) else (self._weights(step), *self._models(step)):
                _remove(file)

    def _located(self, entry: Checkpoint) -> list[Path]:
        """The entry's files at their current place: the folder may have been moved since they were listed."""
        return [self.folder / file.name for file in entry.files]

    def save_status(self) -> bool:
        """Write the status file; False, after a warning, if that fails."""
        try:
            self.status.save()
        except OSError as error:
            logger.warning("%s could not be written (%s).", self.status.path, error)
            return False
        return True

    def finish(self) -> Path | None:
        """Copy the newest checkpoint's models to `<run>/<behavior>.onnx` and list it as the final one.

        Returns:
            The (first) copy, or None if the newest checkpoint has no model or it could not be copied (which
            is logged); earlier copies and entries are then unchanged.
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
                atomic_write_bytes(target, read_bytes(source, within=self.run_folder))
                logger.info("Copied %s to %s.", source, target)
            except OSError as error:
                logger.warning("%s could not be copied to %s (%s).", source, target, error)
                return None
        self.status.set(self.behavior, "final_checkpoint", {**asdict(last), "file_path": str(targets[0])})
        self.save_status()
        return targets[0]

    # ---- resuming

    def load(self, device: str | torch.device = "cpu") -> dict[str, Any]:
        """The state of the first file of `resumable` that is intact, after a warning of those that are not.

        That is the one that the status file names, or else `checkpoint.pt`; a numbered one that is newer
        comes before that: it was saved, and a kill or a full disk prevented `checkpoint.pt` from being
        updated. If an older one was copied to `checkpoint.pt`, the run goes back to it.

        The list of checkpoints is taken from the status file, together with those that a killed run had
        written and not yet listed.

        Raises:
            CheckpointError: none of the files can be used; says what is wrong with each.
            TrainingStatusError: an entry of the status file is malformed.
        """
        self._restore_list()
        complaints = []
        for path in resumable(self.folder, self.behavior, self.status):
            try:
                state = load_checkpoint(path, device, self.run_folder)
                if spoiled := not_finite(state):
                    problem = f"its tensor {spoiled} holds NaN or infinite numbers"
                    raise CheckpointError(f"The checkpoint {path} cannot be used: {problem}.")
            except CheckpointError as error:
                complaints.append(str(error))
                continue
            if complaints:
                logger.warning("%s Resuming from %s instead.", " ".join(complaints), path)
            return state
        advice = "None of them can be used: restore one from a copy, or start over with --force."
        raise CheckpointError("\n".join([*complaints, advice] if len(complaints) > 1 else complaints))

    def _restore_list(self) -> None:
        """Restore the listed checkpoints that exist, and newer ones that a kill left unlisted."""
        known = listed(self.status, self.behavior, "checkpoints")
        self.checkpoints = [entry for entry in known if any(file.exists() for file in self._located(entry))]
        self.best.restore()
        newest = max((entry.steps for entry in (*known, *self.best.entries)), default=-1)
        resumed = resume_step(self.status, self.behavior)
        if resumed is not None:
            self._resume_steps.add(resumed)
        for step, path in reversed(numbered_checkpoints(self.folder, self.behavior)):
            if step > newest and step != resumed:
                model = path.with_suffix(".onnx")
                self.checkpoints.append(Checkpoint(step, str(model), None, path.stat().st_mtime, [str(path)]))


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s could not be removed (%s).", file, error)
