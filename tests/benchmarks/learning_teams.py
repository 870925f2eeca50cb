"""Whether teams learn: POCA, COMA and PPO in the scenes of groups, with equal budgets of steps.

    python tests/benchmarks/learning_teams.py [--tasks coop-push dungeon-escape] [--seeds 0 1 2] [--jobs 1]
    LANISTA_PEER=path/to/python python tests/benchmarks/learning_teams.py --trainers ml-agents

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file and draws its actions, as Unity does by default. The
trainer `ml-agents` is the POCA of ML-Agents 1.1.0 in the same scenes with the same settings (in those tasks
that are scenes): it draws its minibatches step by step, ours moment by moment. `poca-bf16` is our POCA with
`--precision bf16`.

Results are added to docs/results/teams.csv and teams-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page and its picture are drawn anew each time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import yaml
from learning import PEER_SCRIPT, RESULTS, ROOT, Point, Run, curve, free_port, read, run_command, write
from learning_teams_report import write_report

RUNS_CSV, CURVES_CSV = RESULTS / "teams.csv", RESULTS / "teams-curves.csv"
PEER, BF16 = "ml-agents", "poca-bf16"
TRAINERS = ["poca", "coma", "ppo"]
EPISODES = 300
"""Of single agents: about 100 groups'."""


@dataclass(frozen=True)
class TeamTask:
    """An environment of groups, and how long to train in it."""

    name: str
    environment: str
    settings: str
    """The file's name in config/poca, config/coma and config/ppo."""
    behavior: str
    max_steps: int
    areas: int
    curve: str
    """The statistic that the curves show."""
    score: str
    """What `lanista play` reports that is the score."""


GROUP_RETURN = "Environment/Group Return"
TASKS = [
    TeamTask(
        "coop-push",
        "scene:coop-push?size=small",
        "coop-push-small",
        "PushBlockCollab",
        1_500_000,
        32,
        GROUP_RETURN,
        "mean_group_reward",
    ),
    TeamTask(
        "dungeon-escape",
        "scene:dungeon-escape?size=small",
        "dungeon-escape-small",
        "DungeonEscape",
        300_000,
        32,
        GROUP_RETURN,
        "mean_group_reward",
    ),
    TeamTask(
        "simple-spread",
        "pettingzoo:mpe2.simple_spread_v3",
        "simple-spread",
        "agent",
        400_000,
        16,
        "Environment/Cumulative Reward",
        "mean_reward",
    ),
]


def command(task: TeamTask, trainer: str, seed: int, run_id: str) -> list[str]:
    """What trains it."""
    folder = "poca" if trainer == BF16 else trainer
    return [
        *("lanista-learn", f"config/{folder}/{task.settings}.yaml", "--env", task.environment),
        *("--num-areas", str(task.areas), "--run-id", run_id, "--seed", str(seed)),
        *("--set", f"behaviors.{task.behavior}.max_steps={task.max_steps}"),
        *(["--precision", "bf16"] if trainer == BF16 else []),
    ]


def learn(task: TeamTask, trainer: str, seed: int, threads: int, folder: Path) -> None:
    """Train with `lanista-learn`."""
    program, *arguments = command(task, trainer, seed, "run")
    console = Path(sys.executable).with_name(program)
    limits = ["--set", f"torch_settings.num_threads={threads}"] if threads else []
    run_command([console, *arguments, "--results-dir", folder, *limits])


def learn_peer(task: TeamTask, seed: int, folder: Path) -> None:
    """Train with the POCA of `mlagents-learn` in the exported scene."""
    settings = yaml.safe_load((ROOT / f"config/poca/{task.settings}.yaml").read_text(encoding="utf-8"))
    settings["behaviors"][task.behavior]["max_steps"] = task.max_steps
    config = folder / "settings.yaml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    name, _, options = task.environment.removeprefix("scene:").partition("?")
    lanista = Path(sys.executable).with_name("lanista")
    run_command([lanista, "scenes", "export", name, folder / "scene"])
    command = [os.environ["LANISTA_PEER"], "-W", "ignore", PEER_SCRIPT, config, "--run-id=run"]
    command += [f"--env={folder / 'scene.x86_64'}", f"--seed={seed}", f"--results-dir={folder}"]
    command += [f"--base-port={free_port()}", f"--num-areas={task.areas}", "--env-args"]
    run_command([*command, *(word for option in options.split("&") for word in f"--{option}".split("="))])


def measure(task: TeamTask, trainer: str, seed: int, threads: int) -> tuple[Run, list[Point]]:
    """Train once and score the brain."""
    with TemporaryDirectory() as folder:
        if trainer == PEER:
            learn_peer(task, seed, Path(folder))
        else:
            learn(task, trainer, seed, threads, Path(folder))
        brain = Path(folder) / "run" / f"{task.behavior}.onnx"
        play = [Path(sys.executable).with_name("lanista"), "play", brain, "--env", task.environment]
        play += ["--num-areas", task.areas, "--episodes", EPISODES, "--seed", 1000 + seed]
        output = run_command([*play, "--sampled", "--json"])
        (figures,) = json.loads(output)["behaviors"].values()
        found = curve(Path(folder) / "run" / task.behavior, task.curve)
    points = [Point(task.name, trainer, seed, *p) for p in found]
    deviation = figures[task.score.replace("mean", "std")]
    return Run(task.name, trainer, seed, task.max_steps, figures[task.score], deviation), points


def run_what_is_missing(given: argparse.Namespace) -> None:
    """Train and score whatever the table lacks; each result is kept at once."""
    runs, points = read(RUNS_CSV, Run), read(CURVES_CSV, Point)
    known = {(run.scene, run.product, run.seed, run.max_steps) for run in runs}
    lock = Lock()

    def one(task: TeamTask, trainer: str, seed: int) -> None:
        began = time.monotonic()
        run, new = measure(task, trainer, seed, given.threads)
        with lock:
            runs.append(run)
            points.extend(new)
            write(RUNS_CSV, Run, runs)
            write(CURVES_CSV, Point, points)
            took = time.monotonic() - began
            print(f"{task.name}, {trainer}, seed {seed}: {run.score:.3f} ({took:.0f} s)", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        wanted = [
            (task, trainer, seed)
            for seed in given.seeds
            for task in TASKS
            if task.name in given.tasks
            for trainer in given.trainers
            if trainer != PEER or task.environment.startswith("scene:")
            if (task.name, trainer, seed, task.max_steps) not in known
        ]
        for future in [pool.submit(one, *each) for each in wanted]:
            future.result()


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds to train with")
    names = [task.name for task in TASKS]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names, help="tasks to train")
    parser.add_argument(
        "--trainers", nargs="+", choices=[*TRAINERS, BF16, PEER], default=TRAINERS, help="trainers"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side")
    parser.add_argument("--threads", type=int, default=0, help="torch_settings.num_threads of every run")
    given = parser.parse_args()
    run_what_is_missing(given)
    write_report(TASKS, read(RUNS_CSV, Run), read(CURVES_CSV, Point), RESULTS)


if __name__ == "__main__":
    main()
