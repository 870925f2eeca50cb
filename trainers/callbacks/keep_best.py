"""Keeps the best weights and brain of each behavior in a folder of their own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..utils.atomic_files import atomic_write_bytes
from .base import Callback
from .events import CheckpointSaved, EvaluationEnd, TrainingBegin

logger = logging.getLogger(__name__)


class KeepBest(Callback):
    """Copies the best checkpoint of a behavior, and its brains, to `<run>/<folder>/`, over the one before.

    A behavior that is tested is judged by its tests, and saved after one that was better than all before;
    another one whenever a checkpoint is saved, by the mean reward that the checkpoint is listed with.
    The setting keep_best is for checkpoints that a run can be resumed from; this is for taking brains out.
    """

    def __init__(self, behavior: str | None = None, folder: str = "best") -> None:
        """`behavior`: whose; None: of all of them."""
        self.behavior = behavior
        self.folder = folder
        self._into = Path(folder)
        self._best: dict[str, float] = {}
        self._tested: set[str] = set()

    def on_training_begin(self, event: TrainingBegin) -> None:
        """Learn where the run's files go."""
        self._into = event.folder / self.folder

    def on_evaluation_end(self, event: EvaluationEnd) -> None:
        """Save and copy the policy where it is the best by test."""
        if event.behavior not in self._tested:
            self._tested.add(event.behavior)
            self._best.pop(event.behavior, None)  # what was earned while learning is no measure for tests
        if not self._better(event.behavior, event.score):
            return
        before = self._best.get(event.behavior)
        self._best[event.behavior] = event.score  # the state that is saved with the policy knows of it
        weights = event.save()
        kept = False
        if weights is not None:
            kept = self._keep(event.behavior, event.step, event.score, weights, _brains_of(weights))
        if not kept:
            self._forget(event.behavior, before)

    def _forget(self, behavior: str, before: float | None) -> None:
        """The best could not be kept: the one before is still the best that is there."""
        if before is None:
            self._best.pop(behavior, None)
        else:
            self._best[behavior] = before

    def on_checkpoint(self, event: CheckpointSaved) -> None:
        """Copy the checkpoint where it is the best by what was earned while learning."""
        if event.reward is None or event.behavior in self._tested:
            return
        if self._better(event.behavior, event.reward):
            self._keep(event.behavior, event.step, event.reward, event.weights, event.brains)

    def _better(self, behavior: str, score: float) -> bool:
        watched = self.behavior is None or behavior == self.behavior
        return watched and (behavior not in self._best or score > self._best[behavior])

    def _keep(self, behavior: str, step: int, score: float, weights: Path, brains: Sequence[Path]) -> bool:
        """Copy the files; False where the disk fails, which is warned of."""
        files = {weights: f"{behavior}.pt"}
        for brain in brains:
            files[brain] = f"{behavior}{brain.stem.removeprefix(weights.stem)}.onnx"
        try:
            self._into.mkdir(parents=True, exist_ok=True)
            for source, name in files.items():
                atomic_write_bytes(self._into / name, source.read_bytes())
        except OSError as error:
            logger.warning("The best of %s could not be copied to %s (%s).", behavior, self._into, error)
            return False
        self._best[behavior] = score
        logger.info("%s: the best so far, %.3f at step %d, is in %s.", behavior, score, step, self._into)
        return True

    def state_dict(self) -> dict[str, Any]:
        """The best scores."""
        return {"best": self._best, "tested": sorted(self._tested)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on comparing with them."""
        self._best, self._tested = dict(state["best"]), set(state["tested"])


def _brains_of(weights: Path) -> list[Path]:
    """The brains of the same step, of which a team has one for each place."""
    stem = weights.stem
    found = (path for path in weights.parent.iterdir() if path.suffix == ".onnx")
    return sorted(path for path in found if path.stem == stem or path.stem.startswith(f"{stem}-"))
