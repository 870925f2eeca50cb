"""Whether agents look for what is new where rewards are sparse: `pyramids` with and without RND.

    python tests/benchmarks/learning_others.py [--seeds 0 1 2] [--ways RND ...] [--threads 0]

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file.

Results are added to docs/results/others.csv and others-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page docs/results/others.md, which also shows what
learning_games.py and learning_cloning.py found, is written anew each time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from learning import EPISODES, RESULTS, Point, Run, curve, free_port, read, run_command, write
from learning_others_report import SCENE, WAYS, write_report

RUNS_CSV, CURVES_CSV = RESULTS / "others.csv", RESULTS / "others-curves.csv"
BEHAVIOR, AREAS, MAX_STEPS = "Pyramids", "64", 5_000_000


def command(way: str, seed: int, run_id: str) -> list[str]:
    """What trains it."""
    return [
        *("lanista-learn", WAYS[way], "--env", SCENE, "--num-areas", AREAS, "--run-id", run_id),
        *("--seed", str(seed), "--set", f"behaviors.{BEHAVIOR}.max_steps={MAX_STEPS}"),
    ]


def play_command(seed: int, brain: str) -> list[str]:
    """What scores the brain."""
    return [
        *("lanista", "play", brain, "--env", SCENE, "--num-areas", AREAS),
        *("--episodes", str(EPISODES), "--seed", str(1000 + seed), "--sampled"),
    ]


def measure(way: str, seed: int, threads: int) -> tuple[Run, list[Point]]:
    """Train once and score the brain."""
    scripts = Path(sys.executable).parent
    with TemporaryDirectory() as name:
        program, *arguments = command(way, seed, "run")
        limits = ["--set", f"torch_settings.num_threads={threads}"] if threads else []
        port = f"--base-port={free_port()}"  # others may train on this machine
        run_command([scripts / program, *arguments, "--results-dir", name, port, *limits])
        folder = Path(name) / "run"
        program, *arguments = play_command(seed, str(folder / f"{BEHAVIOR}.onnx"))
        (figures,) = json.loads(run_command([scripts / program, *arguments, "--json"]))["behaviors"].values()
        points = [Point("pyramids", way, seed, *p) for p in curve(folder / BEHAVIOR)]
    return Run("pyramids", way, seed, MAX_STEPS, figures["mean_reward"], figures["std_reward"]), points


def run_what_is_missing(given: argparse.Namespace) -> None:
    """Train and score whatever the table lacks; each result is kept at once."""
    runs, points = read(RUNS_CSV, Run), read(CURVES_CSV, Point)
    known = {(run.product, run.seed, run.max_steps) for run in runs}
    for seed in given.seeds:
        for way in given.ways:
            if (way, seed, MAX_STEPS) in known:
                continue
            began = time.monotonic()
            run, new = measure(way, seed, given.threads)
            runs.append(run)
            points.extend(new)
            write(RUNS_CSV, Run, runs)
            write(CURVES_CSV, Point, points)
            print(f"{way}, seed {seed}: {run.score:.3f} ({time.monotonic() - began:.0f} s)", flush=True)


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="seeds to train with")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="with RND, and without")
    parser.add_argument("--threads", type=int, default=0, help="torch_settings.num_threads of every run")
    given = parser.parse_args()
    run_what_is_missing(given)
    commands = [command("RND", 0, "pyramids"), play_command(0, f"results/pyramids/{BEHAVIOR}.onnx")]
    write_report(read(RUNS_CSV, Run), read(CURVES_CSV, Point), commands, RESULTS)


if __name__ == "__main__":
    main()
