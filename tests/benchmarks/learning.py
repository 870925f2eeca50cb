"""Whether training works: trains the scenes with several seeds and scores the brains that come out.

    python tests/benchmarks/learning.py
    LANISTA_PEER=path/to/python python tests/benchmarks/learning.py

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file. With LANISTA_PEER, the Python of an ML-Agents 1.1.0
(CONTRIBUTING.md says how to install one aside), the same is done with `mlagents-learn`, in the same scene,
exported as an executable, with the same settings and seeds.

Results are added to docs/results/learning.csv and learning-curves.csv. What is there already is not run
again, so that the table can grow; delete lines to repeat them. The page and its picture are drawn anew each
time.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import yaml
from learning_report import write_report

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
RUNS_CSV, CURVES_CSV = RESULTS / "learning.csv", RESULTS / "learning-curves.csv"
PEER_SCRIPT = ROOT / "tests" / "peer" / "run_peer.py"
EPISODES = 100
REWARD_TAG = "Environment/Cumulative Reward"


@dataclass(frozen=True)
class Task:
    """A scene, and how long to train in it."""

    scene: str
    behavior: str
    max_steps: int
    goal: float
    """The mean reward that a trained brain is expected to reach."""

    @property
    def config(self) -> str:
        """Path of the settings from the repository's root."""
        return f"config/ppo/{self.scene}.yaml"


TASKS = [Task("ball3d", "3DBall", 120_000, 95.0), Task("basic", "Basic", 20_000, 0.9)]
PRODUCTS = ["lanista", "ml-agents"]


@dataclass(frozen=True)
class Run:
    """A line of learning.csv."""

    scene: str
    product: str
    seed: int
    max_steps: int
    score: float
    """Mean reward of the brain's EPISODES episodes, actions deterministic."""
    std: float


@dataclass(frozen=True)
class Point:
    """A line of learning-curves.csv: a summary of a run."""

    scene: str
    product: str
    seed: int
    step: int
    reward: float
    """Mean reward of the episodes that ended since the summary before, actions sampled."""


def learn_lanista(task: Task, seed: int, folder: Path) -> Path:
    """Train with `lanista-learn`; the run's folder."""
    steps = f"behaviors.{task.behavior}.max_steps={task.max_steps}"
    arguments = [task.config, "--env", f"scene:{task.scene}", "--run-id", "run", "--seed", str(seed)]
    console = Path(sys.executable).with_name("lanista-learn")
    run_command([console, *arguments, "--results-dir", folder, "--set", steps])
    return folder / "run"


def learn_peer(task: Task, seed: int, folder: Path, python: str, script: Path) -> Path:
    """Train with `mlagents-learn` in the exported scene; the run's folder."""
    settings = yaml.safe_load((ROOT / task.config).read_text(encoding="utf-8"))
    settings["behaviors"][task.behavior]["max_steps"] = task.max_steps
    config = folder / "settings.yaml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    executable = folder / f"{task.scene}.x86_64"
    run_command([_lanista(), "scenes", "export", task.scene, executable])
    arguments = [config, f"--env={executable}", "--run-id=run", f"--seed={seed}", f"--results-dir={folder}"]
    run_command([python, "-W", "ignore", script, *arguments, f"--base-port={free_port()}"])
    return folder / "run"


def score(task: Task, seed: int, brain: Path) -> tuple[float, float]:
    """Mean and deviation of the rewards that the ONNX file alone earns in episodes that no training saw."""
    command = [_lanista(), "play", brain, "--env", f"scene:{task.scene}", "--json"]
    output = run_command([*command, "--episodes", EPISODES, "--seed", 1000 + seed])
    (figures,) = json.loads(output)["behaviors"].values()
    return float(figures["mean_reward"]), float(figures["std_reward"])


def curve(folder: Path, tag: str = REWARD_TAG) -> list[tuple[int, float]]:
    """(step, value) of every summary, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    if tag not in events.Tags()["scalars"]:
        return []
    return [(event.step, event.value) for event in events.Scalars(tag)]


def measure(task: Task, product: str, seed: int, arguments: argparse.Namespace) -> tuple[Run, list[Point]]:
    """Train once and score the brain."""
    with TemporaryDirectory() as name:
        if product == "lanista":
            folder = learn_lanista(task, seed, Path(name))
        else:
            folder = learn_peer(task, seed, Path(name), arguments.peer, arguments.peer_script)
        mean, std = score(task, seed, folder / f"{task.behavior}.onnx")
        points = [Point(task.scene, product, seed, *p) for p in curve(folder / task.behavior)]
    return Run(task.scene, product, seed, task.max_steps, mean, std), points


def free_port() -> int:
    """A port for ML-Agents, which looks for none itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _lanista() -> Path:
    return Path(sys.executable).with_name("lanista")


def run_command(command: Sequence[Any]) -> str:
    """What a command prints; if it fails, the end of that is shown and this program ends too."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\nended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


Line = TypeVar("Line", Run, Point)


def read(path: Path, kind: type[Line]) -> list[Line]:
    """The lines of a CSV; none where there is no file yet."""
    if not path.exists():
        return []
    casts = {"scene": str, "product": str, "seed": int, "max_steps": int, "step": int}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            kind(**{key: casts.get(key, float)(value) for key, value in line.items()})
            for line in csv.DictReader(file)
        ]


def write(path: Path, kind: type[Line], lines: list[Line]) -> None:
    """All lines, sorted, numbers shortened to what a reader can use."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(kind))
        for line in sorted(lines, key=astuple):
            writer.writerow(round(v, 4) if isinstance(v, float) else v for v in astuple(line))


def run_what_is_missing(arguments: argparse.Namespace) -> None:
    """Train and score whatever the table lacks; each result is kept at once."""
    runs, points = read(RUNS_CSV, Run), read(CURVES_CSV, Point)
    known = {(run.scene, run.product, run.seed, run.max_steps) for run in runs}
    for product in PRODUCTS if arguments.peer else PRODUCTS[:1]:
        for task in (task for task in TASKS if task.scene in arguments.scenes):
            for seed in arguments.seeds:
                if (task.scene, product, seed, task.max_steps) in known:
                    continue
                began = time.monotonic()
                run, new = measure(task, product, seed, arguments)
                runs.append(run)
                points.extend(new)
                write(RUNS_CSV, Run, runs)
                write(CURVES_CSV, Point, points)
                took = time.monotonic() - began
                print(f"{task.scene}, {product}, seed {seed}: {run.score:.3f} ({took:.0f} s)", flush=True)


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="seeds to train with")
    scenes = [task.scene for task in TASKS]
    parser.add_argument("--scenes", nargs="+", choices=scenes, default=scenes, help="scenes to train in")
    parser.add_argument("--peer-script", type=Path, default=PEER_SCRIPT, help="starts ML-Agents' trainer")
    arguments = parser.parse_args()
    arguments.peer = os.environ.get("LANISTA_PEER")
    if not arguments.peer:
        print("LANISTA_PEER is not set: ML-Agents is left out.")
    run_what_is_missing(arguments)
    write_report(TASKS, read(RUNS_CSV, Run), read(CURVES_CSV, Point), RESULTS)


if __name__ == "__main__":
    main()
