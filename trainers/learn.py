"""The command `lanista-learn`: trains the agents of an environment.

What can be refused without torch is refused before torch is loaded, which takes a second or more.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

from mlagents_envs.exception import UnityException

from .callbacks.base import Callback
from .callbacks.factory import make_callbacks
from .checkpoints.run_folder import claimed_run_folder, recorded_seed, recorded_start, write_configuration
from .checkpoints.status import TrainingStatus, TrainingStatusError
from .checkpoints.transfer import check_initial_weights
from .runner.banner import version_block
from .runner.engine_errors import errors_recorded
from .runner.environments import check_environment, joined_cluster, launched_early
from .runner.preflight import check_demonstrations, set_malloc_thresholds
from .runner.ranks import first_rank, further_rank, with_launched_ranks
from .runner.scenes import take_other_names
from .runner.signals import INTERRUPTED, StopSignals
from .settings.command_line import parse_command_line
from .settings.errors import TrainerConfigError
from .settings.late_flags import warn_of_late_flags
from .settings.models.outputs import CONSOLE, writes_to
from .settings.named import named_by
from .settings.options import RunOptions
from .settings.validation import require_support
from .stats.display import make_display
from .utils.distributed import exit_process
from .utils.errors import TrainerError
from .utils.guard import guarded
from .utils.logging import configure_logging, print_error, show_any_letter, warnings_kept
from .utils.quick_imports import quick_imports
from .utils.requirements import check_requirements, limit_openmp_spinning, load_torch
from .utils.torchrun import launched_rank
from .utils.trust import mark_own

logger = logging.getLogger(__name__)

EXPECTED = (UnityException, TrainerConfigError, TrainerError, TrainingStatusError, FloatingPointError)
"""Errors that are not bugs: shown as one message, not as a traceback."""


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; ends the process with 0, or with 1 after an error message."""
    exit_process(guarded("lanista-learn", lambda: run(argv)))


def run(argv: Sequence[str] | None = None) -> int:
    """The exit status of a run with these arguments."""
    debug = False
    show_any_letter()
    try:
        options = parse_command_line(argv)
        debug = options.debug
        warn_of_late_flags(options, argv)
        run_training(options)
    except EXPECTED as error:
        if debug:
            logger.exception("The run ended with an error.")
        print_error("\nlanista-learn", error)
        return 1
    except KeyboardInterrupt as stopped:
        print(f"\nlanista-learn: stopped {str(stopped) or 'before the run began'}.", file=sys.stderr)
        return INTERRUPTED
    return 0


def run_seed(folder: Path, *, resumed: bool) -> int:
    """The seed of a run without one: of a resumed run its recorded seed, else a random one."""
    seed = recorded_seed(folder) if resumed else None
    return random.randint(0, 9999) if seed is None else seed  # noqa: S311 (no secret)


def _begun_or_resumed(options: RunOptions, folder: Path) -> tuple[RunOptions, TrainingStatus]:
    """The options with the run's seed and start, and its status; a new run's configuration is written."""
    resumed = options.checkpoint_settings.resume
    if options.env_settings.seed == -1:
        options = options.with_seed(run_seed(folder, resumed=resumed))
    status = TrainingStatus(folder / "run_logs" / "training_status.json")
    if resumed:
        status.load()
        options = options.with_start(recorded_start(folder))
    else:
        write_configuration(folder, options)
    mark_own(folder, named_by(options))
    return options, status


def run_training(
    options: RunOptions,
    *,
    callbacks: Sequence[Callback] = (),
    restart_engines_at_checkpoints: bool = False,
) -> None:
    """One run, from its settings to its files; to be called in the main thread.

    Args:
        options: every setting, as `RunOptions.from_file` or `parse_command_line` returns them.
        callbacks: called as the run goes on, after those that the options name.
        restart_engines_at_checkpoints: see `RunContext`.

    Raises:
        any of `EXPECTED`, once everything that could be saved is saved.
        KeyboardInterrupt: the user stopped the run before there was anything to save, or twice.
    """
    options = with_launched_ranks(options)
    check_requirements(options.torch_settings.device)
    launched = launched_rank()
    if launched is not None and launched.rank:
        further_rank(launched.rank, launched.world_size, options.torch_settings.device)
        return
    if not options.quiet:
        print(version_block())
    display = make_display(
        options.checkpoint_settings.run_id,
        plain=options.debug,
        silent=options.quiet or not writes_to(options.stats_writers, CONSOLE),
    )
    configure_logging(options.debug, display.terminal, quiet=options.quiet)
    with StopSignals() as signals, closing(display):
        options = options.read_again()
        require_support(options)
        check_environment(options)
        take_other_names(options)
        check_initial_weights(options)
        check_demonstrations(options)
        called = make_callbacks(options, callbacks)
        with (
            joined_cluster(options) as cluster,
            claimed_run_folder(options.checkpoint_settings) as folder,
            warnings_kept(folder / "run_logs" / "warnings.log"),
        ):
            options, status = _begun_or_resumed(options, folder)
            limit_openmp_spinning()
            set_malloc_thresholds()
            restart = restart_engines_at_checkpoints
            with (
                errors_recorded(options, folder) as errors,
                launched_early(options, folder, cluster, errors.printed) as envs,
            ):
                with nullcontext() if "torch" in sys.modules else quick_imports():
                    load_torch()
                    from .runner.training import train

                with first_rank(options, folder, restart_engines_at_checkpoints=restart):
                    train(
                        options,
                        folder,
                        status,
                        display,
                        signals,
                        restart_engines_at_checkpoints=restart,
                        callbacks=called,
                        cluster=cluster,
                        envs=envs,
                        errors=errors,
                    )


if __name__ == "__main__":
    main()
