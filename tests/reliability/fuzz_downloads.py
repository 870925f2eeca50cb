"""What reads models, cards and builds that others publish, for `fuzz.py`."""

from __future__ import annotations

import io
import os
import shutil
import stat
import warnings
import zipfile
from contextlib import suppress
from functools import cache
from random import Random

import numpy as np
from damaged_bytes import mutated
from fuzz_files import REAL, ROOT, damaged_yaml, scratch, written
from fuzz_target import Target, refusal
from fuzz_wire import chosen, with_choice
from lanista.envs.errors import RegistryError
from lanista.envs.registry.entry import read_manifest
from lanista.envs.registry.unpack import unpack
from lanista.trainers.cli.runs.record import CARD, read_run
from lanista.trainers.policies.onnx.runtime import Brain, BrainError
from lanista.trainers.tools.card.contents import ModelFile
from lanista.trainers.tools.report.contents import RunResult, group_runs
from lanista.trainers.tools.report.page import model_cards
from mlagents_envs.base_env import ActionSpec, BehaviorSpec, DecisionSteps
from specs import spec_of_shapes

BRAINS = (
    ROOT / "config" / "pretrained" / "basic" / "Basic.onnx",
    REAL / "onnx" / "Basic.onnx",
    ROOT / "config" / "pretrained" / "food" / "FoodCollector.onnx",
    ROOT / "config" / "pretrained" / "hallway" / "Hallway.onnx",
)
"""With few bytes, of Unity's own, with continuous and discrete actions, with a memory."""
ONNX_WORDS = (
    *(b"obs_0", b"obs_1", b"obs_99999999999", b"action_masks", b"recurrent_in", b"recurrent_out"),
    *(b"version_number", b"memory_size", b"continuous_actions", b"discrete_actions", b"\xff\xff\xff\xff\x0f"),
    *(b"Gemm", b"Concat", b"Loop", b"If", b"RandomNormalLike", b"ConstantOfShape", b"\x1b[2J"),
)


@cache
def specs() -> list[BehaviorSpec]:
    """What the agents of each brain observe and do."""
    found = []
    for brain in map(Brain, BRAINS):
        shapes = [tuple(size or 1 for size in shape) for _, shape in sorted(brain.observations.items())]
        found.append(spec_of_shapes(shapes, continuous=brain.continuous_size, branches=brain.branches))
    return found


def two_agents(spec: BehaviorSpec) -> DecisionSteps:
    """That observe zeros."""
    masks = [np.zeros((2, size), np.bool_) for size in spec.action_spec.discrete_branches]
    zeros = np.zeros(2, np.float32)
    return DecisionSteps(
        [np.zeros((2, *each.shape), np.float32) for each in spec.observation_specs],
        *(zeros, np.arange(2, dtype=np.int32), masks or None, np.zeros(2, np.int32), zeros),
    )


def read_model(data: bytes) -> None:
    """As `lanista play`, `card` and `lanista.load` do."""
    number, rest = chosen(data, len(BRAINS))
    path, spec = written("a.onnx", rest), specs()[number]
    with refusal(BrainError, names="a.onnx"):
        brain = Brain(path)
        ModelFile.read(path, "a", brain)
        brain.check(spec)
        for deterministic in (False, True):
            taken = brain.act(two_agents(spec), deterministic)
            fits(taken.continuous, taken.discrete, spec.action_spec)


def fits(continuous: np.ndarray, discrete: np.ndarray, actions: ActionSpec) -> None:
    """Raise AssertionError unless an engine can take the actions of two agents."""
    assert continuous.shape == (2, actions.continuous_size), continuous.shape
    assert discrete.shape == (2, actions.discrete_size), discrete.shape


def model_seeds() -> list[bytes]:
    return with_choice([[path.read_bytes()] for path in BRAINS])


def damaged_model(data: bytes, random: Random) -> bytes:
    return data[:1] + mutated(data[1:], random, ONNX_WORDS)


def read_archive(data: bytes) -> None:
    """Unpack a build: into its folder and nowhere else."""
    path = written("a.zip", data)
    around = scratch() / str(os.getpid()) / "around"
    shutil.rmtree(around, ignore_errors=True)
    around.mkdir()
    with refusal(RegistryError, names=""):
        unpack(path, around / "new")
    assert {each.name for each in around.iterdir()} <= {"new"}, list(around.iterdir())
    root = os.path.realpath(around / "new")
    for each in around.rglob("*"):
        inside = os.path.realpath(each)
        assert inside == root or inside.startswith(root + os.sep), f"{each} leads to {inside}"
        assert each.is_symlink() or not each.stat().st_mode & (stat.S_ISUID | stat.S_IWOTH), each


def archive_seeds() -> list[bytes]:
    out, plain = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("Game/Game.x86_64", b"#!/bin/sh\n" * 30)
        packed.writestr("Game/Data/level0", bytes(range(200)))
        link = zipfile.ZipInfo("Game/latest")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, "Data/level0")
    with zipfile.ZipFile(plain, "w") as packed:
        packed.writestr("Game.app/", b"")
        packed.writestr("Game.app/Contents/Info.plist", b"<plist/>")
    return [out.getvalue(), plain.getvalue()]


NAME_WORDS = (b"../", b"/", b"\\", b"C:", b"./", b"Game/", b"latest", b"\x00", b"\xff", "É".encode(), b"CON")


def damaged_build(data: bytes, random: Random) -> bytes:
    """With a member's name, kind or content changed; else with some bytes changed."""
    if random.random() < 0.4:
        return mutated(data, random, (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"../"))
    out = io.BytesIO()
    with suppress(Exception), warnings.catch_warnings():  # whatever zipfile says to a damaged archive
        warnings.simplefilter("ignore")  # a name that is there twice
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as changed:
            for info in archive.infolist():
                name, content = info.filename, archive.read(info)
                if random.random() < 0.5:
                    name = mutated(name.encode(), random, NAME_WORDS).decode("utf-8", "replace")
                copy = zipfile.ZipInfo(name)
                copy.compress_type = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
                copy.external_attr = info.external_attr
                if random.random() < 0.3:
                    kind = random.choice(
                        (stat.S_IFLNK, stat.S_IFDIR, stat.S_IFREG, stat.S_IFIFO, stat.S_IFBLK)
                    )
                    copy.external_attr = (kind | random.randrange(0o10000)) << 16
                    content = random.choice((content, b"..", b"../..", b"latest", b"/etc", b"Data"))
                changed.writestr(copy, content)
        return out.getvalue()
    return mutated(data, random)


def read_text(data: bytes) -> None:
    """A registry's manifest; the card of a model, as a report shows it."""
    number, rest = chosen(data, 2)
    if number == 0:
        with refusal(RegistryError, names=""):
            for entry in read_manifest(str(written("manifest.yaml", rest))):
                assert str(entry.identifier).isprintable()
        return
    run = scratch() / str(os.getpid()) / "carded"
    run.mkdir(exist_ok=True)
    (run / CARD).write_bytes(rest)
    with refusal(names=""):
        model_cards(group_runs([RunResult.read(read_run(run))]))


def text_seeds() -> list[bytes]:
    sums = "".join("0123456789abcdef"[k % 16] for k in range(64))
    manifest = f"""environments:
  - Game:
      expected_reward: 0.93
      description: A game, with its build
      linux_url: https://example.org/game.zip
      linux_sha256: {sums}
      darwin_url: game-mac.zip
      win_url: https://example.org/game-win.zip
      additional_args: [--level, "2"]
  - Other: {{linux_url: other.zip, tmp_dir: /tmp/x}}
"""
    models = sorted((ROOT / "config" / "pretrained").glob("*/README.md"))
    return with_choice([[manifest.encode()], [path.read_bytes() for path in models[:3]]])


DOWNLOADS = {
    "onnx": Target(model_seeds, read_model, damaged_model),
    "archive": Target(archive_seeds, read_archive, damaged_build),
    "manifest": Target(text_seeds, read_text, damaged_yaml),
}
