"""Kills runs after a checkpoint, resumes them, and compares every bit with runs that were never killed.

    python tests/reliability/resume.py [--runs 5] [--cases ppo sac sac-saved] [--updates 2]
                                       [--products Lanista ML-Agents]

Each run is done twice with the real console script's code. One is killed (SIGKILL) at a random moment after
its checkpoint and goes on with --resume. The other restarts its engines at the same checkpoint and goes
on by itself: an engine's state cannot be saved, so that this is the run that a resumed one can equal. At the
end their last checkpoints are compared: weights, normalizer, optimizer, update buffer, steps and the states
of all random generators, as far as they are saved. Ends with status 1 when a bit of Lanista's differs.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from console_runs import PATIENCE
from figures import LANISTA, ROOT, Recorder
from lanista.trainers.buffers.replay.storage import FILE
from script_options import parse_options

UNKILLED = """\
from lanista.trainers.learn import run_training
from lanista.trainers.settings.command_line import parse_command_line
run_training(parse_command_line(), restart_engines_at_checkpoints=True)
"""
DEMO = ROOT / "tests" / "real" / "demos" / "Expert3DBall.demo"
SMALL = {"hidden_units": 16, "num_layers": 1}
ROWS = (".buffer.numbers", ".buffer.mates", ".buffer.next_mates", ".buffer.other_numbers")
"""Row numbers, which another process counts from its own start."""


@dataclass(frozen=True)
class Case:
    """A kind of run."""

    trainer: str = "ppo"
    scene: str = "ball3d"
    behavior: str = "3DBall"
    buffer: int = 2000
    """Steps between two updates; of a replay, those by which the checkpoints are placed."""
    hyper: dict[str, Any] = field(default_factory=dict)
    network: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    """Keys of the behavior."""
    sections: dict[str, Any] = field(default_factory=dict)
    """Beside the behaviors."""
    companions: tuple[str, ...] = ()
    """Further behaviors of the scene, with the same settings, but without checkpoints of their own."""
    lanista_only: bool = False

    @property
    def behaviors(self) -> tuple[str, ...]:
        """All of them."""
        return (self.behavior, *self.companions)

    def configuration(self, checkpoint: int, end: int) -> dict[str, Any]:
        """A run that saves at this step and ends at that one."""
        hyper = {
            "batch_size": 64,
            "buffer_size": self.buffer,
            "learning_rate_schedule": "linear",
            **self.hyper,
        }
        settings = {
            "trainer_type": self.trainer,
            "hyperparameters": hyper,
            "network_settings": {"normalize": True, "hidden_units": 32, "num_layers": 2, **self.network},
            "keep_checkpoints": 5,
            "checkpoint_interval": checkpoint,
            "max_steps": end,
            "time_horizon": 50,
            "summary_freq": 1000,
        }
        behaviors = dict.fromkeys(self.behaviors, settings | self.others)
        # Theirs are never due at the first one's: they have to be saved with it.
        behaviors |= {name: behaviors[name] | {"checkpoint_interval": 10 * end} for name in self.companions}
        return {"behaviors": behaviors, **self.sections}


def off_policy(trainer: str, saved: bool = False, **keys: Any) -> Case:
    """A run that learns from a replay, which is saved too, else both runs begin with an empty one."""
    hyper = {"buffer_size": 20000, "steps_per_update": 10, **({"save_replay_buffer": True} if saved else {})}
    return Case(trainer, hyper=hyper, lanista_only=trainer != "sac", **keys)


BASIC = {"scene": "basic", "behavior": "Basic", "buffer": 256}
SELF_PLAY = {"save_steps": 500, "team_change": 1500, "swap_steps": 300, "window": 4}
IMITATION = {
    "reward_signals": {"gail": {"strength": 1.0, "demo_path": str(DEMO), "network_settings": SMALL}},
    "behavioral_cloning": {"demo_path": str(DEMO), "steps": 20000, "samples_per_update": 64},
}
LESSONS = [
    {
        "name": f"Lesson{k}",
        "value": 1.0 + 0.1 * k,
        "completion_criteria": {
            "measure": "reward", "behavior": "3DBall", "threshold": -1000.0, "min_lesson_length": 20
        },
    }
    for k in range(12)
]  # fmt: skip
LESSONS.append({"name": "Last", "value": 3.0})
TEAMS = {"scene": "dungeon-escape", "behavior": "DungeonEscape", "buffer": 2048}
CASES = {
    "ppo": Case(),
    "ppo-basic": Case(**BASIC),
    "sac": off_policy("sac"),
    "sac-saved": off_policy("sac", saved=True),
    "memory": Case(**BASIC, network={"memory": {"memory_size": 8, "sequence_length": 16}}),
    "signals": Case(
        others={
            "reward_signals": {
                "extrinsic": {},
                "curiosity": {"strength": 0.1, "network_settings": SMALL},
                "rnd": {"strength": 0.1, "network_settings": SMALL},
                "gail": {"strength": 0.1, "demo_path": str(DEMO), "network_settings": SMALL},
            },
            "behavioral_cloning": {"demo_path": str(DEMO), "steps": 20000, "samples_per_update": 64},
        }
    ),
    "threaded": Case(others={"threaded": True}, lanista_only=True),
    "poca": Case("poca", **TEAMS),
    "mappo": Case("mappo", **TEAMS, lanista_only=True),
    "coma": Case("coma", **TEAMS, lanista_only=True),
    "td3": off_policy("td3", saved=True),
    "ddpg": off_policy("ddpg", saved=True),
    "dqn": off_policy("dqn", saved=True, **BASIC),
    "self-play": Case(scene="tennis", behavior="Tennis", others={"self_play": SELF_PLAY}),
    "curriculum": Case(sections={"environment_parameters": {"scale": {"curriculum": LESSONS}}}),
    "imitation": Case(others=IMITATION),
    "behaviors": Case(scene="wall-jump", behavior="SmallWallJump", companions=("BigWallJump",)),
}


@dataclass
class Pair:
    """The same run twice, with one checkpoint on its way."""

    case: Case
    seed: int
    updates: int
    """Policy updates before the checkpoint, and after it."""
    envs: int = 1
    product: str = LANISTA

    def arguments(self, name: str, folder: Path) -> list[str]:
        """Of the console script, for the run `name`."""
        # The checkpoint comes in the midst of a buffer, which then has to be saved as well.
        checkpoint = int((self.updates + 0.5) * self.case.buffer)
        yaml = folder / "run.yaml"
        end = 2 * checkpoint - 100
        yaml.write_text(programs.configuration(self.product, self.case.configuration(checkpoint, end)))
        engines = programs.environment(self.product, self.case.scene, folder, self.envs)
        engines += ["--deterministic"] if self.envs > 1 and self.product == LANISTA else []
        results = ["--results-dir", str(folder), "--run-id", name]
        return [str(yaml), *engines, *results, "--seed", str(self.seed)]

    def unkilled(self, folder: Path) -> dict[str, Any]:
        """The last checkpoint of the run that was not killed."""
        script = ["-c", UNKILLED]
        if self.product != LANISTA:
            script = ["-W", "ignore", str(ROOT / "tests" / "peer" / "run_restarting.py")]
        _finish([programs.python(self.product), *script, *self.arguments("unkilled", folder)])
        return self.last(folder / "unkilled")

    def killed(self, folder: Path, delay: float) -> dict[str, Any]:
        """The last checkpoint of the run that was killed `delay` seconds after its first one, or sooner.

        A quick machine ends the run within the delay: it is then done again, with half of it.
        """
        command = [*programs.command(self.product), *self.arguments("killed", folder)]
        saving = folder / "killed" / self.case.behavior
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            limit = time.monotonic() + (PATIENCE if self.product == LANISTA else 5 * PATIENCE)
            # A replay is saved after its checkpoint: a run killed between the two goes on without it.
            saved = "save_replay_buffer" in self.case.hyper and self.product == LANISTA
            awaited = saving / (FILE if saved else "checkpoint.pt")
            while not awaited.exists():
                assert run.poll() is None and time.monotonic() < limit, "no checkpoint came"
                time.sleep(0.002)
            time.sleep(delay)
            run.kill()
        if len(list(saving.glob("*-*.pt"))) > 1:
            assert delay > 0.001, "the kill came too late: the run had ended"
            shutil.rmtree(folder / "killed")
            return self.killed(folder, delay / 2)
        programs.end_left_behind(folder)
        _finish([*command, "--resume"])
        return self.last(folder / "killed")

    def last(self, run: Path) -> dict[str, Any]:
        """The states of all behaviors at a run's end; of one, its state. Lessons are in the run's status."""
        paths = {name: run / name / "checkpoint.pt" for name in self.case.behaviors}
        states = {name: torch.load(path, weights_only=True) for name, path in paths.items()}
        state = states if self.case.companions else states[self.case.behavior]
        return state | {"lessons": self.lessons(run)} if self.case.sections else state

    def lessons(self, run: Path) -> dict[str, Any]:
        """What a run's status says of each parameter."""
        status = json.loads((run / "run_logs" / "training_status.json").read_text())
        return {name: status[name] for name in self.case.sections["environment_parameters"]}


def _finish(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


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


def compare(pair: Pair, delay: float) -> tuple[int, list[str]]:
    """How many numbers the states hold, and which entries differ."""
    with tempfile.TemporaryDirectory(prefix="resume-") as name:
        folder = Path(name).resolve()
        state, resumed = pair.unkilled(folder), pair.killed(folder, delay)
    return numbers(state), [text for text in differences(state, resumed) if not text.startswith(ROWS)]


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        runs={"default": 5, "help": "pairs of runs per case"},
        cases={"default": list(CASES), "choices": list(CASES)},
        updates={"default": 2, "help": "policy updates after the checkpoint"},
        envs={"default": 1, "help": "environments side by side"},
        seed={"default": 0, "help": "of the first run"},
        products=programs.OPTION,
        record={"default": False, "help": "keep the figures"},
    )
    recorder, moments, bad = Recorder(2, options.record), random.Random(options.seed), 0
    for name in options.cases:
        for product in options.products:
            if CASES[name].lanista_only and product != LANISTA:
                continue
            same, found = 0, ""
            for seed in range(options.seed, options.seed + options.runs):
                pair = Pair(CASES[name], seed, options.updates, options.envs, product)
                count, different = compare(pair, moments.uniform(0.0, 0.3))
                same += not different
                found = f"{count} numbers, {len(different)} entries differ"
                print(f"{name}, {product}, seed {seed}: {found}", *different[:10], sep="\n  ", flush=True)
            recorder.add(name, product, options.runs, same, found=found)
            bad += product == LANISTA and same < options.runs
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
