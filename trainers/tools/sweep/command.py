"""`lanista sweep`: searches for good settings with many runs, and reports what it found."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ....envs.utils.installation import install_command
from ....envs.utils.process_lock import LockingNotSupportedError, ProcessLock, lock_beside
from ....envs.utils.regular_files import links_out
from ...checkpoints.run_folder import set_aside
from ...settings.errors import TrainerConfigError
from ...settings.models.behavior import TrainerSettings
from ...settings.options import RunOptions
from ...utils.errors import CommandError, TrainerError
from ..run_process import PROGRAM
from .commands import Commands, Values, base_options
from .metric import BEST_NAME, PICTURE_NAME, STUDY, Metric, SweepError
from .settings import SweepSettings, read_sweep
from .space import Dimension
from .trial import RunLengths, TrialPlan
from .validation import check_trials, make_space

if TYPE_CHECKING:
    from .report import SweepReport
    from .study import TrialScheduler


@dataclass(frozen=True)
class Sweep:
    """A valid sweep."""

    settings: SweepSettings
    folder: Path
    commands: Commands
    space: list[Dimension]

    @classmethod
    def checked(cls, settings: SweepSettings, folder: Path) -> Sweep:
        """Validate a sweep: every trial can start, as far as that is known without running it.

        Raises:
            TrainerConfigError, TrainerError, UnityException, SweepError: it is not valid.
        """
        if find_spec("optuna") is None:
            raise SweepError(f"this needs the package optuna: {install_command('sweep')}")
        commands = Commands(settings, folder, base_options(settings))
        space = make_space(commands)
        check_trials(commands, space)
        return cls(settings, folder, commands, space)

    def open(
        self, log: Callable[[str], None], *, force: bool = False, program: Sequence[str] = PROGRAM
    ) -> tuple[TrialScheduler, SweepReport]:
        """Start the sweep, or resume it, in its folder.

        Args:
            log: prints a line for the user.
            force: set an older sweep in this folder aside.
            program: the command to run instead of lanista-learn.

        Raises:
            SweepError: the folder holds something else.
        """
        from .report import SweepReport
        from .study import SweepStudy, TrialScheduler

        self._prepare_folder(log, force=force)
        settings = self.settings
        study = SweepStudy(settings, self.folder, self.space, self.commands.base, self._lengths())
        metric = Metric(settings.metric, settings.behavior, settings.last)
        seeds = range(settings.seed, settings.seed + settings.seeds)
        plan = TrialPlan(self.commands, metric, seeds, self._run_steps, program)
        report = SweepReport(study, plan, self.space, self.folder.name)
        if not report.plots:
            log(f"{PICTURE_NAME} needs the package matplotlib: {install_command('plot')}.")

        def on_change() -> None:
            try:
                report.write()
            except OSError as error:  # the search itself continues
                log(f"The reports in {self.folder} could not be written: {error.strerror or error}.")

        return TrialScheduler(study, plan, settings.parallel, log, on_change), report

    def _prepare_folder(self, log: Callable[[str], None], *, force: bool) -> None:
        if not self.folder.is_dir() or not any(self.folder.iterdir()):
            return
        if not force and (link := next(links_out(self.folder), None)) is not None:
            raise SweepError(
                f"{link} is a link to {os.path.realpath(link)}, outside of the sweep, whose files would be "
                "changed: remove it, choose another --name, or start over with --force."
            )
        if force:
            log(f"The old sweep was set aside as {set_aside(self.folder)}.")
        elif not (self.folder / STUDY).is_file():
            raise SweepError(
                f"{self.folder} exists and holds no sweep: choose another --name, or set it aside with "
                "--force."
            )

    def _lengths(self) -> RunLengths:
        first = {one.key: one.ends[0] for one in self.space}
        behavior = self._measured(self.commands.options(first))
        run_steps = behavior.max_steps
        return RunLengths(run_steps, run_steps * self.settings.seeds, behavior.summary_freq)

    def _run_steps(self, values: Values) -> int:
        return self._measured(self.commands.options(values)).max_steps

    def _measured(self, options: RunOptions) -> TrainerSettings:
        """The settings of the measured behavior."""
        name = self.settings.behavior or next(iter(options.behaviors), "")
        return options.behaviors.get(name) or options.default_settings or TrainerSettings()


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
    lock = ProcessLock(lock_beside(folder))
    try:
        if not lock.acquire():
            raise SweepError(f"the sweep {folder} is running ({lock.holder() or 'another process'})")
    except LockingNotSupportedError as error:
        _print(f"{folder} cannot be locked ({error}): make sure that no other process runs this sweep.")
    try:
        yield
    finally:
        lock.release()
