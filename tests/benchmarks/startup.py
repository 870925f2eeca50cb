"""From the command to the first environment step, beside `python -c 'import torch'`, in turns.

    python tests/benchmarks/startup.py [--rounds 9] [--out docs/results/startup.csv]

Both are processes of their own, timed from outside. The first round, which fills the caches, is not counted.
Needs an otherwise idle machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from results import LANISTA, RESULTS, commit, machine, write
from script_options import parse_options
from side_by_side import train
from speed_tasks import ball
from training_run import measured_environment

AGENTS = 12
WANTED_S = 0.15
"""At most so much longer than importing torch."""


@dataclass(frozen=True)
class Start:
    """A line of startup.csv, in seconds."""

    torch_s: float
    """Of `python -c 'import torch'`."""
    start_s: float
    """From the command to the first environment step."""
    machine: str = field(default_factory=machine)
    commit: str = field(default_factory=commit)


def import_seconds() -> float:
    """Of a process that imports torch and ends."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True, env=measured_environment())
    return time.perf_counter() - started


def first_step_seconds() -> float:
    """From the command to the first environment step of a short run."""
    case = ball(AGENTS)
    case = replace(case, settings={**case.settings, "max_steps": 3_600, "summary_freq": 1_200})
    with tempfile.TemporaryDirectory() as folder:
        found = train(case, LANISTA, Path(os.devnull), Path(folder))
    assert found is not None
    return found.start_s


def described(starts: list[Start]) -> str:
    """The figures as a sentence."""
    torch_s = statistics.median(start.torch_s for start in starts)
    start_s = statistics.median(start.start_s for start in starts)
    longer = statistics.median(start.start_s - start.torch_s for start in starts)
    return (
        f"`python -c 'import torch'` takes {torch_s:.2f} s, and the first environment step of "
        f"`ball {AGENTS}` comes {start_s:.2f} s after the command; the difference within a round is "
        f"{longer:+.2f} s (wanted: at most {WANTED_S:+.2f} s). Medians of {len(starts)} rounds on "
        f"{starts[0].machine}."
    )


def main() -> None:
    keys = {"default": RESULTS / "startup.csv", "type": Path}
    given = parse_options(__doc__, rounds=9, out=keys)
    starts = [Start(import_seconds(), first_step_seconds()) for _ in range(given.rounds + 1)][1:]
    write(given.out, Start, starts, digits=3)
    print(described(starts))


if __name__ == "__main__":
    main()
