"""Pictures and memories beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/senses_speed.py [--tasks grid hallway ...] [--rounds 3] [--again]

Both train the same processes of a scene of full size with the same YAML (config/ppo/NAME.yaml but for its
length), one after the other and in turns; figures are medians of the rounds, ratios medians of the ratios
within a round. Steps per second count from the first summary to the last. `grid-memory...` is `grid` with a
large buffer, for what pictures cost in memory. What docs/results/senses-speed.csv already holds is not
measured again without `--again`. Writes that file and docs/results/senses-speed.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import phases
import yaml
from results import BF16, LANISTA, PEER, THREADED, Results, Row, machine, median, median_ratio
from timed_scene import executable
from training_run import measure

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Task:
    """What is trained, by which variants of Lanista, and what is aimed at."""

    scene: str
    behavior: str
    agents: int
    max_steps: int
    summary_freq: int
    variants: tuple[str, ...] = (LANISTA, BF16, THREADED)
    hyperparameters: tuple[tuple[str, int], ...] = ()
    """Other than the YAML's."""
    times: float | None = None
    """Aim: at least so many times ML-Agents' steps per second, in float32."""
    memory: float | None = None
    """Aim: at most so many times ML-Agents' peak memory."""


TASKS = {
    "grid": Task("grid", "GridWorld", 9, 12_000, 1_000, times=2),
    "hallway": Task("hallway", "Hallway", 16, 61_440, 5_120, times=6),
    "grid-memory": Task(
        *("grid", "GridWorld", 9, 21_000, 1_000),
        variants=(LANISTA,),
        hyperparameters=(("buffer_size", 10_240), ("batch_size", 256), ("num_epoch", 1)),
        memory=1 / 3,
    ),
    "grid-memory-40k": Task(
        *("grid", "GridWorld", 9, 42_000, 2_000),
        variants=(LANISTA,),
        hyperparameters=(("buffer_size", 40_960), ("batch_size", 256), ("num_epoch", 1)),
        memory=1 / 3,
    ),
}
PAGE = """# Speed and memory of senses

Written by `python tests/benchmarks/senses_speed.py` from senses-speed.csv; every run in it is there.

PPO of Lanista and of ML-Agents 1.1.0 train the same processes of two scenes at full size with the same YAML
([grid.yaml](../../config/ppo/grid.yaml): 9 agents, pictures of 84 x 64 pixels as PNG, two convolutions;
[hallway.yaml](../../config/ppo/hallway.yaml): 16 agents, rays, an LSTM over sequences of 64 steps). In
turns; medians, ratios within a round. Rates and processor time count from the first summary to the last;
memory is the peak of all of a trainer's processes together, without the engine's. "Threaded" is
`threaded: true`, "bf16" is `precision: bf16`. {busy}

{table}

Peak memory is mostly torch and its libraries where the buffer is small: about 250 MiB before anything is
trained (less is counted where other processes use the same files), then 75 for the weights of the goal's
hypernetwork with their gradient and moments. `grid-memory` is `grid` with `buffer_size: 10240`,
`batch_size: 256` and one epoch: 165 MB of pictures as bytes, four times that as the numbers that ML-Agents
keeps; `grid-memory-40k` the same with a buffer four times as large.

On `hallway` an update is 24 minibatches of two sequences of 64 steps each. Of the processor time of a run
with one thread 48 % went into updates (2.6 ms a minibatch, of which 1.0 in torch's two LSTMs), 21 % into
reading and decoding what the engine sent, 17 % into acting and 4 % into taking trajectories in.
"""


def command_of(trainer: str, behavior: str, given: argparse.Namespace) -> list[str]:
    if trainer == PEER:
        return [str(given.peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]
    command += ["--set", f"behaviors.{behavior}.threaded=true"] * (trainer == THREADED)
    return command + ["--precision", "bf16"] * (trainer == BF16)


def config_of(task: Task, folder: Path) -> Path:
    """The scene's YAML, cut to the length of a measurement."""
    settings = yaml.safe_load((ROOT / "config" / "ppo" / f"{task.scene}.yaml").read_text())
    behavior = settings["behaviors"][task.behavior]
    behavior.update(max_steps=task.max_steps, summary_freq=task.summary_freq)
    behavior["hyperparameters"].update(task.hyperparameters)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def run(given: argparse.Namespace, folder: Path, results: Results) -> None:
    for turn in range(1, given.rounds + 1):
        for name in given.tasks:
            task = TASKS[name]
            order = (task.variants[0], PEER, *task.variants[1:])
            for trainer in order[:: 1 if turn % 2 else -1]:
                key = (name, trainer, "cpu", task.agents, turn)
                if (given.again or key not in results.rows) and trainer in given.trainers:
                    run_one(given, folder, results, trainer, name, turn)


def run_one(
    given: argparse.Namespace, folder: Path, results: Results, trainer: str, name: str, turn: int
) -> None:
    if trainer == PEER and not given.peer.exists():
        print(f"{given.peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
        return
    task, mark = TASKS[name], folder / "first-step"
    command = [*command_of(trainer, task.behavior, given), str(config_of(task, folder))]
    command += [f"--env={executable(folder, task.scene)}", "--run-id=senses", "--force", "--seed=0"]
    command += [f"--results-dir={folder / 'runs'}", f"--base-port={phases.free_port()}"]
    command += ["--env-args", "--areas", str(task.agents), "--mark", str(mark)]
    found = measure(command, mark, folder / "log")
    row = Row(name, trainer, "cpu", task.agents, turn, machine=machine(), **vars(found))
    results.add(row)
    print(
        f"{name}, {trainer}, round {turn}: {row.steps_per_s:,.0f} steps/s, {row.peak_mib:,.0f} MiB",
        flush=True,
    )


def table(results: Results) -> str:
    """The comparison, as Markdown."""
    lines = [
        "| task | trainer | agent-steps/s | times ML-Agents (aim) | processor time, us | MiB "
        "| of ML-Agents' (aim) | rounds |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, task in TASKS.items():
        peer = results.of(name, PEER, task.agents)
        for trainer in (*task.variants, PEER):
            rows = results.of(name, trainer, task.agents)
            if rows:
                lines.append(_line(name, task, trainer, rows, peer))
    return "\n".join(lines)


def _line(name: str, task: Task, trainer: str, rows: list[Row], peer: list[Row]) -> str:
    times = memory = ""
    if peer and trainer != PEER:
        times = f"{median_ratio(rows, peer, 'steps_per_s'):.1f}"
        memory = f"{median_ratio(rows, peer, 'peak_mib'):.2f}"
        if trainer == LANISTA:
            times += "" if task.times is None else f" ({task.times:g})"
            memory += "" if task.memory is None else f" ({task.memory:.2f})"
    speed, cpu, peak = (median(rows, key) for key in ("steps_per_s", "trainer_cpu_us", "peak_mib"))
    cells = (name, trainer, f"{speed:,.0f}", times, f"{cpu:,.0f}", f"{peak:,.0f}", memory, str(len(rows)))
    return f"| {' | '.join(cells)} |"


def busy(results: Results) -> str:
    """On what it was measured, and beside what."""
    rows = list(results.rows.values())
    if not rows:
        return "Not measured yet."
    most = max(row.others for row in rows)
    return (
        f"{rows[0].machine}; other work kept {median(rows, 'others'):.1f} of the cores busy in the median "
        f"run and {most:.1f} in the worst."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    every = (LANISTA, BF16, THREADED, PEER)
    parser.add_argument("--trainers", nargs="+", default=list(every), choices=every)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--again", action="store_true", help="measure also what the CSV holds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    default_peer = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    parser.add_argument("--peer", type=Path, default=Path(default_peer), help="ML-Agents' Python")
    given = parser.parse_args()
    results = Results(given.out / "senses-speed.csv")
    with tempfile.TemporaryDirectory() as folder:
        run(given, Path(folder), results)
    page = PAGE.format(table=table(results), busy=busy(results))
    (given.out / "senses-speed.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
