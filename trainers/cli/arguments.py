"""Arguments that several commands have in common."""

from __future__ import annotations

import argparse
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


def add_env_args(parser: argparse.ArgumentParser) -> None:
    """Add `--env-args`, which takes all that follows."""
    parser.add_argument(
        "--env-args",
        nargs=argparse.REMAINDER,
        default=[],
        help="everything after this flag is passed to the environment",
    )
