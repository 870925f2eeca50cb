"""Trains on a local Ray cluster, kills one of its nodes in mid-run, and prints that the run went on.

    python tests/reliability/ray_nodes.py [--nodes 3] [--envs 3] [--kills 1] [--steps 60000]

The run is the real `lanista-learn` with PPO and `scene:ball3d`. A kill takes all processes of a node at once,
Ray's as well as the engines'; a new node joins after each. Printed are the step counts and checkpoints before
and after each kill. Ends with status 1 when the run did not end well, a step count fell, a checkpoint got
lost, more environments were restarted than ran on the nodes that were killed, or a process was left behind.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for console_runs, when run as a script

from console_runs import left_behind, start, weights_are_finite
from local_cluster import LocalCluster, local_cluster, until

YAML = """\
behaviors:
  3DBall:
    trainer_type: ppo
    hyperparameters: {{batch_size: 64, buffer_size: 2000}}
    network_settings: {{normalize: true, hidden_units: 32, num_layers: 1}}
    checkpoint_interval: {interval}
    keep_checkpoints: 1000
    max_steps: {steps}
    time_horizon: 64
    summary_freq: {interval}
"""
STEP = re.compile(r"Step: (\d+)\.")
PATIENCE = 300.0


@dataclass
class Run:
    """A run under way, and what it has said."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    @property
    def steps(self) -> list[int]:
        """The step counts of its summaries."""
        return [int(found[1]) for line in self.lines if (found := STEP.search(line))]

    def said(self, words: str) -> int:
        """How many lines hold these words."""
        return sum(words in line for line in self.lines)

    def end(self) -> int:
        """Its exit status."""
        status = self.process.wait(PATIENCE)
        self._reader.join(10.0)
        return status


def train(folder: Path, cluster: LocalCluster, envs: int, steps: int, *more: str) -> Run:
    """Start the run `r` in `folder`."""
    yaml = YAML.format(steps=steps, interval=steps // 10)
    arguments = ["--env", "scene:ball3d", "--num-envs", str(envs), "--ray", cluster.address, *more]
    return Run(start(folder, *arguments, yaml=yaml, stderr=subprocess.STDOUT))


def checkpoints(folder: Path) -> set[str]:
    """The names of all checkpoints that lie there."""
    return {path.name for path in (folder / "results" / "r" / "3DBall").glob("*.pt")}


def kill(folder: Path, cluster: LocalCluster, run: Run, known: int) -> tuple[int, set[str]]:
    """Kill the node with most engines once there are `known` summaries; engines killed, checkpoints then."""
    if not until(lambda: len(run.steps) >= known or run.process.poll() is not None, PATIENCE):
        raise RuntimeError("the run does not get on")
    node = max(cluster.nodes, key=lambda each: len(cluster.engines(each)))
    engines, before = len(cluster.engines(node)), checkpoints(folder)
    print(f"at step {run.steps[-1]}: {len(before)} checkpoints; a node with {engines} engines is killed")
    cluster.kill_node(node)
    return engines, before


def main(arguments: list[str] | None = None) -> int:
    """Run as the module says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--envs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60_000, help="of the whole run")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, local_cluster(given.nodes) as cluster:
        folder = Path(scratch).resolve()
        run = train(folder, cluster, given.envs, given.steps)
        killed, kept = 0, set[str]()
        try:
            for turn in range(given.kills):
                engines, before = kill(folder, cluster, run, 2 * (turn + 1))
                killed, kept = killed + engines, kept | before
                cluster.add_node()
            status = run.end()
        finally:
            run.process.kill()
        lost = kept - checkpoints(folder)
        restarts = run.said("Restarting environment")
        rising = run.steps == sorted(run.steps)
        print(f"step counts: {', '.join(map(str, run.steps))}")
        print(f"status {status}; {killed} engines killed, {restarts} restarts, {len(lost)} checkpoints lost")
        good = status == 0 and rising and not lost and restarts == killed
        good = good and weights_are_finite(sorted((folder / "results" / "r").rglob("*.pt")))
        if not (good and until(lambda: not left_behind(folder))):
            print("\n".join(run.lines), left_behind(folder))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
