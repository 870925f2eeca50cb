"""`lanista sweep`: searches for good settings with many runs, and reports what it found."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ....envs.registry.process_lock import LockingNotSupportedError, ProcessLock
from ...settings.errors import TrainerConfigError
from ...utils.errors import CommandError, TrainerError
from .metric import BEST_NAME, PICTURE_NAME, SweepError
from .settings import read_sweep
from .sweep import Sweep

if TYPE_CHECKING:
    from .report import SweepReport
    from .scheduler import TrialScheduler

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("sweep", metavar="SWEEP.yaml", help="what to vary and to measure (docs/sweeps.md)")
    parser.add_argument("--name", help="the sweep's folder in the results folder (the file's name)")
    parser.add_argument("--results-dir", help="the folder that contains the sweep's (results)")
    parser.add_argument("--trials", metavar="N", type=int, help="how many settings to try")
    parser.add_argument("--parallel", metavar="N", type=int, help="how many runs at once")
    parser.add_argument(
        "--force",
        action="store_true",
        help="start over; an older sweep of this name is set aside",
    )
    parser.epilog = (
        "The same command continues a sweep that was stopped or killed: unfinished trials are resumed, "
        "failed ones are retried once. Ctrl-C lets all runs save and exit. Exits with 0 once all trials have "
        "ended, even if some of them failed."
    )


def run(arguments: argparse.Namespace) -> int:
    """Validate, search and report."""
    from mlagents_envs.exception import UnityException

    from ...runner.signals import StopSignals
    from ...utils.logging import configure_logging

    configure_logging().setLevel(logging.WARNING)
    keys = ("name", "results_dir", "trials", "parallel")
    given = {key: value for key in keys if (value := getattr(arguments, key)) is not None}
    try:
        with StopSignals() as signals:
            settings = read_sweep(arguments.sweep, given)
            sweep = Sweep.checked(settings, Path(settings.results_dir) / settings.name)
            with _claimed(sweep.folder):
                scheduler, report = sweep.open(_print, force=arguments.force)
                signals.call(scheduler.stop)
                return _search(scheduler, report, sweep.folder)
    except TrainerConfigError as error:  # it names the file and the line
        raise CommandError(f"{error}\nNo run was started.") from error
    except (SweepError, TrainerError, UnityException) as error:
        raise CommandError(f"{arguments.sweep}: {error}") from error
    except OSError as error:
        raise CommandError(f"{error.filename or arguments.sweep}: {error.strerror}.") from error


def _search(scheduler: TrialScheduler, report: SweepReport, folder: Path) -> int:
    from rich.console import Console

    try:
        scheduler.run()
    finally:
        Console(file=sys.stdout).print(report.table())
    if scheduler.stopping:
        print("The sweep was stopped. The same command continues it.")
        return INTERRUPTED
    if (folder / BEST_NAME).is_file():
        plot = f", the plot in {folder / PICTURE_NAME}" if report.plots else ""
        print(f"The best settings are in {folder / BEST_NAME}{plot}.")
    return 0


def _print(line: str) -> None:
    print(line, flush=True)


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Exclude other processes from this sweep."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = ProcessLock(folder.with_name(f".{folder.name}.lock"))
    try:
        if not lock.acquire():
            raise SweepError(f"the sweep {folder} is running ({lock.holder() or 'another process'})")
    except LockingNotSupportedError as error:
        _print(f"{folder} cannot be locked ({error}): make sure that no other process runs this sweep.")
    try:
        yield
    finally:
        lock.release()
