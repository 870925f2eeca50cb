"""Arguments that several commands have in common."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path


def add_results_dir(parser: argparse.ArgumentParser) -> None:
    """Add `--results-dir`."""
    parser.add_argument(
        "--results-dir",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="where run IDs are (results)",
    )


def add_trust_run(parser: argparse.ArgumentParser) -> None:
    """Add `--trust-run`, which `Trust.of_command` takes."""
    parser.add_argument(
        "--trust-run",
        action="store_true",
        help="start the environments and import the code that the given runs and checkpoints name, without "
        "asking",
    )


def add_env_args(parser: argparse.ArgumentParser) -> None:
    """Add `--env-args`, which takes all that follows."""
    parser.add_argument(
        "--env-args",
        nargs=argparse.REMAINDER,
        default=[],
        help="everything after this flag is passed to the environment",
    )


def count_from_1(text: str) -> int:
    """The value of an argument that is 1 or more. Raises ArgumentTypeError."""
    return _count(text, 1)


def count_from_0(text: str) -> int:
    """The value of an argument that is 0 or more. Raises ArgumentTypeError."""
    return _count(text, 0)


def finite(text: str) -> float:
    """The value of an argument that is a number, neither infinite nor NaN. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a finite number")
    return value


def _count(text: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from {least} up")
    return int(text)
