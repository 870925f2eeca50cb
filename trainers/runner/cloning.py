"""One run of `lanista clone`, from demonstrations to a brain. Importing this module loads torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from ..algorithms.base import UnsupportedActionError
from ..buffers.demonstrations import Demonstrations, held_out
from ..callbacks.base import Callback
from ..callbacks.dispatcher import training_events
from ..callbacks.events import UpdateEnd
from ..checkpoints.run_folder import remove_empty_run, require_folder_name, write_configuration
from ..checkpoints.status import TrainingStatus
from ..networks.observation_kinds import UnsupportedObservationError
from ..settings.models.behavior import NEVER, TrainerSettings
from ..settings.options import RunOptions
from ..stats.display import Display
from ..stats.reporter import StatsReporter
from ..stats.timers import GaugeWriter
from ..stats.writer import StatsPropertyType
from ..stats.writers import close_writers
from ..trainer.checkpointing import LearnerCheckpointer
from ..trainer.cloning import CloningTrainer, cloning_settings
from ..trainer.context import RunContext
from ..trainer.factory import make_algorithm, make_policy
from ..trainer.schedules import EvaluationSchedule
from ..trainer.standalone import SummaryEvents
from ..utils.errors import TrainerError
from .banner import next_steps
from .signals import StopSignals
from .training import make_context

logger = logging.getLogger(__name__)


def clone(
    options: RunOptions,
    name: str,
    demos: Demonstrations,
    folder: Path,
    status: TrainingStatus,
    display: Display,
    signals: StopSignals,
    callbacks: Mapping[str, Callback] | None = None,
) -> None:
    """Learn the behavior `name` from demonstrations, and write what is due.

    Raises:
        TrainerError: the run cannot start, or its files cannot be written.
        FloatingPointError: a gradient is not finite, after what was learned before is saved.
    """
    gauges = GaugeWriter()
    context = make_context(options, folder, status, display, gauges, callbacks)
    run = None
    try:
        run = CloningRun(name, demos, options.behavior(name), context)
        signals.call(run.stop)
        if context.resume:  # its settings fit the checkpoint
            write_configuration(folder, options)
        with training_events(context.callbacks, options, folder, lambda: {name: run.trainer.step}):
            run.learn()
    finally:
        close_writers(context.writers)
        if run is None and not context.resume:
            remove_empty_run(folder)
        context.timers.save(folder / "run_logs" / "timers.json", gauges.gauges)
    for line in next_steps(options, folder, [name], unfinished=run.trainer.should_still_train):
        logger.info("%s", line)


class CloningRun(SummaryEvents):
    """Joins the parts of one behavior; as the trainer's `TrainerEvents` it writes what is due."""

    def __init__(self, name: str, demos: Demonstrations, settings: TrainerSettings, run: RunContext) -> None:
        """Make the parts, and load the weights that the run starts from or resumes with.

        Raises:
            TrainerError: the behavior cannot be learned, or weights are missing or do not fit.
        """
        require_folder_name(name)
        clone = settings.clone
        assert clone is not None
        settings = cloning_settings(settings, clone)
        self.name, self.run = name, run
        super().__init__(StatsReporter(name, run.writers))
        self.reporter.add_property(StatsPropertyType.HYPERPARAMETERS, settings.as_dict())
        self.reporter.add_property(StatsPropertyType.MAX_STEPS, settings.max_steps)
        try:
            algorithm = make_algorithm(
                demos.spec, settings, run.device, run.seed, run.non_finite, run.precision
            )
        except (UnsupportedObservationError, UnsupportedActionError) as error:
            raise TrainerError(f"The behavior {name}: {error}") from error
        learned, measured = held_out(demos, clone.held_out, run.seed)
        _log_amounts(name, learned, measured, clone.held_out)
        self.trainer = CloningTrainer(
            settings=settings,
            algorithm=algorithm,
            demos=learned,
            held_out=measured,
            stats=self.reporter,
            events=self,
            non_finite=run.non_finite,
            seed=run.seed + 4,
            device=run.device,
            update_threads=run.update_threads(),
            timers=run.timers,
        )
        policy = make_policy(algorithm.network, demos.spec, run.seed + 2, deterministic=False)
        self.checkpointer = LearnerCheckpointer(
            name=name,
            spec=demos.spec,
            run=run,
            trainer=self.trainer,
            policy=policy,
            evaluation_schedule=EvaluationSchedule(NEVER),
        )
        self.checkpointer.restore()
        self._stopped = False

    def stop(self) -> None:
        """End after the current epoch, and save."""
        self._stopped = True

    def learn(self) -> None:
        """Imitate until the last gradient step, then save.

        Raises:
            FloatingPointError: a gradient is not finite; what was learned before is saved.
            CheckpointError: the weights or the model could not be written.
        """
        failure = None
        try:
            while (
                self.trainer.should_still_train and not self._stopped and not self.run.callbacks.should_stop
            ):
                self.trainer.advance()
        except FloatingPointError as error:
            failure = error
        self.checkpointer.finish(saved=self.checkpointer.save(final=True))
        if failure is not None:
            raise failure

    # TrainerEvents --------------------------------------------------------------------------------------

    def on_checkpoint(self) -> bool:
        """Save a numbered checkpoint and its model."""
        self.checkpointer.save()
        return False

    def on_update(self, metrics: Mapping[str, float]) -> None:
        """Tell the callbacks."""
        self.run.callbacks.dispatch(UpdateEnd(self.name, self.trainer.step, metrics))


def _log_amounts(name: str, learned: Demonstrations, measured: Demonstrations | None, share: float) -> None:
    """Log what is learned from and what is not; warn where nothing could be held out."""
    logger.info("%s: learns from %s.", name, _amount(learned))
    if measured is not None:
        logger.info("%s: held out, to measure how well it predicts: %s.", name, _amount(measured))
    elif share > 0:
        logger.warning(
            "%s: there is one episode alone, of which nothing is held out: how well the policy predicts the "
            "expert elsewhere is not measured.",
            name,
        )


def _amount(demos: Demonstrations) -> str:
    counts = {"episode": len(demos.lengths), "step": len(demos)}
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items())
