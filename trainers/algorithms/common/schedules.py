"""Hyper-parameters that change while training goes on.

Formula and floors as ML-Agents has them (docs/algorithms.md, "Schedules"), so that old settings keep their
meaning: an initial value below its floor rises to the floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...settings.models.algorithms import ClippedObjectiveSettings

LEARNING_RATE_FLOOR = 1e-10
EPSILON_FLOOR = 0.1
BETA_FLOOR = 1e-5


@dataclass(frozen=True)
class Schedule:
    """`initial` for ever, or a straight line from it to `floor`, reached at `max_step`."""

    initial: float
    floor: float
    max_step: int
    linear: bool

    def __call__(self, step: int) -> float:
        """The value at `step` (agent-steps of the policy)."""
        if not self.linear:
            return self.initial
        progress = min(step, self.max_step) / self.max_step if self.max_step > 0 else 1.0
        return (self.initial - self.floor) * (1.0 - progress) + self.floor


class ClippedSchedules(NamedTuple):
    """The three that trainers with PPO's clipped objective have."""

    learning_rate: Schedule
    epsilon: Schedule
    beta: Schedule

    @classmethod
    def of(cls, hyper: ClippedObjectiveSettings, max_steps: int) -> ClippedSchedules:
        """As the settings have them."""

        def schedule(initial: float, floor: float, shape: str) -> Schedule:
            return Schedule(initial, floor, max_steps, linear=shape == "linear")

        return cls(
            schedule(hyper.learning_rate, LEARNING_RATE_FLOOR, hyper.learning_rate_schedule),
            schedule(hyper.epsilon, EPSILON_FLOOR, hyper.epsilon_schedule),
            schedule(hyper.beta, BETA_FLOOR, hyper.beta_schedule),
        )

    def at(self, step: int) -> tuple[float, float, float]:
        """Learning rate, epsilon and beta at a step."""
        return self.learning_rate(step), self.epsilon(step), self.beta(step)
