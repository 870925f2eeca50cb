"""One run of `lanista clone`, from demonstrations to a brain. Importing this module loads torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ....agent_processor.queues import StatsSink
from ....agent_processor.trajectory import Rollout
from ...algorithms.base import Algorithm
from ...algorithms.common.actions import UnsupportedActionError
from ...algorithms.common.optim import LEARNING_RATE_FLOOR, Schedule
from ...algorithms.imitation.behavioral_cloning import LOSS, agreement
from ...buffers.demonstrations import Demonstrations, digest, held_out
from ...callbacks.base import Callback
from ...callbacks.dispatcher import training_events
from ...callbacks.events import UpdateEnd
from ...checkpoints.run_folder import remove_empty_run, require_folder_name, write_configuration
from ...checkpoints.status import TrainingStatus
from ...networks.observation_kinds import UnsupportedObservationError
from ...rewards.base import Rewards
from ...runner.banner import next_steps
from ...runner.signals import StopSignals
from ...runner.training import make_context
from ...settings.models.behavior import NEVER, TrainerSettings
from ...settings.models.rewards import BehavioralCloningSettings, CloneSettings
from ...settings.options import RunOptions
from ...stats.display import Display
from ...stats.reporter import StatsReporter
from ...stats.timers import GaugeWriter
from ...stats.writer import StatsPropertyType
from ...stats.writers import close_writers
from ...trainer.checkpointing import DEMONSTRATIONS, LearnerCheckpointer
from ...trainer.context import RunContext, TrainerEvents, TrainerOptions
from ...trainer.factory import cloning_from, make_algorithm, make_policy, make_values
from ...trainer.schedules import EvaluationSchedule
from ...trainer.standalone import SummaryEvents
from ...trainer.trainer import AVERAGE, Trainer
from ...utils.errors import CheckpointError, TrainerError

if TYPE_CHECKING:
    from typing_extensions import Unpack

SUMMARIES, CHECKPOINTS = 25, 5
"""The numbers of summaries and of checkpoints of a whole run."""
LONGEST = 100
"""The most gradient steps between two looks at what is due."""


def cloning_settings(settings: TrainerSettings, clone: CloneSettings) -> TrainerSettings:
    """The settings of a behavior for a run that counts gradient steps: when it ends, and what is due when."""
    steps = clone.gradient_steps
    given = settings.behavioral_cloning or BehavioralCloningSettings(demo_path=clone.demos[0])
    wanted = {
        "max_steps": steps,
        "summary_freq": max(1, steps // SUMMARIES),
        "checkpoint_interval": max(1, steps // CHECKPOINTS),
        "stop_at_reward": None,
        # No file of ML-Agents asks for a clone alone.
        "behavioral_cloning": given.model_copy(update={"engine_actions": given.engine_actions is not False}),
    }
    return settings.model_copy(update=wanted)


class CloningTrainer(Trainer):
    """Imitates demonstrations; its steps are gradient steps."""

    from_demonstrations = True

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        demos: Demonstrations,
        held_out: Demonstrations | None,
        stats: StatsSink,
        events: TrainerEvents,
        **options: Unpack[TrainerOptions],
    ) -> None:
        """Prepare to learn.

        Args:
            settings: those of `cloning_settings`.
            algorithm: whose policy learns.
            demos: what it learns from.
            held_out: what it is measured by; None: it is not.
            stats, events, options: as for `Trainer`.
        """
        super().__init__(settings, algorithm, {}, stats, events, advance_interval=1, **options)
        assert settings.behavioral_cloning is not None
        self.demos, self.held_out = demos, held_out
        values = make_values(demos, algorithm, settings, self.device, self.seed + 1, self.non_finite)
        self.digest = digest(demos, outcomes=values is not None)
        self.imitation = self.cloning = cloning_from(
            demos=demos,
            cloning=settings.behavioral_cloning,
            algorithm=algorithm,
            settings=settings,
            device=self.device,
            seed=self.seed,
            non_finite=self.non_finite,
            values=values,
        )
        self.learning_rate = Schedule(
            self.imitation.rate, LEARNING_RATE_FLOOR, settings.max_steps, linear=True
        )

    @property
    def should_still_train(self) -> bool:
        """Whether gradient steps are left."""
        return self.step < self.settings.max_steps

    @property
    def limit(self) -> tuple[str, float]:
        """The key that says how many gradient steps there are."""
        return "clone.gradient_steps", self.settings.max_steps

    def _store(self, rollout: Rollout, rewards: Rewards) -> None:
        raise NotImplementedError("nothing is collected: there is no environment")

    def _learn(self) -> bool:
        """Learn an epoch of the demonstrations, or a part of it; then do what is due."""
        if self.step == 0:
            self.algorithm.update_normalizer(self.demos.obs)
        due = self.schedule.next_due()
        self.imitation.rate = self.learning_rate(self.step)
        most = min(self.imitation.minibatches, LONGEST, self.settings.max_steps - self.step)
        with self.timers.span("_update_policy"), self.compute_context():
            losses = self.imitation.epoch(self.step, most)
        self.schedule.count(len(losses))
        values = self.imitation.values
        metrics = {LOSS: float(np.mean(losses)), **({} if values is None else values.pop_metrics())}
        for key, value in metrics.items():
            self.stats.add_stat(key, value, AVERAGE)
        self.events.on_update(metrics)
        if self.step >= due["summary"] or not self.should_still_train:
            self._before_summary()
            self.events.on_summary(self.step)
        if self.step >= due["checkpoint"] and self.should_still_train:
            self.events.on_checkpoint()
        return True

    def _before_summary(self) -> None:
        self.stats.set_stat("Policy/Learning Rate", self.imitation.rate)
        if self.held_out is None:
            return
        with self.timers.span("held_out"):
            found = agreement(self.imitation.policy, self.held_out, self.device)
        for key, value in found.items():
            self.stats.set_stat(key, value)

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on, and what is learned from."""
        return {**super().state_dict(), DEMONSTRATIONS: self.digest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken.

        Raises:
            CheckpointError: with other demonstrations.
        """
        if state[DEMONSTRATIONS] != self.digest:
            raise CheckpointError(
                "The demonstrations are not those that the run has learned from so far, or others of their "
                "episodes are held out: give the same files, --held-out and --seed to resume it; or begin a "
                "new run with its weights, by --initialize-from."
            )
        super().load_state_dict(state)


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
