"""Cuts files at every byte and flips their bits, and lets the programs read them.

    python tests/reliability/damaged.py [--kinds checkpoint demo] [--every 1] [--products Lanista ML-Agents]

The files are those of a short run (checkpoint, replay, status, configuration, brain), a demonstration, and an
archive of a registry. A damaged one is refused by an error that a run explains, or read; ML-Agents reads the
kinds that it has. What has an end mark or a checksum must not be read as anything but what it was. Ends with
status 1 when Lanista read such a file as another, raised another error, or left the file's name out.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
import torch
from console_runs import PATIENCE
from crowd import write_demonstration
from damages import CUT, FLIPPED, Tally, judge
from figures import LANISTA, ROOT, Recorder
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.errors import DemonstrationError, RegistryError
from lanista.envs.registry.unpack import unpack
from lanista.trainers.buffers.replay.storage import FILE, ReplayFileError, SavedReplay
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint
from lanista.trainers.checkpoints.status import TrainingStatus, TrainingStatusError
from lanista.trainers.policies.onnx.runtime import Brain, BrainError
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from script_options import parse_options
from specs import spec_of_shapes
from yaml import safe_load

SETTINGS = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 8, "buffer_size": 64, "save_replay_buffer": True},
    "network_settings": {"hidden_units": 4, "num_layers": 1},
    "max_steps": 150,
    "checkpoint_interval": 100,
    "summary_freq": 100,
}
REFUSALS = (
    *(CheckpointError, DemonstrationError, TrainerConfigError, TrainingStatusError, RegistryError),
    *(BrainError, ReplayFileError),
)
WHOLE = {
    ("checkpoint", CUT), ("checkpoint", FLIPPED), ("replay", CUT), ("archive", CUT),
    ("demo", CUT), ("status", CUT),
}  # fmt: skip
"""What must not be read as anything else: the others have neither an end mark nor a checksum."""
NAMED_BY_CALLER = ("archive", "replay")
"""Their errors get the file's name from who asked for it."""


def plain(value: Any) -> Any:
    """Nested tensors as bytes."""
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes(), tuple(value.shape)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def status(path: Path) -> str:
    """What it holds."""
    read = TrainingStatus(path)
    read.load()
    return json.dumps(read._tree, sort_keys=True)


def archive(path: Path) -> dict[str, bytes]:
    """The files in it."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(path, Path(folder, "new"))
        return {each.name: each.read_bytes() for each in Path(folder, "new").rglob("*") if each.is_file()}


READERS: dict[str, Callable[[Path], Any]] = {
    "checkpoint": lambda path: repr(plain(load_checkpoint(path))),
    "demo": lambda path: repr(read_demonstration(path)),
    "yaml": lambda path: str(RunOptions.from_file(path)),
    "status": status,
    "replay": lambda path: repr(SavedReplay(path).about),
    "archive": archive,
    "onnx": lambda path: Brain(path).observations,
}
ML_AGENTS_READS = ("checkpoint", "demo", "yaml", "status")


def make(folder: Path) -> dict[str, Path]:
    """One file of every kind."""
    yaml = programs.configuration(LANISTA, {"behaviors": {"Basic": SETTINGS}})
    ended = programs.learn(LANISTA, folder, *programs.environment(LANISTA, "basic", folder), yaml=yaml)
    assert ended.status == 0, ended.text[-2000:]
    run = folder / "results" / "r"
    demo = write_demonstration(folder / "Expert.demo", spec_of_shapes([(3,)], branches=(2,)), [5, 4, 6])
    with zipfile.ZipFile(folder / "game.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("Game/Game.x86_64", "#!/bin/sh\n" * 20)
        packed.writestr("Game/data.bin", bytes(range(200)))
    settings = safe_load((ROOT / "config" / "ppo" / "basic.yaml").read_text())
    (folder / "c.yaml").write_text(programs.configuration(programs.ML_AGENTS, settings))  # both read it
    files = {"checkpoint": run / "Basic" / "checkpoint.pt", "demo": demo, "yaml": folder / "c.yaml"}
    files |= {"status": run / "run_logs" / "training_status.json", "replay": run / "Basic" / FILE}
    return files | {"archive": folder / "game.zip", "onnx": run / "Basic.onnx"}


def of_ml_agents(kind: str, path: Path, every: int) -> dict[str, Tally]:
    """What ML-Agents makes of the same copies."""
    script = ROOT / "tests" / "peer" / "read_files.py"
    done = subprocess.run(
        [programs.python(programs.ML_AGENTS), str(script), kind, str(path), str(every)],
        capture_output=True, text=True, check=True, timeout=10 * PATIENCE,
    )  # fmt: skip
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("READ "))
    found = json.loads(line.removeprefix("READ "))
    return {name: Tally(**found[name]) for name in (CUT, FLIPPED)}


def described(tally: Tally) -> str:
    """In words."""
    text = f"{tally.refused} refused ({tally.unnamed} without the file's name), {tally.same} read as before, "
    text += f"{tally.other} read as something else"
    raised = ", ".join(f"{count} {name}" for name, count in tally.uncaught.items())
    return text + f"; tracebacks: {raised}" * bool(raised)


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        kinds={"default": list(READERS), "choices": list(READERS)},
        every={"default": 1, "help": "damage each so-manyth byte"},
        products=programs.OPTION,
        record={"default": False, "help": "keep the figures"},
    )
    recorder, bad = Recorder(6, options.record), 0
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder).resolve())
        for kind in options.kinds:
            for product in options.products:
                if product == LANISTA:
                    tallies = judge(files[kind], READERS[kind], REFUSALS, options.every)
                elif kind in ML_AGENTS_READS:
                    tallies = of_ml_agents(kind, files[kind], options.every)
                else:
                    continue
                for damage, tally in tallies.items():
                    wrong = sum(tally.uncaught.values()) + tally.other * ((kind, damage) in WHOLE)
                    recorder.add(
                        f"{kind}, {damage}", product, tally.tried, tally.tried - wrong, found=described(tally)
                    )
                    unnamed = tally.unnamed and kind not in NAMED_BY_CALLER
                    bad += product == LANISTA and (wrong > 0 or unnamed > 0)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
