"""Memory of a long run: does anything grow?

    python tests/benchmarks/memory.py [--areas 256] [--steps 2000000] [--every 100000] [--check]

Trains scene:ball3d in this process with checkpoints, brains, curves and summaries on, and notes the memory
at every summary. `--check` exits with 1 when the greatest memory of the run's second half exceeds that of the
first half by 1 % or more; `--out docs/results/memory.csv` keeps the figures for docs/results/speed.md.
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
    from lanista.trainers.trainer.learner import Learner

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


def described(agents: int, noted: list[tuple[int, int]]) -> str:
    """The run as text and a table of ten lines."""
    every = max(1, len(noted) // 10)
    rows = [f"| {step:,} | {size / 2**20:.1f} |" for step, size in noted[every - 1 :: every]]
    text = (
        f"{noted[-1][0]:,} agent-steps of {agents} agents, with checkpoints, brains and curves. Against the "
        f"first half, the second half's greatest memory is {100 * growth(noted):+.2f} %."
    )
    return "\n".join([text, "", "| agent-steps | the process's own memory, MiB |", "|---:|---:|", *rows])


def save(path: Path, agents: int, noted: list[tuple[int, int]]) -> None:
    """Keep a run for speed.md."""
    path.write_text(
        "".join(f"{line}\n" for line in ["agents,step,bytes", *(f"{agents},{s},{b}" for s, b in noted)])
    )


def load(path: Path) -> tuple[int, list[tuple[int, int]]]:
    """The run that was kept: number of agents, (agent-steps, bytes) at every summary."""
    rows = [tuple(map(int, line.split(","))) for line in path.read_text().splitlines()[1:]]
    return rows[0][0], [(step, size) for _, step, size in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--areas", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--every", type=int, default=100_000, help="agent-steps between two looks")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, help="keep the figures in this CSV, for speed.md")
    given = parser.parse_args()
    noted = train(given.areas, given.steps, given.every)
    print(described(given.areas, noted))
    if given.out:
        save(given.out, given.areas, noted)
    if given.check and growth(noted) >= LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
