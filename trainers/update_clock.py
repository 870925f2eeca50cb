"""When a trainer that learns from a replay has gradient steps to make."""

from __future__ import annotations

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

    def restore(self, step: int, updates: int | None = None) -> None:
        """Go on at this step; `updates`: as saved, None where nothing was (ML-Agents saves no count)."""
        self.updates = int(max(1, step / self.steps_per_update)) if updates is None else updates
