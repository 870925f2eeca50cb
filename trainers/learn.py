"""The command `lanista-learn`: trains the agents of an environment."""

from __future__ import annotations

import logging
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import torch
import yaml
from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from mlagents_envs.exception import UnityException

from ..envs.finite import NonFinite
from ..envs.manager import EnvManager
from ..envs.restarts import RestartLimits
from ..envs.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    StatsSideChannel,
)
from ..envs.unity import UnityEnvironment
from .atomic import atomic_write_text
from .checkpoints import CheckpointError
from .cli.logs import configure_logging
from .controller import TrainerController
from .errors import TrainerError
from .learner import Learner, RunContext
from .run_folder import claim_run_folder
from .settings.command_line import parse_command_line
from .settings.errors import TrainerConfigError
from .settings.options import RunOptions
from .settings.support import require_support, require_trainable
from .stats.display import Display, make_display
from .stats.gauges import GaugeWriter, Timers
from .stats.tensorboard import TensorBoardWriter
from .stats.writer import StatsWriter
from .training_status import TrainingStatus, TrainingStatusError
from .welcome import version_block

logger = logging.getLogger(__name__)

INTERRUPTED_TWICE = 130
EXPECTED = (
    UnityException,
    TrainerConfigError,
    TrainerError,
    CheckpointError,
    TrainingStatusError,
    FloatingPointError,
)
"""What can go wrong without a fault of the program: shown as one message, not as a traceback."""


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; ends the process with 0, or 1 after an error that was explained."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status of a run with these arguments."""
    debug = False
    try:
        options = parse_command_line(argv)
        debug = options.debug
        run_training(options)
    except EXPECTED as error:
        if debug:
            logger.exception("The run ended with an error.")
        print(f"\nlanista-learn: error: {error}", file=sys.stderr)
        return 1
    return 0


def run_training(options: RunOptions, *, restart_engines_at_checkpoints: bool = False) -> None:
    """One run, from its settings to its files.

    Raises:
        any of `EXPECTED`, once everything that could be saved is saved.
    """
    print(version_block())
    display = make_display(options.checkpoint_settings.run_id, plain=options.debug)
    configure_logging(options.debug, display.terminal)
    require_support(options)
    folder = claim_run_folder(options.checkpoint_settings)
    seed = options.env_settings.seed
    if seed == -1:
        seed = random.randint(0, 9999)
        options = options.with_seed(seed)
    status = TrainingStatus(folder / "run_logs" / "training_status.json")
    if options.checkpoint_settings.resume:
        status.load()
    atomic_write_text(folder / "configuration.yaml", yaml.safe_dump(options.as_dict(), sort_keys=False))
    torch.set_num_threads(_torch_threads())
    timers, gauges = Timers(), GaugeWriter()
    writers: list[StatsWriter] = [TensorBoardWriter(folder), gauges, display]
    context = RunContext(
        folder=folder,
        seed=seed,
        status=status,
        writers=writers,
        display=display,
        device=_device(options),
        training=not options.checkpoint_settings.inference,
        resume=options.checkpoint_settings.resume,
        initialize_from=_initial_folder(options),
        non_finite=NonFinite(options.env_settings.non_finite),
        restart_engines_at_checkpoints=restart_engines_at_checkpoints,
    )
    controller = TrainerController(
        partial(make_env_manager, options, seed, folder / "run_logs"),
        partial(_make_learner, options, context),
        display,
        options.parameters(seed),
        training=context.training,
    )
    try:
        with timers.span("run_training"):
            _run_and_save(controller, display)
    finally:
        for writer in writers:
            writer.close()
        timers.save(folder / "run_logs" / "timers.json", gauges.gauges)


def _run_and_save(controller: TrainerController, display: Display) -> None:
    with stopping_on_signals(controller, display):
        display.start()
        try:
            controller.run()
        finally:
            controller.save()


@contextmanager
def stopping_on_signals(controller: TrainerController, display: Display) -> Iterator[None]:
    """Ctrl-C (or SIGTERM) once finishes the tick, saves and exports; twice stops at once."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked or not controller.learners:
            # Files are written whole or not at all, so nothing is lost but this last save.
            raise SystemExit(INTERRUPTED_TWICE)
        asked = True
        display.status("Saving and exporting. Press Ctrl-C again to stop at once.")
        logger.info("Learning was interrupted. Please wait while the graph is generated.")
        controller.stop()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_env_manager(options: RunOptions, seed: int, log_folder: Path) -> EnvManager:
    """The environments of a run, not yet started."""
    env = options.env_settings
    limits = RestartLimits(
        env.max_lifetime_restarts, env.restarts_rate_limit_n, env.restarts_rate_limit_period_s
    )
    return EnvManager(
        partial(_make_env, options, seed, log_folder),
        env.num_envs,
        limits,
        ordered=options.repeatable,
        non_finite=NonFinite(env.non_finite),
        editor=env.env_path is None,
    )


def _make_env(options: RunOptions, seed: int, log_folder: Path, worker_id: int) -> BaseEnv:
    env, engine = options.env_settings, options.engine_settings
    configuration = EngineConfigurationChannel()
    configuration.set_configuration_parameters(
        width=engine.width,
        height=engine.height,
        quality_level=engine.quality_level,
        time_scale=engine.time_scale,
        target_frame_rate=engine.target_frame_rate,
        capture_frame_rate=engine.capture_frame_rate,
    )
    explicit_port = env.env_path is not None and "base_port" in env.model_fields_set
    return UnityEnvironment(
        env.env_path,
        worker_id,
        env.base_port if explicit_port else None,
        seed=seed + worker_id,
        no_graphics=engine.no_graphics,
        no_graphics_monitor=engine.no_graphics_monitor,
        timeout_wait=env.timeout_wait,
        additional_args=env.env_args,
        side_channels=[EnvironmentParametersChannel(), configuration, StatsSideChannel()],
        log_folder=log_folder,
        num_areas=env.num_areas,
        listen=env.listen,
        non_finite=None,
    )


def _make_learner(options: RunOptions, context: RunContext, name: str, spec: BehaviorSpec) -> Learner:
    settings = options.behavior(name)
    require_trainable(name, settings)
    return Learner(name, spec, settings, context)


def _initial_folder(options: RunOptions) -> Path | None:
    path = options.checkpoint_settings.maybe_init_path
    return Path(path) if path is not None and not options.checkpoint_settings.resume else None


def _device(options: RunOptions) -> torch.device:
    wanted = options.torch_settings.device
    return torch.device(wanted or ("cuda" if torch.cuda.is_available() else "cpu"))


def _torch_threads() -> int:
    """One: with networks of this size more threads wait for each other longer than they compute."""
    return 1
