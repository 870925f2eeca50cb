"""Counts a trainer's steps and tells when a summary or a checkpoint is due.

When a trainer that learns from a replay has gradient steps to make.

When the tests of a behaviour fall due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class StepSchedule:
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


@dataclass
class UpdateSchedule:
    """One update for every `steps_per_update` agent-steps, on the average, once `init_steps` are taken.

    Counting begins at 1, and after a resume with the number of updates that the steps so far are worth: so
    ML-Agents counts, and a run's number of updates follows from it.
    """

    steps_per_update: float
    init_steps: int
    updates: int = 1

    def due(self, step: int) -> bool:
        """Whether an update is due at this step."""
        return step >= self.init_steps and (step - self.init_steps) / self.updates > self.steps_per_update

    def count(self) -> None:
        """An update was made."""
        self.updates += 1

    @property
    def pace(self) -> list[float]:
        """What the count belongs to, to be saved with it."""
        return [self.steps_per_update, self.init_steps]

    def restore(self, step: int, updates: int | None = None, pace: Sequence[float] | None = None) -> None:
        """Go on at this step.

        Args:
            step: of the trainer.
            updates: as saved; None where nothing was (ML-Agents saves no count).
            pace: with which they were made. At another one the steps so far are worth another number: else
                all that lacks would be made up for at once, or none made until the steps are worth so many.
        """
        if updates is None:
            self.updates = int(max(1, step / self.steps_per_update))
        elif pace is None or list(pace) == self.pace:
            self.updates = updates
        else:
            self.updates = int(max(1, (step - self.init_steps) / self.steps_per_update))


class EvaluationSchedule:
    """Tests fall due at the multiples of `frequency`.

    Where several behaviours are in one environment they are tested together, whenever one of them is due. A
    test that comes early by less than half an interval stands for the one that was to come.
    """

    __test__ = False

    def __init__(self, frequency: int, step: int = 0) -> None:
        """`frequency`: trainer steps between tests; -1: never. `step`: where the run begins."""
        self.frequency = frequency
        self.due = max(frequency, 1) * (step // max(frequency, 1) + 1)
        """The step from which on a test is due."""

    @property
    def on(self) -> bool:
        """Whether there are tests."""
        return self.frequency > 0

    def is_due(self, step: int) -> bool:
        """Whether the behaviour is to be tested at `step`."""
        return self.on and step >= self.due

    def tested(self, step: int) -> None:
        """A test took place at `step`."""
        self.due = self.frequency * ((step + self.frequency // 2) // self.frequency + 1)

    def restore(self, step: int, due: int | None) -> None:
        """Go on at `step`, where `due` was saved; else, and with another frequency, at the next multiple."""
        if not self.on:
            return
        fits = due is not None and due % self.frequency == 0 and due - step <= 3 * self.frequency // 2
        self.due = due if due is not None and fits else self.frequency * (step // self.frequency + 1)
