"""Lanista beside ML-Agents 1.1.0: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/speed.py [--areas 12 128 1024] [--rounds 3] [--steps 96000] [--again]

Both train the same scene processes with the same YAML (config/ppo/ball3d.yaml but for its length), one after
the other and in turns, round by round; figures are medians of the rounds, ratios medians of the ratios within
a round, so that a machine that other work keeps busy for a while slows both. Steps per second and processor
time count from the first summary to the last. What docs/results/speed.csv already holds is not measured again
without `--again`. Writes that file and docs/results/speed.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from pathlib import Path

import phases
import rates
import speed_page
import yaml
from results import ENGINE, INFERENCE, LANISTA, PEER, THREADED, TRAINING, Results, Row, machine
from timed_scene import executable
from training_run import measure

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config" / "ppo" / "ball3d.yaml"
SCALE = (12, 32, 64, 128, 256, 512, 1024)


class Benchmark:
    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given = given
        self.folder = folder
        self.results = Results(given.out / "speed.csv")
        self.executable = executable(folder)
        self.config = folder / "config.yaml"
        settings = yaml.safe_load(CONFIG.read_text())
        for behavior in settings["behaviors"].values():
            behavior.update(max_steps=given.steps)
        self.config.write_text(yaml.safe_dump(settings))

    def training(self, trainer: str, agents: int, turn: int) -> None:
        """One run of one trainer, unless it has been measured."""
        given = self.given
        if not given.again and (TRAINING, trainer, given.device, agents, turn) in self.results.rows:
            return
        if trainer == PEER and not given.peer.exists():
            print(f"{given.peer} is missing: tests/peer/install.sh puts ML-Agents there", file=sys.stderr)
            return
        if trainer == PEER:
            command = [str(given.peer), "-W", "ignore", str(ROOT / "tests" / "peer" / "run_peer.py")]
        else:
            command = [sys.executable, "-m", "lanista.trainers.cli.main", "learn"]
            command += ["--set", "behaviors.3DBall.threaded=true"] * (trainer == THREADED)
        mark = self.folder / "first-step"
        command += [str(self.config), f"--env={self.executable}", "--run-id=speed", "--force"]
        command += [f"--results-dir={self.folder / 'runs'}", f"--base-port={phases.free_port()}"]
        command += [f"--torch-device={given.device}"] * (given.device != "cpu")
        command += ["--env-args", "--areas", str(agents), "--mark", str(mark)]
        found = measure(command, mark, self.folder / "log")
        row = Row(TRAINING, trainer, given.device, agents, turn, machine=machine(), **vars(found))
        self.results.add(row)
        print(f"{trainer}, {agents} agents, round {turn}: {row.steps_per_s:,.0f} steps/s", flush=True)

    def rates(self, agents: int, turn: int) -> None:
        """The engine alone, and with inference."""
        keys = [(kind, LANISTA, "cpu", agents, turn) for kind in (ENGINE, INFERENCE)]
        if not self.given.again and all(key in self.results.rows for key in keys):
            return
        for kind, found in rates.apart(agents, seconds=3.0).items():
            unknown = dict.fromkeys(("engine_cpu_us", "peak_mib", "start_s", "others"), math.nan)
            row = Row(kind, LANISTA, "cpu", agents, turn, machine=machine(), **found, **unknown)
            self.results.add(row)

    def run(self) -> None:
        for turn in range(1, self.given.rounds + 1):
            for agents in self.given.areas:
                order = [LANISTA, PEER, THREADED]
                for trainer in order if turn % 2 else order[::-1]:
                    self.training(trainer, agents, turn)
                self.rates(agents, turn)
            for agents in sorted(set(SCALE) - set(self.given.areas)):
                self.training(LANISTA, agents, turn)

    def phases(self) -> None:
        """The phases' table; one run for each number of agents."""
        path = self.given.out / "speed-phases.json"
        if self.given.again or not path.exists():
            found = [phases.apart(agents, self.given.steps, CONFIG) for agents in self.given.areas]
            path.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--areas", type=int, nargs="+", default=[12, 128, 1024], help="agents")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=96_000, help="max_steps of every run")
    parser.add_argument("--device", default="cpu", help="--torch-device of both trainers")
    parser.add_argument("--again", action="store_true", help="measure also what the CSV holds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    default_peer = os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python"
    parser.add_argument("--peer", type=Path, default=Path(default_peer), help="ML-Agents' Python")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        benchmark = Benchmark(given, Path(folder))
        benchmark.run()
        benchmark.phases()
    page = speed_page.write(benchmark.results, given.out)
    print(speed_page.comparison(benchmark.results, given.device))
    print(f"written: {page}")


if __name__ == "__main__":
    main()
