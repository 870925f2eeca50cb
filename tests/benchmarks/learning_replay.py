"""Whether the trainers with a replay learn: SAC, DQN, DDPG and TD3, beside Stable-Baselines3 where it can.

    python tests/benchmarks/learning_replay.py [--tasks ball3d basic cartpole pendulum] [--seeds 0 1 2]
    LANISTA_SB3=path/to/python python tests/benchmarks/learning_replay.py

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file. With LANISTA_SB3, the Python of an environment with
stable-baselines3 and gymnasium, the same is done there for the tasks of Gymnasium, with the budget and the
hyperparameters of the same YAML.

Results are added to docs/results/replay.csv and replay-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page and its picture are drawn anew each time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from learning import EPISODES, RESULTS, ROOT, Point, Run, curve, free_port, read, run_command, write
from learning_replay_report import write_report

RUNS_CSV, CURVES_CSV = RESULTS / "replay.csv", RESULTS / "replay-curves.csv"
SB3_SCRIPT = ROOT / "tests" / "peer" / "run_sb3.py"
SB3 = "SB3 "
"""Before an algorithm's name: Stable-Baselines3's."""


@dataclass(frozen=True)
class ReplayTask:
    """An environment, and the algorithms that learn it."""

    name: str
    """As of the YAML files."""
    environment: str
    behavior: str
    copies: int
    max_steps: int
    algorithms: tuple[str, ...]
    goal: str
    """What is expected."""

    @property
    def ways(self) -> list[str]:
        """The columns of the table."""
        peers = [SB3 + name for name in self.algorithms] if self.environment.startswith("gymnasium:") else []
        return [*self.algorithms, *peers]

    def settings(self, way: str) -> str:
        """The ready settings, from the repository's root."""
        return f"config/{way.removeprefix(SB3).lower()}/{self.name}.yaml"


TASKS = [
    ReplayTask("ball3d", "scene:ball3d", "3DBall", 12, 60_000, ("SAC",), "95 or more"),
    ReplayTask("basic", "scene:basic", "Basic", 1, 20_000, ("DQN",), "0.9 or more"),
    ReplayTask(
        *("cartpole", "gymnasium:CartPole-v1", "CartPole-v1", 8, 100_000),
        *(("DQN",), "475 or more"),
    ),
    ReplayTask(
        *("pendulum", "gymnasium:Pendulum-v1", "Pendulum-v1", 1, 20_000),
        *(("SAC", "TD3", "DDPG"), "-200 or better"),
    ),
]


def command(task: ReplayTask, way: str, seed: int, run_id: str) -> list[str]:
    """What trains it."""
    return [
        *("lanista-learn", task.settings(way), "--env", task.environment, "--num-areas", str(task.copies)),
        *("--run-id", run_id, "--seed", str(seed)),
        *("--set", f"behaviors.{task.behavior}.max_steps={task.max_steps}"),
    ]


def play_command(task: ReplayTask, seed: int, brain: str) -> list[str]:
    """What scores the brain."""
    return [
        *("lanista", "play", brain, "--env", task.environment, "--num-areas", str(task.copies)),
        *("--episodes", str(EPISODES), "--seed", str(1000 + seed)),
    ]


def plan(task: ReplayTask, way: str, seed: int) -> dict[str, Any]:
    """The same for Stable-Baselines3."""
    text = (ROOT / task.settings(way)).read_text(encoding="utf-8")
    settings = yaml.safe_load(text)["behaviors"][task.behavior]
    return {
        "algorithm": settings["trainer_type"],
        "environment": task.environment.partition(":")[2],
        "copies": task.copies,
        "max_steps": task.max_steps,
        "summary_freq": settings["summary_freq"],
        "seed": seed,
        "episodes": EPISODES,
        "gamma": settings["reward_signals"]["extrinsic"]["gamma"],
        "hidden_units": settings["network_settings"]["hidden_units"],
        "num_layers": settings["network_settings"]["num_layers"],
        "hyperparameters": settings["hyperparameters"],
    }


def measure(task: ReplayTask, way: str, seed: int, given: argparse.Namespace) -> tuple[Run, list[Point]]:
    """Train once and score what was learnt."""
    if way.startswith(SB3):
        told = json.loads(
            run_command([given.sb3, SB3_SCRIPT, json.dumps(plan(task, way, seed))]).splitlines()[-1]
        )
        points = [Point(task.name, way, seed, *p) for p in told["curve"]]
        return Run(task.name, way, seed, task.max_steps, told["mean"], told["std"]), points
    scripts = Path(sys.executable).parent
    with TemporaryDirectory() as name:
        program, *arguments = command(task, way, seed, "run")
        limits = ["--set", "torch_settings.num_threads=1", f"--base-port={free_port()}"]
        run_command([scripts / program, *arguments, "--results-dir", name, *limits])
        folder = Path(name) / "run"
        program, *arguments = play_command(task, seed, str(folder / f"{task.behavior}.onnx"))
        (figures,) = json.loads(run_command([scripts / program, *arguments, "--json"]))["behaviors"].values()
        points = [Point(task.name, way, seed, *p) for p in curve(folder / task.behavior)]
    score, spread = figures["mean_reward"], figures["std_reward"]
    return Run(task.name, way, seed, task.max_steps, score, spread), points


def run_what_is_missing(given: argparse.Namespace) -> None:
    """Train and score whatever the table lacks; each result is kept at once."""
    runs, points = read(RUNS_CSV, Run), read(CURVES_CSV, Point)
    known = {(run.scene, run.product, run.seed, run.max_steps) for run in runs}
    chosen = [(task, way) for task in TASKS if task.name in given.tasks for way in task.ways]
    for seed in given.seeds:
        for task, way in chosen:
            if (task.name, way, seed, task.max_steps) in known or (way.startswith(SB3) and not given.sb3):
                continue
            began = time.monotonic()
            run, new = measure(task, way, seed, given)
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
    given = parser.parse_args()
    given.sb3 = os.environ.get("LANISTA_SB3")
    run_what_is_missing(given)
    write_report(TASKS, read(RUNS_CSV, Run), read(CURVES_CSV, Point), RESULTS)


if __name__ == "__main__":
    main()
