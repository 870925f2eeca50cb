"""Counts a trainer's steps and tells when a summary or a checkpoint is due."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class StepClock:
    """Agent-steps processed so far, and the next multiples at which something is due.

    Before a trajectory is counted, `due_summary` and `due_checkpoint` tell whether it would cross a multiple.
    Nothing is due at step 0, and one trajectory crosses at most one multiple of each, however long it is.
    """

    summary_freq: int
    checkpoint_interval: int
    step: int = 0
    next_summary: int = field(init=False)
    next_checkpoint: int = field(init=False)

    def __post_init__(self) -> None:
        self.restore(self.step)

    def due_summary(self, length: int) -> int | None:
        """The multiple of `summary_freq` that a trajectory of this length reaches, if any."""
        crossed = self.step > 0 and self.step + length >= self.next_summary
        return self.next_summary if crossed else None

    def due_checkpoint(self, length: int) -> bool:
        """Whether a trajectory of this length reaches the next multiple of `checkpoint_interval`."""
        return self.step > 0 and self.step + length >= self.next_checkpoint

    def pass_summary(self) -> None:
        """The summary that was due is written, whether or not the trajectory that reached it is counted."""
        self.next_summary += self.summary_freq

    def pass_checkpoint(self) -> None:
        """The same of the checkpoint."""
        self.next_checkpoint += self.checkpoint_interval

    def count(self, length: int) -> None:
        """A trajectory has been taken in."""
        self.step += length
        self.next_summary = max(self.next_summary, _next(self.step, self.summary_freq))
        self.next_checkpoint = max(self.next_checkpoint, _next(self.step, self.checkpoint_interval))

    def due(self) -> dict[str, int]:
        """The multiples at which something is due next, to be saved."""
        return {"summary": self.next_summary, "checkpoint": self.next_checkpoint}

    def restore(self, step: int, due: Mapping[str, int] | None = None) -> None:
        """Go on from a saved run's step.

        Args:
            step: agent-steps counted.
            due: what `due` gave. A checkpoint is saved just before the multiple that it is for: without this
                it would be due again. Of no use if the run goes on with other intervals.
        """
        self.step = step
        self.next_summary = _restored(step, self.summary_freq, (due or {}).get("summary"))
        self.next_checkpoint = _restored(step, self.checkpoint_interval, (due or {}).get("checkpoint"))


def _next(step: int, interval: int) -> int:
    return (step // interval + 1) * interval


def _restored(step: int, interval: int, saved: int | None) -> int:
    following = _next(step, interval)
    return saved if saved in (following, following + interval) else following
