"""Several environments, on this machine and on a Ray cluster of three nodes: what they learn, and how fast.

    tests/peer/install.sh --fast .cache/peer
    python tests/benchmarks/environments.py [--parts learn speed] [--rounds 1] [--steps 60000] [--again]

`learn` trains `ball3d` by config/ppo/ball3d.yaml with 1, 2 and 4 environments on this machine and with 3 on
the cluster (seed 0), and scores each brain by a fresh `lanista play` that has nothing but the ONNX file.
`speed` trains the same in short runs with 1, 2 and 4 environments, beside `mlagents-learn --num-envs` of
ML-Agents 1.1.0 in the same processes, in turns; steps per second count from first to last summary. The
cluster's nodes are all on this machine and share its processors: it shows what the way over Ray costs, not
what more machines gain. What docs/results/environments.csv and environments-speed.csv already hold is not
measured again without `--again`. Writes them and docs/results/environments.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for local_cluster

import phases
import psutil
import yaml
from learning import run_command
from local_cluster import local_cluster
from results import LANISTA, PEER, Results, Row, machine, median
from timed_scene import executable
from training_run import measure

ROOT = Path(__file__).resolve().parents[2]
CONFIG, BEHAVIOR = "config/ppo/ball3d.yaml", "3DBall"
RAY = "Lanista, Ray"
LEARNT_STEPS, EPISODES, SUMMARIES = 160_000, 100, 12
NODES = 3
COUNTS = (1, 2, 4)
_QUIET = 0.3
"""Processors of other work beside which rates can be compared."""
PAGE = """# Several environments

Written by `python tests/benchmarks/environments.py` from environments.csv and environments-speed.csv.

## What they learn

`ball3d` by [config/ppo/ball3d.yaml](../../config/ppo/ball3d.yaml) with `max_steps: {steps}` and seed 0, on
this machine and on a Ray cluster of three nodes, which all are this machine. The reward is that of {episodes}
episodes of a fresh `lanista play`, which has nothing but the ONNX file; 100 is the most there is.

{learnt}

## How fast

Agent-steps per second of short runs of the same, from the first summary to the last; every environment has 12
agents. {machine}, for the engines, the trainer, and of a Ray run for Ray itself: more environments gain
little here, whoever starts them, and the cluster shows what the way over Ray and TLS costs, not what more
machines gain. "Others" are the processors that were kept busy by what is neither the trainer nor an engine
that it has started: by other work, and in a Ray run by its engines and Ray. {busy}

{speed}
"""


@dataclass(frozen=True)
class Learnt:
    """A line of environments.csv."""

    place: str
    """`this machine` or `Ray, 3 nodes`."""
    envs: int
    max_steps: int
    steps: int
    """Of the last checkpoint."""
    score: float
    """Mean reward of the brain's EPISODES episodes, actions deterministic."""
    std: float


def read_learnt(path: Path) -> list[Learnt]:
    """The lines of the CSV; none where there is no file yet."""
    if not path.exists():
        return []
    kinds = {"str": str, "int": int, "float": float}
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return [Learnt(**{f.name: kinds[str(f.type)](line[f.name]) for f in fields(Learnt)}) for line in lines]


def write_learnt(path: Path, lines: list[Learnt]) -> None:
    """All lines, sorted."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Learnt)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(line) for line in sorted(lines, key=lambda each: (each.place, each.envs)))


class LazyCluster:
    """A Ray cluster that is started when something is to be measured on it."""

    def __init__(self) -> None:
        self._undo = ExitStack()
        self._address: str | None = None

    @property
    def address(self) -> str:
        """Of its head."""
        if self._address is None:
            self._address = self._undo.enter_context(local_cluster(NODES, max(COUNTS))).address
        return self._address

    def close(self) -> None:
        """End it, if it was started."""
        self._undo.close()


@contextmanager
def lazy_cluster() -> Iterator[LazyCluster]:
    """A cluster for as long as this is open."""
    cluster = LazyCluster()
    try:
        yield cluster
    finally:
        cluster.close()


def learn(folder: Path, envs: int, ray: str | None) -> Learnt:
    """Train once and score the brain."""
    command = [sys.executable, "-m", "lanista.trainers.cli.main"]
    options = ["--env", "scene:ball3d", "--num-envs", envs, "--seed", "0", "--run-id", "run", "--force"]
    options += ["--results-dir", folder, "--set", f"behaviors.{BEHAVIOR}.max_steps={LEARNT_STEPS}"]
    run_command([*command, "learn", CONFIG, *options, *([] if ray is None else ["--ray", ray])])
    brain = folder / "run" / f"{BEHAVIOR}.onnx"
    test = ["--env", "scene:ball3d", "--json", "--episodes", EPISODES, "--seed", "1000"]
    (figures,) = json.loads(run_command([*command, "play", brain, *test]))["behaviors"].values()
    status = json.loads((folder / "run" / "run_logs" / "training_status.json").read_text())
    steps = status[BEHAVIOR]["final_checkpoint"]["steps"]
    place = "this machine" if ray is None else f"Ray, {NODES} nodes"
    return Learnt(place, envs, LEARNT_STEPS, steps, figures["mean_reward"], figures["std_reward"])


def learn_what_is_missing(given: argparse.Namespace, cluster: LazyCluster) -> None:
    """Every result is kept at once."""
    path = given.out / "environments.csv"
    lines = [] if given.again else read_learnt(path)
    known = {(line.place, line.envs) for line in lines}
    wanted = [*(("this machine", envs) for envs in COUNTS), (f"Ray, {NODES} nodes", NODES)]
    for place, envs in wanted:
        if (place, envs) not in known:
            with tempfile.TemporaryDirectory() as folder:
                ray = cluster.address if place.startswith("Ray") else None
                line = learn(Path(folder), envs, ray)
            lines.append(line)
            write_learnt(path, lines)
            print(f"{place}, {envs} environments: {line.score:.1f}", flush=True)


def command_of(trainer: str, peer: Path) -> list[str]:
    """What starts a trainer."""
    if trainer == PEER:
        return [str(peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
    return [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]


def time_one(
    given: argparse.Namespace, folder: Path, trainer: str, envs: int, turn: int, ray: str | None
) -> Row:
    """Train for a short while."""
    settings = yaml.safe_load((ROOT / CONFIG).read_text(encoding="utf-8"))
    settings["behaviors"][BEHAVIOR] |= {
        "max_steps": given.steps,
        "summary_freq": given.steps // SUMMARIES,
        "checkpoint_interval": 10**9,
    }
    config, mark = folder / "config.yaml", folder / "first-step"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = command_of(trainer, given.peer)
    command += [str(config), f"--env={executable(folder)}", f"--num-envs={envs}", "--seed=0", "--run-id=run"]
    command += ["--force", f"--results-dir={folder / 'runs'}"]
    command += [f"--base-port={phases.free_port()}"] if trainer == PEER else []
    command += [] if ray is None else [f"--ray={ray}"]
    command += ["--env-args", "--mark", str(mark)]
    found = measure(command, mark, folder / "log")
    return Row("num-envs", trainer, "cpu", envs, turn, machine=machine(), **vars(found))


def time_what_is_missing(given: argparse.Namespace, cluster: LazyCluster, results: Results) -> None:
    """The trainers' order turns from round to round."""
    if not given.peer.exists():
        print(f"{given.peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
    for turn in range(1, given.rounds + 1):
        for envs in COUNTS:
            for trainer in (LANISTA, RAY, PEER)[:: 1 if turn % 2 else -1]:
                known = ("num-envs", trainer, "cpu", envs, turn) in results.rows
                if (known and not given.again) or (trainer == PEER and not given.peer.exists()):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    ray = cluster.address if trainer == RAY else None
                    row = time_one(given, Path(folder), trainer, envs, turn, ray)
                results.add(row)
                print(f"{trainer}, {envs} environments, round {turn}: {row.steps_per_s:,.0f}/s", flush=True)


def learnt_table(lines: list[Learnt]) -> str:
    """What was learnt, as Markdown."""
    rows = [
        "| where | environments | agent-steps | reward | deviation |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {line.place} | {line.envs} | {line.steps:,} | {line.score:.1f} | {line.std:.1f} |"
            for line in sorted(lines, key=lambda each: (each.place != "this machine", each.envs))
        ),
    ]
    return "\n".join(rows) if lines else "Not measured yet."


def speed_table(results: Results) -> str:
    """The rates, as Markdown."""
    lines = [
        "| trainer | environments | agent-steps/s | times its own with 1 | others | rounds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for trainer in (LANISTA, RAY, PEER):
        alone = median(results.of("num-envs", trainer, 1), "steps_per_s")
        for envs in results.agents("num-envs", trainer):
            rows = results.of("num-envs", trainer, envs)
            speed, others = median(rows, "steps_per_s"), median(rows, "others")
            lines.append(
                f"| {trainer} | {envs} | {speed:,.0f} | {speed / alone:.1f} | {others:.1f} | {len(rows)} |"
            )
    return "\n".join(lines) if results.rows else "Not measured yet."


def _busy(results: Results) -> str:
    """Whether the rates can be compared at all."""
    rows = results.of("num-envs", LANISTA, 1)
    if not rows or median(rows, "others") < _QUIET:
        return ""
    return (
        "When this was measured, other work kept most of the machine busy, more in some runs than in others: "
        "the rates show that all of it works, and are not fit to be compared."
    )


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=("learn", "speed"), default=["learn", "speed"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60_000, help="max_steps of each run of `speed`")
    parser.add_argument("--again", action="store_true", help="measure also what the CSVs hold")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    default_peer = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    parser.add_argument("--peer", type=Path, default=Path(default_peer), help="ML-Agents' Python")
    given = parser.parse_args()
    results = Results(given.out / "environments-speed.csv")
    with lazy_cluster() as cluster:
        if "learn" in given.parts:
            learn_what_is_missing(given, cluster)
        if "speed" in given.parts:
            time_what_is_missing(given, cluster, results)
    page = PAGE.format(
        steps=LEARNT_STEPS,
        episodes=EPISODES,
        learnt=learnt_table(read_learnt(given.out / "environments.csv")),
        machine=f"There are {psutil.cpu_count()} processors",
        speed=speed_table(results),
        busy=_busy(results),
    )
    (given.out / "environments.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
