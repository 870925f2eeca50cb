"""Memory of a long run: does anything grow?

    python tests/benchmarks/memory.py [--areas 256] [--steps 2000000] [--every 100000] [--check]

Trains scene:ball3d in this process with checkpoints, brains, curves and summaries on, and notes the memory
at every summary. `--check` exits with 1 when the greatest memory of the run's second half exceeds that of the
first half by 1 % or more.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 0.01


def memory() -> int:
    """Bytes that this process has for itself."""
    found = psutil.Process().memory_full_info()
    return int(getattr(found, "uss", found.rss))


def train(areas: int, steps: int, every: int) -> list[tuple[int, int]]:
    """(agent-steps, bytes) at every summary of a run."""
    from lanista.trainers import learn
    from lanista.trainers.learner import Learner

    noted: list[tuple[int, int]] = []
    summary = Learner.summary

    def watched(learner: Learner, step: int) -> None:
        summary(learner, step)
        noted.append((step, memory()))
        print(f"{step:>10,} steps  {noted[-1][1] / 2**20:8.1f} MiB", file=sys.stderr)

    Learner.summary = watched  # type: ignore[method-assign]
    settings = yaml.safe_load((ROOT / "config" / "ppo" / "ball3d.yaml").read_text())
    settings["behaviors"]["3DBall"].update(max_steps=steps, summary_freq=every)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        path = Path(folder, "config.yaml")
        path.write_text(yaml.safe_dump(settings))
        status = learn.run(
            [
                *(str(path), "--env", "scene:ball3d", "--run-id", "memory", "--results-dir", folder),
                *("--env-args", "--areas", str(areas)),
            ]
        )
    if status:
        raise SystemExit(status)
    return noted


def growth(noted: list[tuple[int, int]]) -> float:
    """By which part the greatest memory of the second half exceeds that of the first."""
    middle = noted[-1][0] / 2
    first = max(size for step, size in noted if step <= middle)
    second = max(size for step, size in noted if step > middle)
    return second / first - 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--areas", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--every", type=int, default=100_000, help="agent-steps between two looks")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    noted = train(given.areas, given.steps, given.every)
    part = growth(noted)
    half = min(noted, key=lambda n: abs(n[0] - noted[-1][0] / 2))
    print(
        f"{given.areas} agents: {half[1] / 2**20:.1f} MiB after {half[0]:,} agent-steps, "
        f"{noted[-1][1] / 2**20:.1f} MiB after {noted[-1][0]:,}; greatest memory of the second half "
        f"{100 * part:+.2f} % against the first"
    )
    if given.check and part >= LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
