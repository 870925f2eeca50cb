"""Trains every trainer on tiny scenes and prints hashes of the weights, the exported models and the curves.

    python tests/reproducibility.py [CASE ...] [--against COMMAND] [--keep] [--jobs 2]

A change that should not change numbers must leave every hash as it is. With one thread, fixed seeds and
`--deterministic`, runs repeat bit for bit, but other processors and other releases of torch round sums
differently: `tests/reproducibility.json` names the machine on which its hashes were computed. There, a
difference ends the command with status 1; elsewhere, compare with the command of another checkout:

    python tests/reproducibility.py --against path/to/other/.venv/bin/lanista-learn

`--keep` writes the hashes into the file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

sys.path.insert(0, str(Path(__file__).parent))  # for console_runs, when run as a script

from console_runs import learn_command

TESTS = Path(__file__).parent
KEPT = TESTS / "reproducibility.json"
NEW_TAGS = (
    *("Policy/Approximate KL", "Policy/Clip Fraction", "Policy/Gradient Norm"),
    *("Losses/Value Explained Variance", "Losses/Baseline Explained Variance"),
)
"""Tags that were added after the hashes had been computed first; curves are compared without them."""
NEW_ENTRIES = (
    ".brain.trainer_type",
    ".due.summary_freq",
    ".due.checkpoint_interval",
    *(".record", ".returns", ".brain.settings"),
)
"""Entries of checkpoints that are newer than the first hashes; weights are compared without them."""

ON_POLICY = {"batch_size": 32, "buffer_size": 128, "num_epoch": 2}
OFF_POLICY = {"batch_size": 32, "buffer_size": 1000, "buffer_init_steps": 64, "steps_per_update": 8}
NETWORK = {"hidden_units": 16, "num_layers": 2}
MEMORY = {**NETWORK, "memory": {"memory_size": 8, "sequence_length": 8}}
SELF_PLAY = {"save_steps": 100, "team_change": 200, "swap_steps": 50, "window": 3}
BOTH_SIDES = {"learn_from_both_sides": True, "opponent_sampling": "prioritized"}
BASIC_DEMO = str(TESTS / "real" / "demos" / "ExpertBasic.demo")
BALL_DEMO = str(TESTS / "real" / "demos" / "Expert3DBall.demo")


def _signals(demo: str) -> dict[str, Any]:
    small = {"network_settings": {"hidden_units": 8, "num_layers": 1}}
    return {
        "extrinsic": {"gamma": 0.99, "strength": 1.0},
        "curiosity": {"strength": 0.1, **small},
        "rnd": {"strength": 0.1, **small},
        "gail": {"strength": 0.1, "demo_path": demo, **small},
    }


def _cloning(demo: str) -> dict[str, Any]:
    return {"demo_path": demo, "steps": 300, "samples_per_update": 32, "num_epoch": 1}


@dataclass(frozen=True)
class Case:
    """One run of `lanista-learn`: a scene, a trainer, and what differs from the plainest settings."""

    env: str
    trainer: str
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    network: dict[str, Any] = field(default_factory=lambda: NETWORK)
    steps: int = 400
    areas: int = 4
    settings: dict[str, Any] = field(default_factory=dict)
    """More keys of the behavior's section."""
    resume_at: int | None = None
    """Steps after which the run ends once, and is resumed."""

    def configuration(self, steps: int) -> dict[str, Any]:
        """The YAML: every behavior of the scene is trained alike."""
        base = ON_POLICY if self.trainer in ("ppo", "poca", "mappo", "coma") else OFF_POLICY
        section = {
            "trainer_type": self.trainer,
            "hyperparameters": {**base, **self.hyperparameters},
            "network_settings": self.network,
            "max_steps": steps,
            "time_horizon": 16,
            "summary_freq": 100,
            "checkpoint_interval": 10_000,
            **self.settings,
        }
        return {"default_settings": section, "torch_settings": {"num_threads": 1}}


CASES = {
    "ppo continuous": Case("ball3d", "ppo", areas=1, network={**NETWORK, "normalize": True}, resume_at=200),
    "ppo discrete": Case("basic", "ppo"),
    "ppo shared critic, clipped values": Case(
        "ball3d", "ppo", {"shared_critic": True, "clip_value_loss": True}, areas=1
    ),
    "ppo normalized values": Case("ball3d", "ppo", {"normalize_values": True}, areas=1, resume_at=200),
    "ppo images and masks": Case("grid?size=small", "ppo", network={**NETWORK, "vis_encode_type": "simple"}),
    "ppo entities": Case("sorter?size=small", "ppo"),
    "ppo memory": Case("hallway?size=small", "ppo", network=MEMORY),
    "ppo hybrid actions": Case("food?size=small", "ppo"),
    "ppo two behaviors": Case("wall-jump?size=small", "ppo"),
    "ppo signals and cloning": Case(
        "basic",
        "ppo",
        settings={"reward_signals": _signals(BASIC_DEMO), "behavioral_cloning": _cloning(BASIC_DEMO)},
    ),
    "ppo self-play": Case("tennis", "ppo", settings={"self_play": SELF_PLAY}),
    "poca": Case("coop-push?size=small", "poca", resume_at=200),
    "poca deaths": Case("dungeon-escape?size=small", "poca"),
    "poca memory": Case("dungeon-escape?size=small", "poca", network=MEMORY),
    "poca self-play": Case("soccer-twos?size=small", "poca", settings={"self_play": SELF_PLAY}),
    "mappo": Case("coop-push?size=small", "mappo", {"clip_value_loss": True}, resume_at=200),
    "mappo deaths": Case("dungeon-escape?size=small", "mappo"),
    "mappo memory": Case("dungeon-escape?size=small", "mappo", network=MEMORY),
    "poca self-play from both sides": Case(
        "soccer-twos?size=small", "poca", settings={"self_play": {**SELF_PLAY, **BOTH_SIDES}}, resume_at=200
    ),
    "coma": Case("coop-push?size=small", "coma", resume_at=200),
    "coma deaths": Case("dungeon-escape?size=small", "coma"),
    "coma memory": Case("dungeon-escape?size=small", "coma", network=MEMORY),
    "sac continuous": Case(
        "ball3d", "sac", {"save_replay_buffer": True}, {**NETWORK, "normalize": True}, areas=1, resume_at=200
    ),
    "sac discrete": Case("basic", "sac"),
    "sac images": Case("grid?size=small", "sac", network={**NETWORK, "vis_encode_type": "simple"}, steps=200),
    "sac memory": Case("hallway?size=small", "sac", {"batch_size": 64}, network=MEMORY),
    "sac hybrid actions": Case("food?size=small", "sac"),
    "sac replay": Case(
        "ball3d", "sac", {"n_step": 3, "prioritized_replay": True, "normalize_rewards": True}, areas=1
    ),
    "sac signals and cloning": Case(
        "ball3d",
        "sac",
        areas=1,
        settings={"reward_signals": _signals(BALL_DEMO), "behavioral_cloning": _cloning(BALL_DEMO)},
    ),
    "dqn": Case("basic", "dqn", {"prioritized_replay": True, "n_step": 3}),
    "ddpg": Case("ball3d", "ddpg", areas=1),
    "td3": Case("ball3d", "td3", areas=1),
}


def hashes(name: str, command: list[str]) -> dict[str, str]:
    """Train a case with this command; hashes of its weights, models and curves."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "results" / "r"
        for steps in filter(None, (case.resume_at, case.steps)):
            text = yaml.safe_dump(case.configuration(steps))
            (Path(folder) / "c.yaml").write_text(text, encoding="utf-8")
            flags = f"--env scene:{case.env} --num-areas {case.areas} --run-id r --seed 7 --deterministic"
            more = ["--resume"] if run.exists() else []
            _run([*command, "c.yaml", *flags.split(), "--torch-device", "cpu", *more], folder)
        return {
            "weights": _of_weights(sorted(run.glob("*/checkpoint.pt"))),
            "models": _of_models(sorted(run.glob("*.onnx"))),
            "curves": _of_curves(sorted(run.glob("*/events.out.tfevents*"))),
        }


def _run(command: list[str], folder: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)}: status {ended.returncode}\n{ended.stdout}\n{ended.stderr}")


def _of_weights(checkpoints: list[Path]) -> str:
    digest = hashlib.sha256()
    assert checkpoints, "no checkpoint.pt was written"
    for path in checkpoints:
        digest.update(path.parent.name.encode())
        _add(digest, torch.load(path, map_location="cpu", weights_only=True), "")
    return digest.hexdigest()[:16]


def _add(digest: Any, value: Any, place: str) -> None:
    """Whatever a checkpoint holds, in the order of the keys."""
    if place in NEW_ENTRIES:
        return
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            _add(digest, value[key], f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for k, item in enumerate(value):
            _add(digest, item, f"{place}.{k}")
    elif isinstance(value, torch.Tensor):
        digest.update(f"{place} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    else:
        digest.update(f"{place} {value!r}".encode())


def _of_models(models: list[Path]) -> str:
    import onnx

    digest = hashlib.sha256()
    assert models, "no model was exported"
    for path in models:
        model = onnx.load(path)
        model.ClearField("producer_version")
        learned = [entry for entry in model.metadata_props if entry.key != "reward"]  # that is told
        del model.metadata_props[:]
        model.metadata_props.extend(learned)
        digest.update(path.name.encode() + model.SerializeToString(deterministic=True))
    return digest.hexdigest()[:16]


def _of_curves(event_files: list[Path]) -> str:
    """Scalars of all files, in the order of tag and step. Summaries that are texts are left out."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    points = []
    for path in event_files:
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                floats = value.tensor.float_val or np.frombuffer(value.tensor.tensor_content, np.float32)
                if value.tensor.dtype == 1 and len(floats) == 1 and value.tag not in NEW_TAGS:
                    points.append(f"{path.parent.name} {value.tag} {event.step} {np.float32(floats[0])!r}")
    assert any(" Losses/" in point for point in points), "the run ended before its first update"
    return hashlib.sha256("\n".join(sorted(points)).encode()).hexdigest()[:16]


def machine() -> dict[str, str]:
    """What rounding depends on: the processor, the instructions that torch uses, torch, NumPy."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.exists() else []
    # A name such as "AMD EPYC" is that of several generations, for which MKL has kernels of its own.
    parts = ("model name", "cpu family", "model")
    found = dict(line.replace("\t", "").split(": ", 1) for line in lines if ": " in line)
    processor = ", ".join(found[part] for part in parts if part in found)
    return {
        "processor": processor or platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def kept() -> dict[str, dict[str, str]] | None:
    """The hashes of the file, if this is a machine of the kind that computed them."""
    content = json.loads(KEPT.read_text(encoding="utf-8"))
    return content["hashes"] if content["machine"] == machine() else None


def _compute(names: list[str], command: list[str], jobs: int) -> dict[str, dict[str, str]]:
    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(names, pool.map(lambda name: hashes(name, command), names), strict=True))


def main() -> int:
    """0 if nothing differs from what it is compared with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help="all whose names start with this; default: all"
    )
    parser.add_argument("--against", metavar="COMMAND", help="another checkout's lanista-learn")
    parser.add_argument("--keep", action="store_true", help="write the hashes into the file")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    args = parser.parse_args()
    names = [name for name in CASES if not args.cases or any(name.startswith(c) for c in args.cases)]
    computed = _compute(names, learn_command(), args.jobs)
    if args.against:
        expected: dict[str, dict[str, str]] | None = _compute(names, [args.against], args.jobs)
    else:
        expected = kept() if KEPT.exists() else None
    if expected is None and not args.keep:
        print("No hashes of this machine are kept: nothing to compare with.")
    failed = []
    for name in names:
        before = (expected or {}).get(name, {})
        changed = [key for key, value in computed[name].items() if before.get(key, value) != value]
        failed += [name] * bool(changed)
        print(f"{name:36s}", *computed[name].values(), f"  CHANGED: {', '.join(changed)}" if changed else "")
    if args.keep:
        old = json.loads(KEPT.read_text(encoding="utf-8"))["hashes"] if KEPT.exists() else {}
        content = {"machine": machine(), "hashes": {**old, **computed}}
        KEPT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
