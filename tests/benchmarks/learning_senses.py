"""Whether the senses work: pictures and goals in `grid`, a memory in `hallway`, entities in `sorter`.

    python tests/benchmarks/learning_senses.py [--tasks grid hallway sorter] [--seeds 0 1 2] [--threads 0]

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file and draws its actions, as Unity does by default.

Results are added to docs/results/senses.csv and senses-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page and its picture are drawn anew each time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from learning import EPISODES, RESULTS, Point, Run, curve, free_port, read, run_command, write
from learning_senses_report import write_report

RUNS_CSV, CURVES_CSV = RESULTS / "senses.csv", RESULTS / "senses-curves.csv"


@dataclass(frozen=True)
class SenseTask:
    """A scene, how long to train in it, and the ways of reading its observations that are compared."""

    name: str
    behavior: str
    max_steps: int
    areas: int
    ways: dict[str, list[str]]
    """By its name in the table, what a way adds to the command."""
    senses: dict[str, str]
    """By the same name, what it adds to the scene; empty where nothing."""
    goal: str
    """What is expected."""

    @property
    def settings(self) -> str:
        """The ready settings, from the repository's root."""
        return f"config/ppo/{self.name}-small.yaml"

    def environment(self, way: str) -> str:
        """The scene in its small size, as this way of reading it needs it."""
        return f"scene:{self.name}?size=small" + self.senses.get(way, "")


TASKS = [
    SenseTask("grid", "GridWorld", 100_000, 16, {"pictures and a goal": []}, {}, "0.8 or more"),
    SenseTask(
        "hallway",
        "Hallway",
        5_000_000,
        64,
        {
            "an LSTM": [],
            "a GRU": ["--set", "behaviors.Hallway.network_settings.memory.memory_type=gru"],
            "no memory": ["--set", "behaviors.Hallway.network_settings.memory=null"],
        },
        {},
        "0.7 or more, without a memory no better than chance",
    ),
    SenseTask(
        "sorter",
        "Sorter",
        1_000_000,
        32,
        {"entities": [], "one flat vector": []},
        {"one flat vector": "&senses=flat"},
        "entities above the flattened tiles by more than the spread of the seeds",
    ),
]


def command(task: SenseTask, way: str, seed: int, run_id: str) -> list[str]:
    """What trains it."""
    return [
        *("lanista-learn", task.settings, "--env", task.environment(way), "--num-areas", str(task.areas)),
        *("--run-id", run_id, "--seed", str(seed)),
        *("--set", f"behaviors.{task.behavior}.max_steps={task.max_steps}"),
        *task.ways[way],
    ]


def play_command(task: SenseTask, way: str, seed: int, brain: str) -> list[str]:
    """What scores the brain."""
    return [
        *("lanista", "play", brain, "--env", task.environment(way), "--num-areas", str(task.areas)),
        *("--episodes", str(EPISODES), "--seed", str(1000 + seed), "--sampled"),
    ]


def measure(task: SenseTask, way: str, seed: int, threads: int) -> tuple[Run, list[Point]]:
    """Train once and score the brain."""
    scripts = Path(sys.executable).parent
    with TemporaryDirectory() as name:
        program, *arguments = command(task, way, seed, "run")
        limits = ["--set", f"torch_settings.num_threads={threads}"] if threads else []
        port = f"--base-port={free_port()}"  # others may train on this machine
        run_command([scripts / program, *arguments, "--results-dir", name, port, *limits])
        folder = Path(name) / "run"
        program, *arguments = play_command(task, way, seed, str(folder / f"{task.behavior}.onnx"))
        (figures,) = json.loads(run_command([scripts / program, *arguments, "--json"]))["behaviors"].values()
        points = [Point(task.name, way, seed, *p) for p in curve(folder / task.behavior)]
    score, spread = figures["mean_reward"], figures["std_reward"]
    return Run(task.name, way, seed, task.max_steps, score, spread), points


def run_what_is_missing(given: argparse.Namespace) -> None:
    """Train and score whatever the table lacks; each result is kept at once."""
    runs, points = read(RUNS_CSV, Run), read(CURVES_CSV, Point)
    known = {(run.scene, run.product, run.seed, run.max_steps) for run in runs}
    chosen = [
        (task, way)
        for task in TASKS
        if task.name in given.tasks
        for way in task.ways
        if not given.ways or way in given.ways
    ]
    for seed in given.seeds:
        for task, way in chosen:
            if (task.name, way, seed, task.max_steps) in known:
                continue
            began = time.monotonic()
            run, new = measure(task, way, seed, given.threads)
            runs.append(run)
            points.extend(new)
            write(RUNS_CSV, Run, runs)
            write(CURVES_CSV, Point, points)
            took = time.monotonic() - began
            print(f"{task.name}, {way}, seed {seed}: {run.score:.3f} ({took:.0f} s)", flush=True)


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds to train with")
    names = [task.name for task in TASKS]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names, help="tasks to train")
    parser.add_argument("--ways", nargs="+", default=[], help="ways of reading observations; all if none")
    parser.add_argument("--threads", type=int, default=0, help="torch_settings.num_threads of every run")
    given = parser.parse_args()
    run_what_is_missing(given)
    write_report(TASKS, read(RUNS_CSV, Run), read(CURVES_CSV, Point), RESULTS)


if __name__ == "__main__":
    main()
