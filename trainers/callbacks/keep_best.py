"""Keeps the best weights and model of each behavior in a separate folder."""

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
    """Copies the best checkpoint of a behavior, and its ONNX files, to `<run>/<folder>/`.

    A behavior that is evaluated is saved after every evaluation with a new best score; any other behavior is
    compared whenever a checkpoint is saved, by the mean reward that is listed for the checkpoint: of at least
    10 episodes. The setting keep_best keeps checkpoints from which a run can be resumed; this callback
    collects models for use.
    """

    def __init__(self, behavior: str | None = None, folder: str = "best") -> None:
        """`behavior`: whose checkpoints; None: those of all behaviors."""
        self.behavior = behavior
        self.folder = folder
        self._target = Path(folder)
        self._best: dict[str, float] = {}
        self._evaluated: set[str] = set()
        self._by_groups: set[str] = set()
        """The behaviors of which returns of groups are compared."""

    def on_training_begin(self, event: TrainingBegin) -> None:
        """Set the target folder."""
        self._target = event.folder / self.folder

    def on_evaluation_end(self, event: EvaluationEnd) -> None:
        """Save and copy the policy if its score is the best so far."""
        if event.behavior not in self._evaluated:
            self._evaluated.add(event.behavior)
            self._best.pop(event.behavior, None)  # rewards from training do not compare with evaluations
        self._follow_groups(event)
        if not self._better(event.behavior, event.score):
            return
        before = self._best.get(event.behavior)
        self._best[event.behavior] = (
            event.score
        )  # before saving: the callback's state is saved with the policy
        weights = event.save()
        kept = False
        if weights is not None:
            kept = self._keep(event.behavior, event.step, event.score, weights, _brains_of(weights))
        if not kept:
            self._restore_best(event.behavior, before)

    def _restore_best(self, behavior: str, before: float | None) -> None:
        """The new best could not be kept: the previous one still counts."""
        if before is None:
            self._best.pop(behavior, None)
        else:
            self._best[behavior] = before

    def on_checkpoint(self, event: CheckpointSaved) -> None:
        """Copy the checkpoint if it is the best by training reward."""
        if event.reward is None or event.behavior in self._evaluated:
            return
        self._follow_groups(event)
        if self._better(event.behavior, event.reward):
            self._keep(event.behavior, event.step, event.reward, event.weights, event.brains)

    def _follow_groups(self, event: CheckpointSaved | EvaluationEnd) -> None:
        """Begin anew once groups earn rewards: those of agents from before do not compare with theirs."""
        if event.by_groups and event.behavior not in self._by_groups:
            self._by_groups.add(event.behavior)
            self._best.pop(event.behavior, None)

    def _better(self, behavior: str, score: float) -> bool:
        watched = self.behavior is None or behavior == self.behavior
        return watched and (behavior not in self._best or score > self._best[behavior])

    def _keep(self, behavior: str, step: int, score: float, weights: Path, brains: Sequence[Path]) -> bool:
        """Copy the files; False, after a warning, if the disk fails."""
        files = {weights: f"{behavior}.pt"}
        for brain in brains:
            files[brain] = f"{behavior}{brain.stem.removeprefix(weights.stem)}.onnx"
        try:
            self._target.mkdir(parents=True, exist_ok=True)
            for source, name in files.items():
                atomic_write_bytes(self._target / name, source.read_bytes())
        except OSError as error:
            logger.warning("The best of %s could not be copied to %s (%s).", behavior, self._target, error)
            return False
        self._best[behavior] = score
        logger.info("%s: the best so far, %.3f at step %d, is in %s.", behavior, score, step, self._target)
        return True

    def state_dict(self) -> dict[str, Any]:
        """The best scores."""
        return {
            "best": self._best,
            "tested": sorted(self._evaluated),
            "by_groups": sorted(self._by_groups),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them; an older version compared returns of groups in evaluations alone."""
        self._best, self._evaluated = dict(state["best"]), set(state["tested"])
        self._by_groups = set(state.get("by_groups", self._evaluated))


def _brains_of(weights: Path) -> list[Path]:
    """The ONNX files of the same step: one, or of COMA one per group slot."""
    stem = weights.stem
    models = (path for path in weights.parent.iterdir() if path.suffix == ".onnx")
    return sorted(path for path in models if path.stem == stem or path.stem.startswith(f"{stem}-"))
