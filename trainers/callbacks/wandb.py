"""Weights & Biases: logs curves, settings and models of a run online, or in a folder to sync later."""

from __future__ import annotations

from typing import Any

from .base import Callback, not_installed
from .events import SummaryDue, TrainingBegin, TrainingEnd


class WeightsAndBiases(Callback):
    """Logs every summary and evaluation to a W&B run of the same name.

    The curves of a behavior are named `<behavior>/<statistic>`, over `<behavior>/step`. A resumed run
    continues the same W&B run.
    """

    def __init__(self, project: str = "lanista", brains: bool = False, **init: Any) -> None:
        """Prepare.

        Args:
            project: of Weights & Biases.
            brains: upload the brains when the run ends.
            init: other arguments of `wandb.init`, such as entity, group, tags or mode.

        Raises:
            TrainerError: the package wandb is not installed.
        """
        try:
            import wandb
        except ImportError as error:
            raise not_installed("Weights & Biases", "wandb", "wandb", error) from error
        self._wandb: Any = wandb
        self.project = project
        self.brains = brains
        self.init = init
        self._id: str | None = None
        self._run: Any = None
        self._known: set[str] = set()

    def on_training_begin(self, event: TrainingBegin) -> None:
        """Start the W&B run, or continue it."""
        arguments = {
            "project": self.project,
            "name": event.run_id,
            "dir": str(event.folder),
            "config": event.options.as_dict(),
            **({"id": self._id, "resume": "allow"} if self._id else {}),
            **self.init,
        }
        self._run = self._wandb.init(**arguments)
        self._id = self._run.id

    def on_summary(self, event: SummaryDue) -> None:
        """Log the statistics."""
        step = f"{event.behavior}/step"
        if event.behavior not in self._known:
            # Behaviors have separate step counters, but a W&B run has one step that only grows.
            self._known.add(event.behavior)
            self._run.define_metric(step, hidden=True)
            self._run.define_metric(f"{event.behavior}/*", step_metric=step)
        metrics = {f"{event.behavior}/{key}": value for key, value in event.metrics.items()}
        self._run.log({**metrics, step: event.step})

    def on_training_end(self, event: TrainingEnd) -> None:
        """Upload the models if `brains` is set, and end the W&B run."""
        if self._run is None:
            return
        if self.brains and event.brains:
            artifact = self._wandb.Artifact(f"brains-{self._id}", type="model")
            for path in event.brains.values():
                artifact.add_file(str(path))
            self._run.log_artifact(artifact)
        self._run.finish(exit_code=0 if event.error is None else 1)

    def state_dict(self) -> dict[str, Any]:
        """The id of the W&B run."""
        return {"id": self._id} if self._id else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue that run."""
        self._id = str(state["id"])
