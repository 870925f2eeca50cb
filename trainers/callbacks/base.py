"""The base class of callbacks: one hook per event of a run."""

from __future__ import annotations

from typing import Any, ClassVar

from ..utils.errors import TrainerError
from . import events


class Callback:
    """An object that a run calls when something happens. Derive from it and define the hooks you need.

    A hook that a class does not define costs nothing. A hook that returns a string stops the run as max_steps
    would, with that string as the reason: saved, exported, with exit status 0. An exception in a hook ends
    the run too, saved as well, with an error that names the callback and the hook.

    Calls never overlap. With `threaded: true` those of `on_episode_end`, `on_update_end`, `on_summary` and
    `on_checkpoint` of a trainer that learns in a thread come from there (docs/threaded.md).
    """

    wants_frames: ClassVar[bool] = False
    """Evaluations are to run in an environment that can render itself, if there is one."""

    def on_training_begin(self, event: events.TrainingBegin) -> str | None:
        """The run is about to launch its environments."""
        return None

    def on_environment_step(self, event: events.StepTaken) -> str | None:
        """An environment has stepped; called once per environment and step, so be quick."""
        return None

    def on_episode_end(self, event: events.EpisodeEnd) -> str | None:
        """An agent's episode has ended and was counted."""
        return None

    def on_update_end(self, event: events.UpdateEnd) -> str | None:
        """The policy of a behavior has new weights."""
        return None

    def on_summary(self, event: events.SummaryDue) -> str | None:
        """Statistics are written, of a summary or of an evaluation."""
        return None

    def on_checkpoint(self, event: events.CheckpointSaved) -> str | None:
        """A checkpoint was saved."""
        return None

    def on_engine_error(self, event: events.EngineErrorPrinted) -> str | None:
        """An engine has printed an error; called once for each kind of error, between two steps."""
        return None

    def on_evaluation_step(self, event: events.EvaluationStep) -> str | None:
        """The environment of an evaluation has stepped."""
        return None

    def on_evaluation_end(self, event: events.EvaluationEnd) -> str | None:
        """An evaluation is over; called once per behavior that was evaluated."""
        return None

    def on_training_end(self, event: events.TrainingEnd) -> None:
        """The run is over, whether it succeeded or failed."""

    def state_dict(self) -> dict[str, Any]:
        """The state to resume with, as JSON values; saved with every checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; called before `on_training_begin`."""


def not_installed(program: str, module: str, package: str, error: ImportError) -> TrainerError:
    """The error for a program whose module could not be imported: it is missing or broken.

    Args:
        program: its name.
        module: of it.
        package: what pip calls it.
        error: what the import raised.
    """
    if error.name == module:
        return TrainerError(f"{program} is not installed: pip install {package}")
    return TrainerError(f"{program} is installed, but cannot be imported: {error}")
