"""One run, from launching the engines to the last file. Importing this module loads torch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from mlagents_envs.base_env import BehaviorSpec

from ...envs.base import BehaviorName, processors
from ...envs.python import in_process
from ...envs.validation import NonFinitePolicy
from ..algorithms.base import OnPolicyAlgorithm
from ..algorithms.common.actions import UnsupportedActionError
from ..algorithms.fast.threads import ACTING_THREADS, MOST_UPDATE_THREADS, UpdateThreads
from ..callbacks.base import Callback
from ..callbacks.dispatcher import STATES, CallbackDispatcher, CallbackWriter, training_events
from ..callbacks.events import SummaryDue
from ..checkpoints.engine_errors import RecordedErrors
from ..checkpoints.resuming import restore_lessons
from ..checkpoints.run_folder import (
    recorded_behaviors,
    remove_empty_run,
    require_distinct_folder,
    write_configuration,
)
from ..checkpoints.status import TrainingStatus
from ..checkpoints.transfer import LATEST, find_start
from ..curriculum import Curriculum
from ..networks.custom import not_exportable, reference_of
from ..networks.modules.passes import Precision
from ..networks.multi_actor import exported_networks
from ..networks.observation_kinds import UnsupportedObservationError
from ..settings.options import RunOptions
from ..settings.validation import require_trainable
from ..stats.display import Display
from ..stats.event_files import OF_INFERENCE
from ..stats.timers import GaugeWriter
from ..stats.writer import StatsWriter
from ..stats.writers import close_writers, make_writers
from ..trainer.context import RunContext
from ..trainer.learner import Learner
from ..trainer.off_policy import OffPolicyTrainer
from ..trainer.update_memory import UpdateMemory, warn_of_shortage
from ..utils import distributed
from ..utils.errors import TrainerError
from .banner import next_steps
from .controller import TrainerController
from .engine_options import takes_state, terms_of_run
from .environments import NodeLauncher, make_env_manager, make_evaluation_environment, tested
from .evaluation.evaluator import Evaluator
from .ranked_controller import RankedController
from .signals import StopSignals

if TYPE_CHECKING:
    from ...envs.manager.manager import EnvManager

logger = logging.getLogger(__name__)


def train(
    options: RunOptions,
    folder: Path,
    status: TrainingStatus,
    display: Display,
    signals: StopSignals,
    *,
    restart_engines_at_checkpoints: bool = False,
    callbacks: Mapping[str, Callback] | None = None,
    cluster: NodeLauncher | None = None,
    envs: EnvManager | None = None,
    errors: RecordedErrors | None = None,
) -> None:
    """Launch the engines, unless they are on their way (`envs`), train until the end, and write what is due.

    Raises:
        TrainerError, TrainerConfigError, CheckpointError, UnityException: after everything that could be
            saved is saved.
    """
    gauges = GaugeWriter()
    context = replace(
        make_context(options, folder, status, display, gauges, callbacks),
        first_environment=distributed.shard(options.env_settings.environments).start,
        training=not options.checkpoint_settings.inference,
        inference_steps=options.checkpoint_settings.inference_steps,
        restart_engines_at_checkpoints=restart_engines_at_checkpoints,
        curriculum=_curriculum(options, folder, status),
        timeout=options.env_settings.timeout_wait,
        terms=terms_of_run(options),
        errors=errors or RecordedErrors(),
    )
    timers = context.timers
    controller = _controller(options, context, signals, cluster, envs)
    timers.add("run_training.setup", timers.clock() - timers.started)
    try:
        display.start()
        with (
            training_events(context.callbacks, options, folder, controller.steps),
            timers.span("TrainerController.start_learning"),
        ):
            controller.run()
        display.status("stopped and saved" if controller.stopped else "done")
    finally:
        close_writers(context.writers)
        if distributed.rank() == 0:
            apart = OF_INFERENCE if not context.training and context.resume else ""
            timers.save(folder / "run_logs" / f"timers{apart}.json", gauges.gauges)
            if not (controller.learners or context.resume):
                remove_empty_run(folder)
    if context.training:
        _warn_of_absent(folder, controller)
        learners = controller.learners.values()
        unfinished = any(learner.trainer.should_still_train for learner in learners)
        for line in next_steps(options, folder, controller.learners, unfinished=unfinished):
            logger.info("%s", line)


def _warn_of_absent(folder: Path, controller: TrainerController) -> None:
    """Warn of behaviors that the run has trained before it was resumed, and that have not appeared since."""
    absent = {path.parent.name for path in folder.glob(f"*/{LATEST}")} - controller.learners.keys()
    if absent:
        logger.warning(
            "The environment has not shown %s since the run was resumed: what was saved stays as it was.",
            ", ".join(sorted(absent)),
        )


def make_context(
    options: RunOptions,
    folder: Path,
    status: TrainingStatus,
    display: Display,
    gauges: GaugeWriter,
    callbacks: Mapping[str, Callback] | None,
) -> RunContext:
    """What every kind of run takes from its options; sets torch's threads.

    Raises:
        TrainerError: the device cannot be used, or there is nothing to start from.
    """
    dispatcher = CallbackDispatcher(callbacks, folder / "run_logs" / STATES)
    torch.set_num_threads(ACTING_THREADS)
    writers: list[StatsWriter] = [gauges, display]
    if distributed.rank() == 0:
        writers = [*make_writers(options, folder), *writers]
    if dispatcher.has_hook(SummaryDue):
        writers.append(CallbackWriter(dispatcher))
    return RunContext(
        folder=folder,
        seed=options.env_settings.seed,
        status=status,
        writers=writers,
        display=display,
        device=torch_device(options.torch_settings.device),
        resume=options.checkpoint_settings.resume,
        recorded=recorded_behaviors(folder) if options.checkpoint_settings.resume else {},
        initialize_from=find_start(options.checkpoint_settings),
        non_finite=NonFinitePolicy(options.env_settings.non_finite),
        precision=Precision(options.torch_settings.precision),
        update_threads=partial(update_threads, options),
        callbacks=dispatcher,
    )


def _controller(
    options: RunOptions,
    context: RunContext,
    signals: StopSignals,
    cluster: NodeLauncher | None,
    envs: EnvManager | None,
) -> TrainerController:
    """The controller, which launches the engines when it runs."""
    folder, evaluator, errors = context.folder, None, context.errors.printed
    if tested(options) and distributed.rank() == 0:
        environment = make_evaluation_environment(options, folder / "run_logs", cluster, errors)
        evaluator = Evaluator(environment, context.callbacks)
    listed = frozenset(options.behaviors)
    make = RankedController if distributed.world_size() > 1 else TrainerController
    controller: TrainerController = make(
        context,
        partial(make_env_manager, options, context.seed, folder / "run_logs", cluster, errors),
        partial(_make_learner, options, context, []),
        on_first_learner=lambda: _on_first_learner(options, listed, folder, controller, signals),
        evaluator=evaluator,
        envs=envs,
    )
    return controller


def _on_first_learner(
    options: RunOptions,
    listed: frozenset[str],
    folder: Path,
    controller: TrainerController,
    signals: StopSignals,
) -> None:
    """A learner is ready, and the settings of a resumed run fit its checkpoint: from now on a stop saves.

    `listed`: the behaviors that the configuration file named. The run's own one names those that appear, too.
    """
    signals.call(controller.stop)
    if len(controller.learners) == 1:
        _log_lessons(controller)
    appeared = options.behaviors.keys() - listed
    writes = options.checkpoint_settings.resume or appeared
    if writes and not options.checkpoint_settings.inference and distributed.rank() == 0:
        write_configuration(folder, options)


def _curriculum(options: RunOptions, folder: Path, status: TrainingStatus) -> Curriculum:
    """The lessons with which the run starts or continues."""
    resumed = options.checkpoint_settings.resume
    curriculum = Curriculum(options.environment_parameters, options.env_settings.seed)
    if resumed and curriculum.lessons:
        restore_lessons(folder, status)
    for warning in curriculum.bind_status(status, resumed=resumed):
        logger.warning("%s", warning)
    return curriculum


def _log_lessons(controller: TrainerController) -> None:
    """Log the lessons; warn about one that depends on a behavior that may never appear."""
    curriculum = controller.curriculum
    for parameter in curriculum.lessons:
        controller.show_lesson(parameter)
    shown = {BehaviorName.parse(behavior_id).name for behavior_id in controller.envs.behavior_specs}
    for parameter, criteria in curriculum.pending():
        if criteria.behavior not in shown:
            logger.warning(
                "Parameter '%s' stays in lesson '%s' until the behavior %s is trained, which the environment "
                "has not shown so far (shown: %s).",
                parameter,
                curriculum.lesson(parameter).name,
                criteria.behavior,
                ", ".join(sorted(shown)),
            )


def _make_learner(
    options: RunOptions, context: RunContext, made: list[str], name: str, spec: BehaviorSpec
) -> Learner:
    """A behavior's learner; its name is added to those of the learners that were made before."""
    require_distinct_folder(name, made, context.folder, context.terms)
    made.append(name)
    settings = options.behavior(name)
    require_trainable(name, settings, options.torch_settings.learners)
    if takes_state(options) and in_process(options.env_settings.env_path or ""):
        from ..algorithms.coma.coma import with_offered_state

        settings = with_offered_state(settings, spec)
    try:
        learner = Learner(name, spec, settings, context)
    except (UnsupportedObservationError, UnsupportedActionError) as error:
        raise TrainerError(f"The behavior {name}: {error}") from error
    if context.training:
        _report_memory(context, learner)
    inexportable = not_exportable(learner.algorithm.network)
    if inexportable:
        logger.warning(
            "The behavior %s will have checkpoints, but no brains (.onnx): %s has no method "
            "export(graph, inputs), which would add it to one. See docs/extending.md.",
            name,
            ", ".join(inexportable),
        )
    elif context.training:
        _try_export(name, learner)
    return learner


def _report_memory(context: RunContext, learner: Learner) -> None:
    """Log what memory a behavior will take; a replay has said so itself."""
    minibatch = 0
    if isinstance(learner.trainer, OffPolicyTrainer):
        collected = learner.trainer.layout.nbytes()
    elif isinstance(learner.algorithm, OnPolicyAlgorithm):
        update = UpdateMemory.of(learner.spec, learner.settings, learner.algorithm)
        update.report(learner.name)
        collected, minibatch = update.rollout, update.minibatch
    else:
        return
    context.collected_bytes[learner.name] = collected
    warn_of_shortage(context.collected_bytes, minibatch)


def _try_export(name: str, learner: Learner) -> None:
    """Export a network with parts of the user's once, before hours are trained that would leave no brain.

    Raises:
        TrainerError: that fails; with the user's file and line where a part of theirs does.
    """
    users = {reference for part in learner.algorithm.network.modules() if (reference := reference_of(part))}
    if not users or distributed.rank():
        return
    from ..policies.onnx.export import try_export
    from ..policies.onnx.graph import BrainVerificationError

    for network in exported_networks(learner.algorithm.network).values():
        try:
            try_export(network, name)
        except BrainVerificationError as error:
            raise TrainerError(
                f"The behavior {name}: its network cannot be exported as a brain: {error} See the method "
                f"export of {', '.join(sorted(users))} (docs/extending.md); without that method the behavior "
                "is trained, and has checkpoints alone."
            ) from error


def torch_device(wanted: str | None) -> torch.device:
    """The device of this name, after a test; by default the first GPU, else the CPU.

    Raises:
        TrainerError: torch cannot use it here.
    """
    try:
        device = torch.device(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.type == "cuda" and distributed.world_size() > 1:  # every rank has a GPU of its own
            device = torch.device("cuda", distributed.local_rank())
            torch.cuda.set_device(device)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        cause = str(error).strip().splitlines()[0]
        raise TrainerError(
            f"The device {wanted!r} (torch_settings.device, --torch-device) cannot be used here: "
            f"{cause.rstrip('.')}. Leave it out to take a GPU if there is one, or give cpu."
        ) from error
    return device


def update_threads(options: RunOptions) -> UpdateThreads:
    """The CPU threads of a policy update."""
    wanted = options.torch_settings.num_threads
    if wanted is not None or options.repeatable:
        return UpdateThreads(wanted or ACTING_THREADS, fixed=True)
    return UpdateThreads(max(1, min(processors() // distributed.world_size(), MOST_UPDATE_THREADS)))
