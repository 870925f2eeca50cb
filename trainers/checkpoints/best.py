"""The best checkpoints of one behavior (`keep_best`), and the copy of the very best."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ...envs.utils.regular_files import read_bytes
from ..utils.atomic_files import atomic_write_bytes
from .status import Checkpoint, TrainingStatus, listed

logger = logging.getLogger(__name__)

STATUS_KEY = "best_checkpoints"
"""Where training_status.json lists them, the best first; `reward` is the score that ranks them."""


class BestCheckpoints:
    """The checkpoints with the highest rewards, whatever their age.

    Their files are numbered like all others. The best one's are copied to `<behavior>-best.pt` and
    `<behavior>-best.onnx` in the same folder.
    """

    def __init__(
        self, behavior: str, folder: Path, keep: int, status: TrainingStatus, suffixes: Sequence[str] = ("",)
    ) -> None:
        """`keep`: how many; 0 leaves those of an earlier process as they are."""
        self.behavior = behavior
        self.folder = folder
        self.keep = keep
        self.status = status
        self.suffixes = tuple(suffixes)
        self.entries: list[Checkpoint] = []
        """The best first; then those without a reward, which any other replaces."""
        self._reset_pending = False

    def reset(self) -> None:
        """Earlier rewards do not compare any more: from now on any checkpoint replaces those that are listed.

        Thread-safe; takes effect when the next checkpoint is saved or compared.
        """
        self._reset_pending = True

    def apply_reset(self) -> None:
        """Clear the rewards of the listed checkpoints if a `reset` is pending."""
        if self._reset_pending:
            self._reset_pending = False
            if self.entries:
                self._list([replace(entry, reward=None) for entry in self.entries])

    def admits(self, reward: float) -> bool:
        """Whether a policy with this reward is one of the best so far; among equals the older one stays."""
        if not self.keep or not math.isfinite(reward):
            return False
        self.apply_reset()
        return len(self.entries) < self.keep or reward > _reward(self.entries[self.keep - 1])

    def add(self, saved: Checkpoint, reward: float) -> list[Checkpoint]:
        """Add a checkpoint, and return those that are no longer among the best."""
        others = [entry for entry in self.entries if entry.steps != saved.steps]
        entries = sorted([*others, replace(saved, reward=reward)], key=_reward, reverse=True)
        self._list(entries[: self.keep])
        return entries[self.keep :]

    def _list(self, entries: list[Checkpoint]) -> None:
        self.entries = entries
        self.status.set(self.behavior, STATUS_KEY, [asdict(entry) for entry in entries])

    def update_copies(self) -> None:
        """Copy the files of the best one to the fixed names; a failing disk costs a warning."""
        if not self.entries or not self.keep:
            return
        best = f"{self.behavior}-{self.entries[0].steps}"
        names = [".pt", *(f"{suffix}.onnx" for suffix in self.suffixes)]
        for source, target in [(f"{best}{name}", f"{self.behavior}-best{name}") for name in names]:
            try:
                atomic_write_bytes(self.folder / target, read_bytes(self.folder / source, within=self.folder))
            except FileNotFoundError:  # the model could not be verified: no other one may take its place
                (self.folder / target).unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s could not be copied to %s (%s).", source, self.folder / target, error)

    def restore(self) -> None:
        """Restore those listed in the status file whose weights still exist.

        Raises:
            TrainingStatusError: an entry is malformed.
        """
        entries = listed(self.status, self.behavior, STATUS_KEY)
        self.entries = [entry for entry in entries if self._weights(entry.steps).exists()]

    def resume(self, step: int, best_metric: float | None) -> None:
        """Resume from `step`; a kill may have come before the status file listed it as one of the best.

        Args:
            step: of the checkpoint.
            best_metric: the reward with which it was saved as one of the best, if it was.
        """
        missing = all(entry.steps != step for entry in self.entries)
        if best_metric is not None and missing and self.admits(best_metric):
            weights = self._weights(step)
            if weights.exists():
                model = str(weights.with_suffix(".onnx"))
                self.add(
                    Checkpoint(step, model, best_metric, weights.stat().st_mtime, [str(weights)]), best_metric
                )
        self.update_copies()

    def _weights(self, step: int) -> Path:
        return self.folder / f"{self.behavior}-{step}.pt"


def _reward(entry: Checkpoint) -> float:
    return -math.inf if entry.reward is None else entry.reward
