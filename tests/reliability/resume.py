"""Kills runs after a checkpoint, resumes them, and compares every bit with runs that were never killed.

    python tests/reliability/resume.py [--runs 5] [--scenes ball3d basic] [--updates 2]
                                       [--trainers ppo sac sac-saved]

Each run is done twice with the real console script's code. One is killed (SIGKILL) at a random moment after
its checkpoint and goes on with --resume. The other restarts its engines at the same checkpoint and goes
on by itself: an engine's state cannot be saved, so that this is the run that a resumed one can equal. At the
end their last checkpoints are compared: weights, normalizer, optimizer, update buffer, steps and the states
of all random generators. Ends with status 1 when a bit differs.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

from console_runs import PATIENCE, learn_command
from lanista.trainers.buffers.replay.storage import FILE
from lanista.trainers.checkpoints.file import load_checkpoint
from script_options import parse_options

BEHAVIORS = {"ball3d": "3DBall", "basic": "Basic"}
UNKILLED = """\
from lanista.trainers.learn import run_training
from lanista.trainers.settings.command_line import parse_command_line
run_training(parse_command_line(), restart_engines_at_checkpoints=True)
"""
BUFFER = {"ball3d": 2000, "basic": 256}
HYPER = {
    "ppo": "buffer_size: {buffer}",
    "sac": "buffer_size: 20000, steps_per_update: 10",
    "sac-saved": "buffer_size: 20000, steps_per_update: 10, save_replay_buffer: true",
}
"""Of the trainers; with "-saved" the replay is saved too, else both runs begin with an empty one."""
YAML = """\
behaviors:
  {behavior}:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 64, learning_rate_schedule: linear, {hyper}}}
    network_settings: {{normalize: true, hidden_units: 32, num_layers: 2}}
    reward_signals: {{extrinsic: {{gamma: 0.99, strength: 1.0}}}}
    keep_checkpoints: 5
    checkpoint_interval: {checkpoint}
    max_steps: {end}
    time_horizon: 50
    summary_freq: 1000
"""


@dataclass
class Pair:
    """The same run twice, with one checkpoint on its way."""

    scene: str
    seed: int
    updates: int
    """Policy updates before the checkpoint, and after it."""
    envs: int
    trainer: str = "ppo"

    @property
    def behavior(self) -> str:
        """The scene's behavior."""
        return BEHAVIORS[self.scene]

    def command(self, name: str, folder: Path) -> list[str]:
        """The arguments of `lanista-learn` for the run `name`."""
        buffer = BUFFER[self.scene]
        # The checkpoint comes in the midst of a buffer, which then has to be saved as well.
        checkpoint = int((self.updates + 0.5) * buffer)
        yaml = folder / "run.yaml"
        end = 2 * checkpoint - 100
        names = {"behavior": self.behavior, "trainer": self.trainer.partition("-")[0]}
        names["hyper"] = HYPER[self.trainer].format(buffer=buffer)
        yaml.write_text(YAML.format(**names, checkpoint=checkpoint, end=end))
        engines = ["--env", f"scene:{self.scene}", "--num-envs", str(self.envs), "--deterministic"]
        results = ["--results-dir", str(folder), "--run-id", name]
        return [str(yaml), *engines[: 4 if self.envs == 1 else 5], *results, "--seed", str(self.seed)]

    def unkilled(self, folder: Path) -> dict[str, Any]:
        """The last checkpoint of the run that was not killed."""
        _finish([sys.executable, "-c", UNKILLED, *self.command("unkilled", folder)])
        return self.last(folder / "unkilled")

    def killed(self, folder: Path, delay: float) -> dict[str, Any]:
        """The last checkpoint of the run that was killed `delay` seconds after its first one."""
        command = [*learn_command(), *self.command("killed", folder)]
        checkpoint = folder / "killed" / self.behavior / "checkpoint.pt"
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
            limit = time.monotonic() + PATIENCE
            # A replay is saved after its checkpoint: a run killed between the two goes on without it.
            last = checkpoint.with_name(FILE) if self.trainer.endswith("-saved") else checkpoint
            while not last.exists():
                assert run.poll() is None and time.monotonic() < limit, "no checkpoint came"
                time.sleep(0.002)
            time.sleep(delay)
            run.kill()
        step = int(load_checkpoint(checkpoint)["step"])
        saved = len(list(checkpoint.parent.glob("*.pt")))
        assert saved == 2, "the kill came too late: the run had ended"
        _finish([*command, "--resume"])
        state = self.last(folder / "killed")
        assert int(state["step"]) > step
        return state

    def last(self, run: Path) -> dict[str, Any]:
        """The state at a run's end."""
        return load_checkpoint(run / self.behavior / "checkpoint.pt")


def _finish(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """What is not the same to the last bit, by name."""
    if type(a) is not type(b):
        return [f"{where}: {type(a).__name__} and {type(b).__name__}"]
    if isinstance(a, torch.Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        return [] if same else [f"{where}: {_bits(a, b)}"]
    if isinstance(a, dict):
        keys = [f"{where}: the keys {sorted(a.keys() ^ b.keys())}"] if a.keys() != b.keys() else []
        return keys + [
            d for key in a.keys() & b.keys() for d in differences(a[key], b[key], f"{where}.{key}")
        ]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{where}: {len(a)} and {len(b)} entries"]
        return [
            d for k, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{where}[{k}]")
        ]
    return [] if a == b else [f"{where}: {a!r} and {b!r}"]


def _bits(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}"
    pairs = zip(a.numpy().tobytes(), b.numpy().tobytes(), strict=True)
    return f"{sum((x ^ y).bit_count() for x, y in pairs)} bits of {a.numel()} numbers differ"


def numbers(state: Any) -> int:
    """How many numbers tensors of a state hold."""
    if isinstance(state, torch.Tensor):
        return state.numel()
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else ()
    return sum(map(numbers, parts))


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        runs={"default": 5, "help": "pairs of runs per scene"},
        scenes={"default": list(BEHAVIORS), "choices": list(BEHAVIORS)},
        updates={"default": 2, "help": "policy updates after the checkpoint"},
        envs={"default": 1, "help": "environments side by side"},
        seed={"default": 0, "help": "of the first run"},
        trainers={"default": list(HYPER), "choices": list(HYPER)},
    )
    moments = random.Random(options.seed)
    different = 0
    for scene, trainer in product(options.scenes, options.trainers):
        for seed in range(options.seed, options.seed + options.runs):
            pair = Pair(scene, seed, options.updates, options.envs, trainer)
            with tempfile.TemporaryDirectory(prefix="resume-") as name:
                folder, delay = Path(name), moments.uniform(0.0, 0.3)
                state, resumed = pair.unkilled(folder), pair.killed(folder, delay)
            found = differences(state, resumed)
            different += bool(found)
            print(
                f"{trainer} on {scene}, seed {seed}: {numbers(state)} numbers at step {state['step']}, "
                + (
                    f"{len(found)} entries differ\n  " + "\n  ".join(found[:10]) if found else "0 bits differ"
                ),
                flush=True,
            )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
