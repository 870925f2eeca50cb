"""What reads files of others, for `fuzz.py`."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from contextlib import suppress
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from random import Random
from typing import Any

import lanista
import torch
from damaged_bytes import mutated
from fuzz_target import Target, refusal
from fuzz_wire import chosen, damaged_json, with_choice
from godot_messages import WORDS as JSON_WORDS
from godot_messages import damaged_value, sessions
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.errors import DemonstrationError
from lanista.envs.godot.demonstrations import read_recording
from lanista.envs.named_actions import NamedAction
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.metadata import KEY, build_network, step_of
from lanista.trainers.checkpoints.status import TrainingStatusError
from lanista.trainers.checkpoints.transfer import is_mlagents_file
from lanista.trainers.cli.runs.record import read_run
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.validation import contradictions, endless_lessons, unsupported
from lanista.trainers.settings.yaml_source import read_value
from lanista.trainers.utils.errors import CheckpointError, TrainerError
from scripted_game import encode

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests" / "real"
OLD_RUNS = ROOT / "tests" / "old_runs"
RUNS = ("dqn", "ppo-self-play")
PARTS = ("*/checkpoint.pt", "run_logs/training_status.json", "configuration.yaml", "*/*.replay")
YAML_WORDS = (
    *(
        b": ",
        b"- ",
        b"&a ",
        b"*a",
        b"<<: ",
        b"!!int ",
        b"!!binary ",
        b"!!timestamp 2001-99-99",
        b"!!set",
        b"? ",
    ),
    *(
        b"null",
        b"~",
        b".inf",
        b".nan",
        b"1e999",
        b"0x" + b"f" * 5000,
        b"-1",
        b"2001-01-01",
        b"1:30",
        b"{",
        b"[",
        b"\t",
    ),
    *(
        b"default_settings: ",
        b"trainer_type: ",
        b"sac",
        b"poca",
        b"self_play: {}",
        b"reward_signals: ",
        b"curriculum",
    ),
    *(b"[" * 500, b"\n\n  ", b"'", b'"', b"|\n", b"%YAML 1.1\n---\n", b"\xef\xbb\xbf", "é".encode(), b"\x00"),
)


@cache
def scratch() -> Path:
    """A folder of this process."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    # Python's own atexit is not for the processes of multiprocessing.
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=0)
    return folder


def written(name: str, data: bytes) -> Path:
    """The input as a file of this name."""
    path = scratch() / str(os.getpid()) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def read_demo(data: bytes) -> None:
    path = written("a.demo", data)
    for images in ("float32", "uint8"):
        with refusal(DemonstrationError, names="a.demo"):
            read_demonstration(path, images, images == "uint8")  # type: ignore[arg-type]


def demo_seeds() -> list[bytes]:
    names = ("ExpertBasic", "Real3dball", "Realbasic", "testhybridvis")
    return [(REAL / "demos" / f"{name}.demo").read_bytes() for name in names]


def read_game_recording(data: bytes) -> None:
    actions = [NamedAction("move", 2, "continuous"), NamedAction("jump", 3, "discrete")]
    path = written("a.jsonl", data)
    for partial in (False, True):
        with refusal(DemonstrationError, names="a.jsonl"):
            read_recording(path, "a", actions, partial)


def recording_seeds() -> list[bytes]:
    """Made of a session of the addon's, and what godot_rl_agents writes."""
    info, *steps = sessions()[0]
    [(name, spec)] = info["behaviors"].items()
    lines: list[dict[str, Any]] = [{"type": "demonstrations", "lanista": 1}]
    for step in steps[:2]:
        told = json.loads(json.dumps(step["behaviors"][name]))
        ids = told["decision"]["ids"]
        told["terminal"]["ids"] = "/////w=="
        actions = {"ids": ids, "continuous": "AAAAAAAAAAAAAAAAAAAAAA==", "discrete": "AAAAAAEAAAA="}
        lines.append({"type": "episode", "behaviors": {name: told}, "actions": {name: actions}})
    lines[1]["new_behaviors"] = {name: spec}
    trajectories = [[[[0.5, 1.0]] * 3, [[0.1, -0.5, 1]] * 2]]
    return [b"".join(encode(line) + b"\n" for line in lines), encode(trajectories)]


def damaged_lines(data: bytes, random: Random) -> bytes:
    """With one of its lines damaged."""
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    lines[at] = damaged_json(b"\0" + lines[at], random)[1:]
    return b"\n".join(lines)


def read_configuration(data: bytes) -> None:
    number, rest = chosen(data, 2)
    if number:
        with refusal(ValueError, names=""), suppress(UnicodeDecodeError):
            read_value(rest.decode())
        return
    path = written("c.yaml", rest)
    with refusal(TrainerConfigError, names=""):
        options = RunOptions.from_file(path)
        for problem in (*contradictions(options), *unsupported(options), *endless_lessons(options)):
            str(problem)
        options.behavior("another")
        RunOptions.from_dict(options.as_dict())


def configuration_seeds() -> list[bytes]:
    paths = [*(ROOT / "config").glob("*/*.yaml"), *(ROOT / "tests" / "old_configurations").glob("*.yaml")]
    values = [b"{batch_size: 64, a: [1, .inf]}", b"0x1f", b"2001-01-01"]
    return with_choice([[path.read_bytes() for path in sorted(paths)], values])


def damaged_yaml(data: bytes, random: Random) -> bytes:
    """With lines removed, repeated or moved, or bytes changed."""
    if random.random() < 0.5:
        return mutated(data, random, YAML_WORDS)
    lines = data[1:].splitlines(keepends=True)
    for _ in range(random.choice((1, 2, 4))):
        at, to = random.randrange(len(lines) + 1), random.randrange(len(lines) + 1)
        piece = lines[at : at + random.choice((1, 1, 5))]
        lines[to : to + random.choice((0, 0, 1, 3))] = piece
    return data[:1] + b"".join(lines)


def read_brain(data: bytes) -> None:
    path = written("a.pt", data)
    is_mlagents_file(path)
    with refusal(CheckpointError, names=""):
        state = load_checkpoint(path)
        step_of(state)
        if KEY in state:
            build_network(state)


def brain_seeds() -> list[bytes]:
    paths = [next((OLD_RUNS / name).glob(PARTS[0])) for name in RUNS]
    return [path.read_bytes() for path in (*paths, REAL / "checkpoints" / "basic-shared" / "checkpoint.pt")]


def damaged_archive(data: bytes, random: Random) -> bytes:
    """With one of its parts changed and the checksums right; seldom with some bytes changed."""
    if random.random() < 0.1:
        return mutated(data, random)
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as changed:
            names = archive.namelist()
            victim = (
                next(name for name in names if name.endswith("data.pkl")) if random.random() < 0.8 else ""
            )
            victim = victim or random.choice(names)
            for name in names:
                part = archive.read(name)
                changed.writestr(name, mutated(part, random) if name == victim else part)
    except (
        zipfile.BadZipFile,
        StopIteration,
        IndexError,
        OSError,
        ValueError,
        NotImplementedError,
        zlib.error,
    ):
        return mutated(data, random)
    return out.getvalue()


def read_old_run(data: bytes) -> None:
    """Resume a run one of whose files is the input, as a list of it shows it, and as it is trained on."""
    number, rest = chosen(data, len(RUNS) * len(PARTS))
    name, part = RUNS[number % len(RUNS)], PARTS[number // len(RUNS)]
    results = scratch() / str(os.getpid()) / "results"
    run = results / name
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(OLD_RUNS / name, run)
    configuration = OLD_RUNS / name / "configuration.yaml"
    place = {"checkpoint_settings.results_dir": str(results), "quiet": True}
    for path in run.glob(part):
        path.write_bytes(rest)
    with refusal(names=""):
        read_run(run)
    with refusal(TrainerError, TrainingStatusError, TrainerConfigError, names=""):
        lanista.train(configuration, run_id=name, overrides=place, resume=True)


def old_run_seeds() -> list[bytes]:
    lists = [[path.read_bytes() for path in (OLD_RUNS / name).glob(part)] for part in PARTS for name in RUNS]
    return with_choice(lists)


def damaged_run(data: bytes, random: Random) -> bytes:
    """A file of a run, damaged as its format has it."""
    number, rest = chosen(data, len(RUNS) * len(PARTS))
    part = number // len(RUNS)
    if part == 0:
        return data[:1] + damaged_archive(rest, random)
    if part == 1:
        with suppress(ValueError, RecursionError, IndexError, TypeError):
            return data[:1] + json.dumps(damaged_value(json.loads(rest), random)).encode()
        return data[:1] + mutated(rest, random, JSON_WORDS)
    return damaged_yaml(data, random) if part == 2 else data[:1] + damaged_replay(rest, random)


def damaged_replay(data: bytes, random: Random) -> bytes:
    """With its description changed and the checksum right; else with some bytes changed."""
    with suppress(ValueError, KeyError, TypeError, RecursionError, struct.error):
        (length,) = struct.unpack_from("<Q", data, 8)
        head = encode(damaged_value(json.loads(data[16 : 16 + length]), random))
        (size,) = struct.unpack_from("<Q", data, len(data) - 8)
        tail = json.loads(data[-8 - size : -8])
        tail["crc32"][0] = zlib.crc32(head)
        end = encode(tail)
        body = data[16 + length : -8 - size]
        return data[:8] + struct.pack("<Q", len(head)) + head + body + end + struct.pack("<Q", len(end))
    return mutated(data, random)


torch.set_num_threads(1)

FILES = {
    "demo": Target(demo_seeds, read_demo),
    "recording": Target(recording_seeds, read_game_recording, damaged_lines),
    "yaml": Target(configuration_seeds, read_configuration, damaged_yaml),
    "checkpoint": Target(brain_seeds, read_brain, damaged_archive),
    "run": Target(old_run_seeds, read_old_run, damaged_run),
}
