"""`lanista runs`: lists the runs of a results folder."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ...utils.errors import CommandError
from ...utils.text import harmless
from ..arguments import finite
from .record import STATES, RunRecord, find_runs, is_run, read_run

SORTS: dict[str, Callable[[RunRecord], Any]] = {
    "age": lambda run: -run.updated,
    "name": lambda run: run.name,
    "best": lambda run: _descending(run.first.best_reward),
    "last": lambda run: _descending(run.first.last_reward),
    "steps": lambda run: -run.first.steps,
    "size": lambda run: -run.size,
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
"""Seconds of each unit of an age."""
TITLES = ("run", "state", "trainer", "environment", "steps", "last", "best", "age", "size")
_RIGHT = frozenset({"steps", "last", "best", "age", "size"})
_GAP = "  "


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="the folder in which runs are looked for, also in its folders (results)",
    )
    parser.add_argument("--name", metavar="PATTERN", help="only runs of this ID, such as 'ball-*'")
    parser.add_argument("--state", nargs="+", choices=STATES, help="only runs in one of these states")
    parser.add_argument("--trainer", metavar="NAME", help="only runs that train with it, such as ppo")
    parser.add_argument("--env", metavar="PATTERN", help="only runs in this environment, such as 'scene:*'")
    parser.add_argument(
        "--newer", type=_seconds, metavar="AGE", help="only runs that changed since then: 30m, 12h, 2d, 1w"
    )
    parser.add_argument(
        "--min-reward", type=finite, metavar="X", help="only runs whose best mean reward is X or more"
    )
    parser.add_argument(
        "--sort", choices=SORTS, default="age", help="newest (age), highest, largest, or A (name) first (age)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON list, with more about each run")
    parser.epilog = (
        "States: running; finished (all steps taken); stopped (saved before that); unfinished (killed, or "
        "failed); empty (nothing learned yet); damaged (a file cannot be read; the cause follows the list)."
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    now = time.time()
    runs = [run for run in read_runs(arguments.folder) if _fits(run, arguments, now)]
    runs.sort(key=lambda run: (SORTS[arguments.sort](run), run.name))
    if arguments.json:
        print(json.dumps([_as_dict(run) for run in runs], indent=1))
        return 0
    if not runs:
        print(f"No such run in {harmless(str(arguments.folder))}.")
        return 0
    print("\n".join(_table(runs, now)))
    for run in runs:
        errors = run.engine_errors
        if errors.total:
            print(harmless(f"The engines of {run.name} have printed {errors.in_words()}"))
    for run in runs:
        for problem in run.problems:
            print(f"{harmless(run.name)} is damaged: {harmless(problem)}", file=sys.stderr)
    return 0


def read_runs(folder: Path) -> list[RunRecord]:
    """Every run in and below a folder, or the run whose folder it is.

    Raises:
        CommandError: there is no such folder, or no run in it.
    """
    if not folder.is_dir():
        raise CommandError(
            f"there is no folder {harmless(str(folder))}: give the --results-dir of the runs, or train one."
        )
    if is_run(folder):
        return [read_run(folder, folder.resolve().name, brief=True)]
    runs = [read_run(path, path.relative_to(folder).as_posix(), brief=True) for path in find_runs(folder)]
    if not runs:
        raise CommandError(
            f"{harmless(str(folder))} holds no run: a run's folder has a folder run_logs and a file "
            "configuration.yaml."
        )
    return runs


def _fits(run: RunRecord, arguments: argparse.Namespace, now: float) -> bool:
    """Whether the run passes all filters that are given."""
    best = [one.best_reward for one in run.behaviors if one.best_reward is not None]
    checks = (
        (arguments.name, lambda wanted: fnmatchcase(run.name, wanted)),
        (arguments.state, lambda wanted: run.state in wanted),
        (arguments.trainer, lambda wanted: wanted in run.trainers),
        (arguments.env, lambda wanted: fnmatchcase(run.environment or "", wanted)),
        (arguments.newer, lambda wanted: now - run.updated <= wanted),
        (arguments.min_reward, lambda wanted: bool(best) and max(best) >= wanted),
    )
    return all(wanted is None or fits(wanted) for wanted, fits in checks)


def _as_dict(run: RunRecord) -> dict[str, Any]:
    """A run as JSON: what the table has, exact, and each behavior."""
    return {
        "name": run.name,
        "path": str(run.path),
        "state": run.state,
        "trainers": run.trainers,
        "environment": run.environment,
        "seed": run.seed,
        "steps": run.first.steps,
        "last_reward": run.first.last_reward,
        "best_reward": run.first.best_reward,
        "updated": datetime.fromtimestamp(run.updated, timezone.utc).isoformat(timespec="seconds"),
        "bytes": run.size,
        "program": run.program,
        "behaviors": {
            one.name: {
                "trainer": one.trainer,
                "steps": one.steps,
                "max_steps": one.max_steps,
                "last_reward": one.last_reward,
                "best_reward": one.best_reward,
            }
            for one in run.behaviors
        },
        "engine_errors": run.engine_errors.as_dict(),
        "problems": run.problems,
    }


def _table(runs: list[RunRecord], now: float) -> list[str]:
    """Lines as wide as the terminal; where it is too narrow, names and environments have their own."""
    rows = [TITLES, *(_row(run, now) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    narrow = (
        sys.stdout.isatty() and sum(widths) + len(_GAP) * (len(widths) - 1) > shutil.get_terminal_size()[0]
    )
    lines = []
    for row in rows:
        cells = {
            title: cell.rjust(width) if title in _RIGHT else cell.ljust(width)
            for title, cell, width in zip(TITLES, row, widths)
        }
        if narrow:
            above = [cells.pop(title).strip() for title in ("run", "environment")]
            lines.append(_GAP.join(above))
        lines.append(" " * len(_GAP) * narrow + _GAP.join(cells.values()).rstrip())
    return lines


def _row(run: RunRecord, now: float) -> tuple[str, ...]:
    first = run.first
    name, trainers, environment = (
        harmless(text) for text in (run.name, ", ".join(run.trainers) or "-", run.environment or "-")
    )
    return (
        name,
        run.state,
        trainers,
        environment if environment.count("/") < 2 else f".../{environment.rsplit('/', 1)[1]}",
        f"{first.steps:,}",
        *("-" if reward is None else f"{reward:.4g}" for reward in (first.last_reward, first.best_reward)),
        age(now - run.updated),
        size(run.size),
    )


def age(seconds: float) -> str:
    """A duration as its largest unit: `5 min`."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def size(count: float) -> str:
    """Bytes with a unit: `2.3 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _descending(reward: float | None) -> tuple[bool, float]:
    """A key that sorts the highest reward first, and runs without one last."""
    return (reward is None, -(reward or 0.0))


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if not found:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number and s, m, h, d or w: 12h")
    return float(found[1]) * _UNITS[found[2]]
