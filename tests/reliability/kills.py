"""Kills a training run at random moments, again and again, and resumes it each time.

    python tests/reliability/kills.py [--kills 20] [--env scene:ball3d] [--num-envs 1]

The run is the real `lanista-learn` with engine processes; each kill is a SIGKILL at a random moment between
its start and some seconds after it started to train. Reported per kill: the step of the checkpoint that
was there, and the one that the next process resumed from. Ends with status 1 when a process did not resume
from the last checkpoint, when more than one checkpoint interval was lost, when a file was damaged, or when
an engine lived on.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

from console_runs import PATIENCE, learn_command, left_behind, ppo_yaml, until, weights_are_finite
from lanista.trainers.checkpoints.file import load_checkpoint
from script_options import parse_options

INTERVAL = 3000
BEHAVIORS = {"scene:ball3d": "3DBall", "scene:basic": "Basic"}
NETWORK = {"normalize": True, "hidden_units": 32, "num_layers": 1}
LENGTHS = {"max_steps": 10**9, "time_horizon": 64, "summary_freq": 1000}
RESUMED = re.compile(r"resuming training from step (\d+)")
STEP = re.compile(r"Step: (\d+)")


class KilledRun:
    """One run in its folder, whatever process carries it on."""

    def __init__(self, folder: Path, env: str, num_envs: int) -> None:
        self.folder = folder
        self.behavior = BEHAVIORS[env]
        kept = {"keep_checkpoints": 3, "checkpoint_interval": INTERVAL}
        hyper = {"batch_size": 64, "buffer_size": 1000}
        (folder / "run.yaml").write_text(ppo_yaml(self.behavior, hyper, NETWORK, **kept, **LENGTHS))
        engines = ["--env", env, "--num-envs", str(num_envs), "--seed", "1"]
        self.command = [*learn_command(), "run.yaml", "--run-id", "r", *engines]
        self.log = folder / "log.txt"
        self.latest = folder / "results" / "r" / self.behavior / "checkpoint.pt"

    def saved(self) -> int:
        """The step of the last checkpoint, 0 if there is none; everything that lies there must be whole."""
        run = self.latest.parents[1]
        status = run / "run_logs" / "training_status.json"
        if status.exists():
            listed = json.loads(status.read_text())[self.behavior]["checkpoints"]
            for entry in listed[-2:]:
                assert (self.folder / entry["auxillary_file_paths"][0]).exists(), (
                    f"{entry} is listed and gone"
                )
        files = sorted(self.latest.parent.glob("*.pt"))
        assert not files or weights_are_finite(files)
        # A kill may come between a numbered checkpoint and `checkpoint.pt`, its copy.
        return max((int(load_checkpoint(file)["step"]) for file in files), default=0)

    def carry_on(self, moment: float) -> tuple[int | None, int]:
        """Start or resume the run, and kill it.

        Args:
            moment: 0 to 1: between its start and about two checkpoints after it trains.

        Returns:
            The step that it printed it resumed from, and the last one that it printed.
        """
        resume = ["--resume"] if self.latest.parents[1].exists() else []
        with (
            self.log.open("w") as log,
            subprocess.Popen([*self.command, *resume], cwd=self.folder, stdout=log, stderr=log) as run,
        ):
            if moment < 0.2:
                time.sleep(10 * moment)  # loading, launching engines, greeting them
            else:
                enough = int(1 + 2 * INTERVAL / 1000 * (moment - 0.2) / 0.8)
                trained = until(lambda: len(STEP.findall(self.said())) >= enough or run.poll() is not None)
                assert trained, f"no step within {PATIENCE:g} s: {self.said()}"
                time.sleep(0.2 * (moment * 997 % 1))
            assert run.poll() is None, f"the run ended by itself: {self.said()}"
            run.kill()
        resumed = RESUMED.search(self.said())
        steps = [int(step) for step in STEP.findall(self.said())]
        return int(resumed[1]) if resumed else None, max(steps, default=0)

    def said(self) -> str:
        """What the process printed so far."""
        return self.log.read_text()


def main() -> int:
    """Run as the module says."""
    env = {"default": "scene:ball3d", "choices": list(BEHAVIORS)}
    seed = {"default": 0, "help": "of the moments"}
    options = parse_options(__doc__, kills=20, env=env, num_envs=1, seed=seed)
    moments = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    lost = 0
    try:
        run = KilledRun(folder, options.env, options.num_envs)
        for kill in range(1, options.kills + 1):
            before = run.saved()
            # The first one trains in any case, and every later one is killed anywhere.
            resumed, printed = run.carry_on(moments.uniform(0.6, 1.0) if kill == 1 else moments.random())
            after = run.saved()
            assert resumed in (None, before), f"the last checkpoint was {before}, it resumed from {resumed}"
            assert resumed is not None or not before or not printed, f"trained without resuming from {before}"
            assert after >= before, f"from {before} back to {after}"
            lost = max(lost, printed - after)
            # The guard gives engines that lost their trainer three seconds.
            assert until(lambda: not left_behind(folder), 20), f"lived on: {left_behind(folder)}"
            print(
                f"kill {kill}: resumed from {resumed}, last step {printed}, saved {after}",
                flush=True,
            )
        assert run.saved() > INTERVAL, "hardly anything was trained"
    finally:
        shutil.rmtree(folder)
    print(
        f"{options.kills} of {options.kills} kills: the next process resumed from the last checkpoint; at "
        f"most {lost} steps lost, checkpoints are {INTERVAL} apart; no file damaged, no engine left behind"
    )
    return int(lost > INTERVAL + 1000)


if __name__ == "__main__":
    sys.exit(main())
