"""`lanista sweep`: searches for good settings by many runs, and tells what was found."""

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
from ...utils.errors import TrainerError
from ..errors import CommandError
from .metric import BEST_NAME, PICTURE_NAME, SweepError
from .settings import read_sweep
from .sweep import Sweep

if TYPE_CHECKING:
    from .report import Report
    from .scheduler import SweepLoop

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("sweep", metavar="SWEEP.yaml", help="what is varied and measured (docs/sweeps.md)")
    parser.add_argument("--name", help="the sweep's folder in the results folder (the file's name)")
    parser.add_argument("--results-dir", help="the folder in which the sweep's folder is (results)")
    parser.add_argument("--trials", metavar="N", type=int, help="how many settings are tried")
    parser.add_argument("--parallel", metavar="N", type=int, help="how many runs are under way at once")
    parser.add_argument(
        "--force",
        action="store_true",
        help="begin anew; an older sweep of this name is set aside",
    )
    parser.epilog = (
        "The same command goes on with a sweep that was stopped or killed: what is unfinished is resumed, "
        "what failed is tried once more. Ctrl-C ends all runs in good order. Ends with 0 when the trials are "
        "done, though some of them failed."
    )


def run(arguments: argparse.Namespace) -> int:
    """Check, search, tell."""
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
                loop, report = sweep.open(_tell, force=arguments.force)
                signals.call(loop.stop)
                return _search(loop, report, sweep.folder)
    except TrainerConfigError as error:  # it names the file, and the line
        raise CommandError(f"{error}\nNo run has begun.") from error
    except (SweepError, TrainerError, UnityException) as error:
        raise CommandError(f"{arguments.sweep}: {error}") from error
    except OSError as error:
        raise CommandError(f"{error.filename or arguments.sweep}: {error.strerror}.") from error


def _search(loop: SweepLoop, report: Report, folder: Path) -> int:
    from rich.console import Console

    try:
        loop.run()
    finally:
        Console(file=sys.stdout).print(report.table())
    if loop.stopping:
        print("The sweep was stopped. The same command goes on with it.")
        return INTERRUPTED
    if (folder / BEST_NAME).is_file():
        print(f"The best settings are in {folder / BEST_NAME}, the picture in {folder / PICTURE_NAME}.")
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """While open, no other process carries on this sweep."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = ProcessLock(folder.with_name(f".{folder.name}.lock"))
    try:
        if not lock.acquire():
            raise SweepError(f"the sweep {folder} is under way ({lock.holder() or 'another process'})")
    except LockingNotSupportedError as error:
        _tell(f"{folder} cannot be locked ({error}): take care that no other process carries on this sweep.")
    try:
        yield
    finally:
        lock.release()
