"""When a trainer that learns from a replay has gradient steps to make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class UpdateClock:
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
