"""The best checkpoints of one behaviour (`keep_best`): which they are, and the copies of the very best."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ..utils.atomic_files import atomic_write_bytes
from .status import Checkpoint, TrainingStatus, listed

logger = logging.getLogger(__name__)

STATUS_KEY = "best_checkpoints"
"""Where training_status.json lists them, the best first; `reward` is what they were judged by."""


class BestCheckpoints:
    """The checkpoints with the highest rewards, whatever their age.

    Their files are numbered like all others. The best one's are copied to `<behavior>-best.pt` and
    `<behavior>-best.onnx` in the same folder.
    """

    def __init__(
        self, behavior: str, folder: Path, keep: int, status: TrainingStatus, suffixes: Sequence[str] = ("",)
    ) -> None:
        """`keep`: how many; 0 leaves those alone that an earlier process has kept."""
        self.behavior = behavior
        self.folder = folder
        self.keep = keep
        self.status = status
        self.suffixes = tuple(suffixes)
        self.entries: list[Checkpoint] = []
        """The best first; behind them those that give way to any other, without a reward."""
        self._reset_pending = False

    def reset(self) -> None:
        """What was earned before says nothing any more: those that are listed give way to any from now on.

        From any thread; it counts when the next checkpoint is saved, or one is judged.
        """
        self._reset_pending = True

    def settle(self) -> None:
        """Look whether another measure counts by now."""
        if self._reset_pending:
            self._reset_pending = False
            self._list([replace(entry, reward=None) for entry in self.entries])

    def admits(self, reward: float) -> bool:
        """Whether a policy of this reward is one of the best so far; of equals the older one stays."""
        if not self.keep or not math.isfinite(reward):
            return False
        self.settle()
        return len(self.entries) < self.keep or reward > _reward(self.entries[self.keep - 1])

    def add(self, saved: Checkpoint, reward: float) -> list[Checkpoint]:
        """List a checkpoint, and return those that are no longer among the best."""
        others = [entry for entry in self.entries if entry.steps != saved.steps]
        entries = sorted([*others, replace(saved, reward=reward)], key=_reward, reverse=True)
        self._list(entries[: self.keep])
        return entries[self.keep :]

    def _list(self, entries: list[Checkpoint]) -> None:
        self.entries = entries
        self.status.set(self.behavior, STATUS_KEY, [asdict(entry) for entry in entries])

    def renew_copies(self) -> None:
        """Copy the best one's files to the names that do not change; a failing disk is warned of."""
        if not self.entries or not self.keep:
            return
        best = f"{self.behavior}-{self.entries[0].steps}"
        names = [".pt", *(f"{suffix}.onnx" for suffix in self.suffixes)]
        for source, target in [(f"{best}{name}", f"{self.behavior}-best{name}") for name in names]:
            try:
                atomic_write_bytes(self.folder / target, (self.folder / source).read_bytes())
            except FileNotFoundError:  # the brain could not be verified: no other one is to stand for it
                (self.folder / target).unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s could not be copied to %s (%s).", source, self.folder / target, error)

    def restore(self) -> None:
        """Take over those of the status file whose weights are still there.

        Raises:
            TrainingStatusError: an entry is malformed.
        """
        entries = listed(self.status, self.behavior, STATUS_KEY)
        self.entries = [entry for entry in entries if self._weights(entry.steps).exists()]

    def resume(self, step: int, judged: float | None) -> None:
        """A run goes on from `step`; a kill may have come before the status file named it as one of the best.

        Args:
            step: of the checkpoint.
            judged: the reward by which it was saved as one of the best, if it was.
        """
        missing = all(entry.steps != step for entry in self.entries)
        if judged is not None and missing and self.admits(judged):
            weights = self._weights(step)
            if weights.exists():
                model = str(weights.with_suffix(".onnx"))
                self.add(Checkpoint(step, model, judged, weights.stat().st_mtime, [str(weights)]), judged)
        self.renew_copies()

    def _weights(self, step: int) -> Path:
        return self.folder / f"{self.behavior}-{step}.pt"


def _reward(entry: Checkpoint) -> float:
    return -math.inf if entry.reward is None else entry.reward
