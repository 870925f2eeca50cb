"""Several environments, on this machine and on a Ray cluster of three nodes: what they learn, and how fast.

    tests/peer/install.sh --fast .cache/peer
    python tests/benchmarks/environments.py [--parts learn speed] [--rounds 1] [--steps 60000] [--again]

`learn` trains `ball3d` by config/ppo/ball3d.yaml with 1, 2 and 4 environments on this machine and with 3 on
the cluster (seed 0), and scores each model by a fresh `lanista play` that has nothing but the ONNX file.
`speed` trains the same in short runs with 1, 2 and 4 environments, beside `mlagents-learn --num-envs` of
ML-Agents 1.1.0 in the same processes, in turns; steps per second count from first to last summary. The
cluster's nodes are all on this machine and share its processors: it shows what the way over Ray costs, not
what more machines gain. What docs/results/environments.csv and environments-speed.csv already hold is not
measured again without `--again`. Writes them and docs/results/environments.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from products import play, run_command
from results import LANISTA, PEER, ROOT, Results, median, read, table, write, write_page
from side_by_side import Case, parse_comparison, train_in_turns

CONFIG, BEHAVIOR = "config/ppo/ball3d.yaml", "3DBall"
RAY, KIND = "Lanista, Ray", "num-envs"
LEARNED_STEPS, EPISODES = 160_000, 100
COUNTS = (1, 2, 4)
NODES = 3
HERE, CLUSTER = "this machine", f"Ray, {NODES} nodes"
QUIET = 0.3
"""Processors of other work beside which rates can be compared."""
BUSY = (
    "When this was measured, other work kept most of the machine busy, more in some runs than in others: "
    "the rates show that all of it works, and are not fit to be compared."
)


@dataclass(frozen=True)
class Learned:
    """A line of environments.csv."""

    place: str
    envs: int
    max_steps: int
    steps: int
    """Of the last checkpoint."""
    score: float
    """Mean reward of the model's EPISODES episodes, actions deterministic."""
    std: float


class LazyCluster(ExitStack):
    """A Ray cluster that is started when something is to be measured on it."""

    _address: str | None = None

    @property
    def address(self) -> str:
        """Of its head."""
        from local_cluster import local_cluster

        if self._address is None:
            self._address = self.enter_context(local_cluster(NODES, max(COUNTS))).address
        return self._address


def learn(folder: Path, place: str, envs: int, cluster: LazyCluster) -> Learned:
    """Train once and score the model."""
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn", CONFIG, "--env", "scene:ball3d"]
    command += ["--num-envs", envs, "--seed", "0", "--run-id", "run", "--results-dir", folder]
    command += ["--set", f"behaviors.{BEHAVIOR}.max_steps={LEARNED_STEPS}"]
    run_command([*command, *(["--ray", cluster.address] if place == CLUSTER else [])])
    brain = folder / "run" / f"{BEHAVIOR}.onnx"
    figures = play([str(brain), "--env", "scene:ball3d", "--episodes", str(EPISODES), "--seed", "1000"])
    status = json.loads((folder / "run" / "run_logs" / "training_status.json").read_text())
    steps = status[BEHAVIOR]["final_checkpoint"]["steps"]
    return Learned(place, envs, LEARNED_STEPS, steps, figures["mean_reward"], figures["std_reward"])


def learn_what_is_missing(given: argparse.Namespace, cluster: LazyCluster) -> None:
    """Every result is kept at once."""
    path = given.out / "environments.csv"
    lines = [] if given.again else read(path, Learned)
    known = {(line.place, line.envs) for line in lines}
    for place, envs in [*((HERE, envs) for envs in COUNTS), (CLUSTER, NODES)]:
        if (place, envs) not in known:
            with TemporaryDirectory() as folder:
                lines.append(learn(Path(folder), place, envs, cluster))
            write(path, Learned, lines, digits=17)
            print(f"{place}, {envs} environments: {lines[-1].score:.1f}", flush=True)


def cases(steps: int, cluster: LazyCluster) -> list[Case]:
    """Short runs with each number of environments."""
    settings = yaml.safe_load((ROOT / CONFIG).read_text(encoding="utf-8"))["behaviors"][BEHAVIOR]
    settings |= {"max_steps": steps, "summary_freq": steps // 12, "checkpoint_interval": 10**9}

    def case(envs: int) -> Case:
        def options(trainer: str) -> list[str]:
            return [f"--num-envs={envs}", *([f"--ray={cluster.address}"] if trainer == RAY else [])]

        return Case(KIND, envs, "ball3d", BEHAVIOR, settings, (), (LANISTA, RAY, PEER), options)

    return [case(envs) for envs in COUNTS]


def learned_table(lines: list[Learned]) -> str:
    """What was learned, as Markdown."""
    ordered = sorted(lines, key=lambda line: (line.place != HERE, line.envs))
    rows = [[x.place, str(x.envs), f"{x.steps:,}", f"{x.score:.1f}", f"{x.std:.1f}"] for x in ordered]
    heads = ["where", "environments:", "agent-steps:", "reward:", "deviation:"]
    return table(heads, rows) if rows else "Not measured yet."


def speed_table(results: Results) -> str:
    """The rates, as Markdown."""
    lines = []
    for trainer in (LANISTA, RAY, PEER):
        alone = median(results.of(KIND, trainer, 1), "steps_per_s")
        for envs in results.agents(KIND, trainer):
            rows = results.of(KIND, trainer, envs)
            speed, others = median(rows, "steps_per_s"), median(rows, "others")
            cells = [f"{speed:,.0f}", f"{speed / alone:.1f}", f"{others:.1f}", str(len(rows))]
            lines.append([trainer, str(envs), *cells])
    heads = ["environments:", "agent-steps/s:", "times its own with 1:", "others:", "rounds:"]
    return table(["trainer", *heads], lines) if lines else "Not measured yet."


def main() -> None:
    parts = {"default": ["learn", "speed"], "choices": ("learn", "speed")}
    given = parse_comparison(__doc__, LANISTA, RAY, PEER, rounds=1, steps=60_000, parts=parts)
    results = Results(given.out / "environments-speed.csv")
    with LazyCluster() as cluster:
        if "learn" in given.parts:
            learn_what_is_missing(given, cluster)
        if "speed" in given.parts:
            train_in_turns(cases(given.steps, cluster), given, results)
    alone = results.of(KIND, LANISTA, 1)
    page = write_page(
        "environments",
        given.out,
        steps=LEARNED_STEPS,
        episodes=EPISODES,
        learned=learned_table(read(given.out / "environments.csv", Learned)),
        machine=alone[0].machine if alone else "Machine unknown",
        speed=speed_table(results),
        busy=BUSY if alone and median(alone, "others") >= QUIET else "",
    )
    print(page)


if __name__ == "__main__":
    main()
