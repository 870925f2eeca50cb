"""Runs of the console script on a local Ray cluster, whose output is read while they run."""

import re
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from console_runs import ppo_yaml, start, until
from local_cluster import LocalCluster

NETWORK = {"normalize": True, "hidden_units": 32, "num_layers": 1}
STEP = re.compile(r"Step: (\d+)\.")
PATIENCE = 300.0


@dataclass
class Run:
    """A run in progress, and its output."""

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
    lengths = {"checkpoint_interval": steps // 10, "keep_checkpoints": 1000, "max_steps": steps}
    lengths |= {"time_horizon": 64, "summary_freq": steps // 10}
    yaml = ppo_yaml("3DBall", {"batch_size": 64, "buffer_size": 2000}, NETWORK, **lengths)
    arguments = ["--env", "scene:ball3d", "--num-envs", str(envs), "--ray", cluster.address, *more]
    return Run(start(folder, *arguments, yaml=yaml, stderr=subprocess.STDOUT))


def checkpoints(folder: Path) -> set[str]:
    """The names of all checkpoints of the run."""
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
