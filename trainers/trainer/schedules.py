"""Schedules of one behavior: when summaries, checkpoints, gradient updates and evaluations are due."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class StepSchedule:
    """Agent-steps processed so far, and the next steps at which a summary and a checkpoint are due.

    Before a trajectory is counted, `summary_due` and `checkpoint_due` say whether it would cross a multiple
    of the interval. Nothing is due at step 0, and one trajectory crosses at most one multiple of each
    interval, however long it is.
    """

    summary_freq: int
    checkpoint_interval: int
    step: int = 0
    next_summary: int = field(init=False)
    next_checkpoint: int = field(init=False)

    def __post_init__(self) -> None:
        self.restore(self.step)

    def summary_due(self, length: int) -> int | None:
        """The multiple of `summary_freq` that a trajectory of this length reaches, if any."""
        crossed = self.step > 0 and self.step + length >= self.next_summary
        return self.next_summary if crossed else None

    def checkpoint_due(self, length: int) -> bool:
        """Whether a trajectory of this length reaches the next multiple of `checkpoint_interval`."""
        return self.step > 0 and self.step + length >= self.next_checkpoint

    def is_due(self, length: int) -> bool:
        """Whether a trajectory of this length reaches either."""
        return self.summary_due(length) is not None or self.checkpoint_due(length)

    def advance_summary(self) -> None:
        """The due summary is written, whether or not the trajectory that reached it is counted."""
        self.next_summary += self.summary_freq

    def advance_checkpoint(self) -> None:
        """The due checkpoint is saved, whether or not the trajectory that reached it is counted."""
        self.next_checkpoint += self.checkpoint_interval

    def count(self, length: int) -> None:
        """Count a trajectory of `length` steps."""
        self.step += length
        self.next_summary = max(self.next_summary, _next(self.step, self.summary_freq))
        self.next_checkpoint = max(self.next_checkpoint, _next(self.step, self.checkpoint_interval))

    def next_due(self) -> dict[str, int]:
        """The steps at which something is due next, and the intervals that they belong to, to be saved."""
        return {
            "summary": self.next_summary,
            "checkpoint": self.next_checkpoint,
            "summary_freq": self.summary_freq,
            "checkpoint_interval": self.checkpoint_interval,
        }

    def restore(self, step: int, due: Mapping[str, int] | None = None) -> None:
        """Continue from a saved run's step.

        Args:
            step: agent-steps counted.
            due: what `next_due` returned. A checkpoint is saved just before the multiple that it is for:
                without this it would be due again. Ignored if the run continues with other intervals.

        Raises:
            ValueError: no run has been at such a step.
        """
        if step < 0:
            raise ValueError(f"its step is {step}")
        self.step = step
        saved = due or {}
        self.next_summary = _restored(
            step, self.summary_freq, saved.get("summary"), saved.get("summary_freq")
        )
        self.next_checkpoint = _restored(
            step, self.checkpoint_interval, saved.get("checkpoint"), saved.get("checkpoint_interval")
        )


def _next(step: int, interval: int) -> int:
    return (step // interval + 1) * interval


def _restored(step: int, interval: int, saved: int | None, saved_interval: int | None) -> int:
    """The step that is due next; `saved` was due of `saved_interval`, None in a run before this was saved."""
    following = _next(step, interval)
    same = saved_interval in (None, interval)
    return saved if same and saved in (following, following + interval) else following


@dataclass
class UpdateSchedule:
    """A schedule of an update every `steps_per_update` agent-steps on average, after `init_steps`.

    The count starts at 1, and after a resume at the number of updates that the steps so far are worth: so
    ML-Agents counts, and a run's number of updates follows from it.
    """

    steps_per_update: float
    init_steps: int
    updates: int = 1

    def is_due(self, step: int) -> bool:
        """Whether an update is due at this step."""
        return step >= self.init_steps and (step - self.init_steps) / self.updates > self.steps_per_update

    def due(self, step: int) -> int:
        """How many updates are due at this step; by another formula than `is_due`, which decides."""
        return max(0, math.ceil((step - self.init_steps) / self.steps_per_update) - self.updates)

    def count(self) -> None:
        """Count an update."""
        self.updates += 1

    @property
    def interval(self) -> list[float]:
        """The settings that the count belongs to, to be saved with it."""
        return [self.steps_per_update, self.init_steps]

    def restore(self, step: int, updates: int | None = None, interval: Sequence[float] | None = None) -> None:
        """Continue at this step.

        Args:
            step: the trainer's step.
            updates: as saved; None if nothing was (ML-Agents saves no count).
            interval: the settings with which they were made. If the interval changed, the count is
                recomputed; otherwise the trainer would burst or stall.
        """
        if updates is None:
            self.updates = int(max(1, step / self.steps_per_update))
        elif interval is None or list(interval) == self.interval:
            self.updates = updates
        else:
            self.updates = int(max(1, (step - self.init_steps) / self.steps_per_update))


class EvaluationSchedule:
    """Evaluations are due at the multiples of `frequency`.

    Several behaviors in one environment are evaluated together, whenever one of them is due. An evaluation
    that comes early by less than half an interval replaces the one that was to come. From `max_steps` on none
    is due but the one at the end of the training, of the policy that is exported: a trainer that stands
    exactly at `max_steps` still takes steps.
    """

    def __init__(self, frequency: int, max_steps: float = math.inf) -> None:
        """Schedule the first evaluation.

        Args:
            frequency: trainer steps between evaluations; -1: never.
            max_steps: trainer steps with which the training ends.
        """
        self.frequency = frequency
        self.max_steps = max_steps
        self.next_step = max(frequency, 1)
        """The step from which on an evaluation is due."""
        self.last_step: int | None = None
        """The step of the last evaluation; None before the first, and once the policy has changed since."""

    @property
    def enabled(self) -> bool:
        """Whether there are evaluations."""
        return self.frequency > 0

    def is_due(self, step: int) -> bool:
        """Whether the behavior is to be evaluated at `step`, while its training goes on."""
        return self.enabled and self.next_step <= step < self.max_steps

    def is_due_at_end(self, step: int) -> bool:
        """Whether the policy of `step`, at the end of a training, is still to be evaluated."""
        return self.enabled and self.last_step != step

    def on_update(self) -> None:
        """The policy has changed, maybe without another step."""
        self.last_step = None

    def advance(self, step: int) -> None:
        """An evaluation took place at `step`."""
        self.last_step = step
        self.next_step = self.frequency * ((step + self.frequency // 2) // self.frequency + 1)

    def restore(self, step: int, next_step: int | None, last_step: int | None = None) -> None:
        """Continue at `step`; from the next multiple if `next_step` is None or of another frequency."""
        if not self.enabled:
            return
        self.last_step = last_step
        following = self.frequency * (step // self.frequency + 1)
        fits = next_step is not None and next_step % self.frequency == 0
        if next_step is not None and fits and next_step - step <= 3 * self.frequency // 2:
            following = next_step
        self.next_step = following
