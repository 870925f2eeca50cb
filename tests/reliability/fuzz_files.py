"""What reads recordings and configurations of others, for `fuzz.py`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from random import Random
from typing import Any

from damaged_bytes import mutated
from fuzz_target import Target, refusal
from fuzz_wire import chosen, damaged_json, with_choice
from godot_messages import sessions
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.errors import DemonstrationError
from lanista.envs.godot.demonstrations import read_recording
from lanista.envs.named_actions import NamedAction
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.validation import contradictions, endless_lessons, unsupported
from lanista.trainers.settings.yaml_source import read_value
from scripted_game import encode

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests" / "real"
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


FILES = {
    "demo": Target(demo_seeds, read_demo),
    "recording": Target(recording_seeds, read_game_recording, damaged_lines),
    "yaml": Target(configuration_seeds, read_configuration, damaged_yaml),
}
