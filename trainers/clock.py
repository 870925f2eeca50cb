"""Counts a trainer's steps and tells when a summary or a checkpoint is due."""

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
        self._look_ahead()

    def due_summary(self, length: int) -> int | None:
        """The multiple of `summary_freq` that a trajectory of this length reaches, if any."""
        crossed = self.step > 0 and self.step + length >= self.next_summary
        return self.next_summary if crossed else None

    def due_checkpoint(self, length: int) -> bool:
        """Whether a trajectory of this length reaches the next multiple of `checkpoint_interval`."""
        return self.step > 0 and self.step + length >= self.next_checkpoint

    def count(self, length: int) -> None:
        """A trajectory has been taken in."""
        self.step += length
        self._look_ahead()

    def restore(self, step: int) -> None:
        """Go on from a saved run's step."""
        self.step = step
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.next_summary = (self.step // self.summary_freq + 1) * self.summary_freq
        self.next_checkpoint = (self.step // self.checkpoint_interval + 1) * self.checkpoint_interval
