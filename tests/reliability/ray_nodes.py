"""Trains on a local Ray cluster, kills one of its nodes in mid-run, and prints that the run went on.

    python tests/reliability/ray_nodes.py [--nodes 3] [--envs 3] [--kills 1] [--steps 60000]

The run is the real `lanista-learn` with PPO and `scene:ball3d`. A kill takes all processes of a node at once,
Ray's as well as the engines'; a new node joins after each. Printed are the step counts and checkpoints before
and after each kill. Ends with status 1 when the run did not end well, a step count fell, a checkpoint got
lost, more environments were restarted than ran on the nodes that were killed, or a process was left behind.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

from cluster_runs import checkpoints, kill, train
from console_runs import left_behind, until, weights_are_finite
from local_cluster import local_cluster
from script_options import parse_options


def main() -> int:
    """Run as the module says."""
    steps = {"default": 60_000, "help": "of the whole run"}
    given = parse_options(__doc__, nodes=3, envs=3, kills=1, steps=steps)
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
