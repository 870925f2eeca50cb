"""`lanista experiment`: several runs one after the other, each configured by its own file."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ...envs.engines.own_program import own_program
from ..checkpoints.run_folder import require_usable
from ..settings.errors import TrainerConfigError
from ..settings.options import RunOptions
from ..settings.validation import contradictions, unsupported
from ..utils.errors import CommandError, TrainerError

INTERRUPTED = 130
POSIX = os.name == "posix"


@dataclass
class Experiment:
    """One file, and the outcome of its run."""

    file: str
    folder: Path
    """`<results>/<run id>`."""
    outcome: str = "not run"
    seconds: float | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "config",
        nargs="+",
        metavar="CONFIG",
        help="YAML or JSON with the whole configuration of a run, including checkpoint_settings.run_id and "
        "env_settings.env_path, such as the configuration.yaml of an earlier run",
    )
    parser.epilog = (
        "All files are checked before the first run starts. If a run fails, the others still run. Ctrl-C "
        "ends the current run gracefully and starts no other. Exits with 0 if all runs succeeded."
    )


def run(arguments: argparse.Namespace) -> int:
    """Check all files, run them, and print the outcome of each."""
    experiments = [_checked(file) for file in arguments.config]
    _require_folders_of_their_own(experiments)
    with _Stopping() as stopping:
        for number, experiment in enumerate(experiments, 1):
            if stopping.asked:
                break
            print(
                f"\n== {number} of {len(experiments)}: {experiment.file} -> {experiment.folder}", flush=True
            )
            _train(experiment, stopping)
    _print_table(experiments)
    if stopping.asked:
        return INTERRUPTED
    return 0 if all(experiment.outcome == "done" for experiment in experiments) else 1


def _checked(file: str) -> Experiment:
    """The experiment that a file describes, or CommandError."""
    try:
        options = RunOptions.from_file(file)
        problems = unsupported(options) or contradictions(options)
        if problems:
            raise TrainerConfigError(problems)
        require_usable(Path(options.checkpoint_settings.write_path), options.checkpoint_settings)
    except TrainerConfigError as error:  # it names the file, and the line
        raise CommandError(f"{error}\nNo run has begun.") from error
    except TrainerError as error:
        raise CommandError(f"{file}: {error}\nNo run has begun.") from error
    return Experiment(file, Path(options.checkpoint_settings.write_path))


def _require_folders_of_their_own(experiments: Sequence[Experiment]) -> None:
    counts = Counter(experiment.folder.resolve() for experiment in experiments)
    for experiment in experiments:
        if counts[experiment.folder.resolve()] > 1:
            files = [e.file for e in experiments if e.folder.resolve() == experiment.folder.resolve()]
            raise CommandError(
                f"{' and '.join(files)} write to one folder, {experiment.folder}: give each a "
                "checkpoint_settings.run_id of its own. No run has begun."
            )


class _Stopping:
    """While open, records that the user wants to stop, and passes the signal on to the current run."""

    def __init__(self) -> None:
        self.asked = False
        self.process: subprocess.Popen[bytes] | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Stopping:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        # Windows' console sends the run a Ctrl-C itself.
        if self.process is not None and (POSIX or number == signal.SIGTERM):
            self.process.terminate()


def _train(experiment: Experiment, stopping: _Stopping) -> None:
    """One run, in its own process: what it leaves in memory or breaks does not affect the next one."""
    began = time.monotonic()
    command = own_program("lanista.trainers.cli.main", "learn", experiment.file)
    with subprocess.Popen(command, preexec_fn=_ignore_ctrl_c if POSIX else None) as process:
        stopping.process = process
        if stopping.asked:
            process.terminate()
        status = process.wait()
        stopping.process = None
    experiment.seconds = time.monotonic() - began
    if stopping.asked:
        experiment.outcome = "stopped"
    else:
        experiment.outcome = "done" if status == 0 else f"failed (status {status})"


def _ignore_ctrl_c() -> None:
    """Let the run get a SIGINT once, whether the terminal sends it to both or only this process gets it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _print_table(experiments: Sequence[Experiment]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("configuration", "results", "outcome"):
        table.add_column(title, overflow="fold")
    table.add_column("seconds", justify="right")
    for experiment in experiments:
        seconds = "" if experiment.seconds is None else f"{experiment.seconds:.0f}"
        table.add_row(experiment.file, str(experiment.folder), experiment.outcome, seconds)
    Console(file=sys.stdout).print(table)
