"""What reads runs and weights that others share, for `fuzz.py`."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import zipfile
import zlib
from contextlib import suppress
from importlib.util import find_spec
from random import Random

import lanista
import torch
from damaged_bytes import mutated
from fuzz_files import REAL, ROOT, damaged_yaml, scratch, written
from fuzz_target import Target, refusal
from fuzz_wire import chosen, with_choice
from godot_messages import WORDS as JSON_WORDS
from godot_messages import damaged_value
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.metadata import KEY, build_network, step_of
from lanista.trainers.checkpoints.shared_weights import load_weights, save_shared
from lanista.trainers.checkpoints.status import TrainingStatusError
from lanista.trainers.checkpoints.transfer import is_mlagents_file
from lanista.trainers.cli.runs.record import read_run
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.utils.errors import CheckpointError, TrainerError
from scripted_game import encode

OLD_RUNS = ROOT / "tests" / "old_runs"
RUNS = ("dqn", "ppo-self-play")
PARTS = ("*/checkpoint.pt", "run_logs/training_status.json", "configuration.yaml", "*/*.replay")


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


def read_shared(data: bytes) -> None:
    """As `lanista play`, `export` and --initialize-from do."""
    path = written("a.safetensors", data)
    with refusal(TrainerError, names=""):
        state = load_weights(path)
        step_of(state)
        build_network(state)


def shared_seeds() -> list[bytes]:
    seeds = []
    for name in RUNS:
        path = written("whole.safetensors", b"")
        save_shared(path, load_checkpoint(next((OLD_RUNS / name).glob(PARTS[0]))))
        seeds.append(path.read_bytes())
    return seeds


def damaged_shared(data: bytes, random: Random) -> bytes:
    """With a value of its head, or of the description in it, changed; else with some bytes changed."""
    if random.random() < 0.7:
        with suppress(ValueError, KeyError, TypeError, RecursionError, IndexError, struct.error):
            (length,) = struct.unpack_from("<Q", data)
            head = json.loads(data[8 : 8 + length])
            if random.random() < 0.6:
                texts = head["__metadata__"]
                name = random.choice((KEY, "numbers", "step"))
                texts[name] = encode(damaged_value(json.loads(texts[name]), random)).decode()
            else:
                head = damaged_value(head, random)
            changed = encode(head)
            return struct.pack("<Q", len(changed)) + changed + data[8 + length :]
    return mutated(data, random, JSON_WORDS)


torch.set_num_threads(1)

RUN_FILES = {
    "checkpoint": Target(brain_seeds, read_brain, damaged_archive),
    "run": Target(old_run_seeds, read_old_run, damaged_run),
}
if find_spec("safetensors"):
    RUN_FILES["safetensors"] = Target(shared_seeds, read_shared, damaged_shared)
