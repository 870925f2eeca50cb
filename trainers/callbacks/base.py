"""The base of callbacks: a method for everything that a run tells of."""

from __future__ import annotations

from typing import Any, ClassVar

from .events import (
    CheckpointSaved,
    EpisodeEnd,
    EvaluationEnd,
    EvaluationStep,
    StepTaken,
    SummaryDue,
    TrainingBegin,
    TrainingEnd,
    UpdateEnd,
)


class Callback:
    """Something that a run calls as it goes on. Derive, and define the hooks that are wanted.

    A hook that a class does not define costs nothing. One that returns a text ends the run as max_steps
    would, with that text as the reason: saved, exported, with exit status 0. What a hook raises ends the run
    too, saved as well, with an error that names callback and hook.

    Calls never overlap. With `threaded: true` those of `on_episode_end`, `on_update_end`, `on_summary` and
    `on_checkpoint` come from the thread in which the behaviour learns.
    """

    wants_pictures: ClassVar[bool] = False
    """Tests are to run in an environment that can draw itself, if there is one."""

    def on_training_begin(self, event: TrainingBegin) -> str | None:
        """The run is about to launch its environments."""
        return None

    def on_environment_step(self, event: StepTaken) -> str | None:
        """An environment has answered; called for each of them, so be quick."""
        return None

    def on_episode_end(self, event: EpisodeEnd) -> str | None:
        """The episode of an agent was counted."""
        return None

    def on_update_end(self, event: UpdateEnd) -> str | None:
        """The policy of a behaviour has new weights."""
        return None

    def on_summary(self, event: SummaryDue) -> str | None:
        """Statistics are written, of a summary or of a test."""
        return None

    def on_checkpoint(self, event: CheckpointSaved) -> str | None:
        """A checkpoint was saved."""
        return None

    def on_evaluation_step(self, event: EvaluationStep) -> str | None:
        """The environment of a test has answered."""
        return None

    def on_evaluation_end(self, event: EvaluationEnd) -> str | None:
        """A test is over; called for each behaviour that was tested."""
        return None

    def on_training_end(self, event: TrainingEnd) -> None:
        """The run is over, well or not."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run is to go on with, in values that JSON knows; saved with every checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` gave, before `on_training_begin`."""
