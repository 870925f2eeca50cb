"""MLflow: curves, settings and brains of a run on a tracking server, or in a folder or data base."""

from __future__ import annotations

import logging
import math
import re
import time
from typing import Any

from ..stats.writer import flattened
from .base import Callback, not_installed
from .events import SummaryDue, TrainingBegin, TrainingEnd

_FORBIDDEN = re.compile(r"[^\w\-. /]")
"""Characters that names of metrics and parameters must not contain."""
_LONGEST = 500
"""The longest value of a parameter that every store accepts."""
_AT_ONCE = 100
"""Parameters per call."""
_METRICS_AT_ONCE = 1000
"""Metrics per call."""

logger = logging.getLogger(__name__)


class MLflow(Callback):
    """Logs every summary and evaluation to an MLflow run of the same name.

    The curves of a behavior are named `<behavior>/<statistic>`. A resumed run continues the same MLflow run.
    The server is set by `tracking_uri`, or by MLflow's own environment variables.
    """

    def __init__(
        self, experiment: str = "lanista", tracking_uri: str | None = None, brains: bool = False
    ) -> None:
        """Prepare.

        Args:
            experiment: of MLflow.
            tracking_uri: such as http://server:5000 or sqlite:///runs.db.
            brains: log the brains as artifacts when the run ends.

        Raises:
            TrainerError: the package mlflow is not installed.
        """
        try:
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise not_installed("MLflow", "mlflow", "mlflow (or the smaller mlflow-skinny)", error) from error
        self._client: Any = MlflowClient(tracking_uri)
        self.experiment = experiment
        self.brains = brains
        self._id: str | None = None
        self._unsent: list[Any] = []
        """Metrics that the store has not taken yet."""

    def on_training_begin(self, event: TrainingBegin) -> None:
        """Start the MLflow run, or continue it."""
        if self._id is not None:
            self._client.update_run(self._id, status="RUNNING")
            return
        known = self._client.get_experiment_by_name(self.experiment)
        experiment = self._client.create_experiment(self.experiment) if known is None else known.experiment_id
        self._id = self._client.create_run(experiment, run_name=event.run_id).info.run_id
        self._log_settings(event.options.as_dict())

    def _log_settings(self, settings: dict[str, Any]) -> None:
        from mlflow.entities import Param

        params = [
            Param(_FORBIDDEN.sub("_", key), str(value)[:_LONGEST])
            for key, value in flattened(settings).items()
        ]
        for first in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self._id, params=params[first : first + _AT_ONCE])

    def on_summary(self, event: SummaryDue) -> None:
        """Log the statistics, and those before that a store that was away has not taken."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._unsent += [
            Metric(_FORBIDDEN.sub("_", f"{event.behavior}/{key}"), value, now, event.step)
            for key, value in event.metrics.items()
            if math.isfinite(value)
        ]
        try:
            self._send()
        except Exception as error:  # a server that is away is no reason to end the training
            logger.warning(
                "MLflow has not taken the statistics of step %d; it gets them with the next (%s: %s).",
                event.step,
                type(error).__name__,
                error,
            )

    def _send(self) -> None:
        while self._unsent:
            some = self._unsent[:_METRICS_AT_ONCE]
            self._client.log_batch(self._id, metrics=some)
            del self._unsent[: len(some)]

    def on_training_end(self, event: TrainingEnd) -> None:
        """Log the models if `brains` is set, and end the MLflow run."""
        if self._id is None:
            return
        self._send()
        for path in event.brains.values() if self.brains else ():
            self._client.log_artifact(self._id, str(path), "brains")
        self._client.set_terminated(self._id, "FINISHED" if event.error is None else "FAILED")

    def state_dict(self) -> dict[str, Any]:
        """The id of the MLflow run."""
        return {"id": self._id} if self._id else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue that run."""
        self._id = str(state["id"])
