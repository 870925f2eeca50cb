"""Hyper-parameters that change while training goes on.

Formula and floors as ML-Agents has them (docs/algorithms.md, "Schedules"), so that old settings keep their
meaning: an initial value below its floor rises to the floor.
"""

from dataclasses import dataclass

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
