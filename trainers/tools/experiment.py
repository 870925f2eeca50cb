"""`lanista experiment`: several runs one after the other, each configured by its own file."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from ..checkpoints.run_folder import require_usable
from ..runner.signals import INTERRUPTED, StopSignals
from ..settings.errors import TrainerConfigError
from ..settings.options import RunOptions
from ..settings.validation import require_support
from ..utils.errors import CommandError, TrainerError
from .run_process import RunProcess

_POLL = 0.1
"""Seconds between two looks at the process of a run."""


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
    stop = Event()
    with StopSignals() as signals:
        signals.call(stop.set)
        for number, experiment in enumerate(experiments, 1):
            if stop.is_set():
                break
            print(
                f"\n== {number} of {len(experiments)}: {experiment.file} -> {experiment.folder}", flush=True
            )
            _train(experiment, stop)
    _print_table(experiments)
    if stop.is_set():
        return INTERRUPTED
    return 0 if all(experiment.outcome == "done" for experiment in experiments) else 1


def _checked(file: str) -> Experiment:
    """The experiment that a file describes, or CommandError."""
    try:
        options = RunOptions.from_file(file)
        require_support(options)
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


def _train(experiment: Experiment, stop: Event) -> None:
    """One run, in its own process: what it leaves in memory or breaks does not affect the next one."""
    began = time.monotonic()
    process = RunProcess([experiment.file])
    try:
        while (status := process.poll()) is None:
            if stop.wait(_POLL):
                process.terminate()
                time.sleep(_POLL)
    finally:
        process.kill()
    experiment.seconds = time.monotonic() - began
    experiment.outcome = (
        "stopped" if stop.is_set() else "done" if status == 0 else f"failed (status {status})"
    )


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
