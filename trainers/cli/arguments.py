"""Arguments that several commands have in common."""

from __future__ import annotations

import argparse
import math
import random
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

ENVIRONMENTS = (
    "an executable, a scene such as scene:ball3d, godot:PATH, unreal:PATH, registry:NAME, gymnasium:ID, "
    "pettingzoo:MODULE or python:MODULE:FUNCTION; godot: or unreal: alone awaits that engine's editor"
)
"""The help of `--env`: all that it takes."""


def add_results_dir(parser: argparse.ArgumentParser) -> None:
    """Add `--results-dir`."""
    parser.add_argument(
        "--results-dir",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="where run IDs are (results)",
    )


def add_trust_run(parser: argparse.ArgumentParser) -> None:
    """Add `--trust-run`, which `Trust.of_command` takes."""
    parser.add_argument(
        "--trust-run",
        action="store_true",
        help="start the environments and import the code that the given runs and checkpoints name, without "
        "asking",
    )


@dataclass(frozen=True)
class EngineFlag:
    """A flag of `lanista-learn` that other commands which open an environment have too."""

    section: str
    key: str
    help: str
    kind: Literal["integer", "number", "string", "repeated", "switch"] = "integer"
    """The kind of value: integer, number or string; `repeated`, for a list of which each flag gives one
    value; `switch`, for a flag without a value."""

    @property
    def name(self) -> str:
        """The flag as it is typed."""
        return "--" + self.key.replace("_", "-")

    def words(self, value: Any) -> list[str]:
        """The words by which the flag is typed with this value; none where it was not given."""
        if value is None:
            return []
        if self.kind == "switch":
            return [self.name]
        return [
            word for one in (value if isinstance(value, list) else [value]) for word in (self.name, str(one))
        ]


ENGINE_FLAGS = (
    EngineFlag("env_settings", "seed", "of the environment and of sampled actions (0; -1: a random one)"),
    EngineFlag("env_settings", "base_port", "port of the executable (default: a free one)"),
    EngineFlag("env_settings", "timeout_wait", "seconds within which the engine has to start or answer (60)"),
    EngineFlag("env_settings", "num_areas", "training areas, if the environment supports them ({num_areas})"),
    EngineFlag("env_settings", "listen", "address at which the engine calls (localhost)", "string"),
    EngineFlag(
        "env_settings",
        "allow",
        "network (CIDR) from which the engine may call besides this machine; 127.0.0.1: any program of it "
        "may, as a game in a container does; may be repeated",
        "repeated",
    ),
    EngineFlag(
        "env_settings", "transport", "gRPC server that the engine calls: lean or grpcio (lean)", "string"
    ),
    EngineFlag("engine_settings", "time_scale", "speed of the engine's clock (20)", "number"),
    EngineFlag("engine_settings", "no_graphics", "start the executable without a window", "switch"),
    EngineFlag(
        "engine_settings", "no_graphics_monitor", "the same, except for the first environment", "switch"
    ),
    EngineFlag("engine_settings", "width", "of the engine's window in pixels"),
    EngineFlag("engine_settings", "height", "of the engine's window in pixels"),
    EngineFlag("engine_settings", "quality_level", "Unity's quality level"),
    EngineFlag("engine_settings", "target_frame_rate", "frames per second that are drawn; -1: all"),
    EngineFlag(
        "engine_settings", "capture_frame_rate", "frames per second of the engine's clock; 0: as they come"
    ),
)
"""All flags of `lanista-learn` about a single environment, except `--env` and `--env-args`."""


def add_engine_flags(parser: argparse.ArgumentParser, num_areas: int = 1) -> None:
    """Add all of `ENGINE_FLAGS`, and `--env-args`, which takes all that follows.

    Args:
        parser: The parser of a command that opens an environment.
        num_areas: How many areas the command takes where none are given.
    """
    group = parser.add_argument_group("the environment", "as in lanista-learn")
    for flag in ENGINE_FLAGS:
        text = flag.help.format(num_areas=num_areas)
        shared: dict[str, Any] = {"help": text, "default": 0 if flag.key == "seed" else None}
        if flag.kind == "switch":
            group.add_argument(flag.name, action="store_true", **shared)
        elif flag.kind == "repeated":
            group.add_argument(flag.name, action="append", metavar="NETWORK", **shared)
        else:
            metavar = {"integer": "N", "number": "X", "string": "TEXT"}[flag.kind]
            convert = (
                count_from_1 if flag.key == "num_areas" else partial(_as_in_learn, flag.section, flag.key)
            )
            group.add_argument(flag.name, type=convert, metavar=metavar, **shared)
    group.add_argument(
        "--env-args",
        nargs=argparse.REMAINDER,
        default=[],
        help="everything after this flag is passed to the environment",
    )


def engine_words(arguments: argparse.Namespace, *, without: Collection[str] = ()) -> list[str]:
    """The flags of `ENGINE_FLAGS` that were given, as they are typed for another command.

    Args:
        arguments: The arguments of a command with `add_engine_flags`.
        without: Keys of flags that are left out.
    """
    flags = (flag for flag in ENGINE_FLAGS if flag.key not in without)
    return [word for flag in flags for word in flag.words(getattr(arguments, flag.key))]


def _as_in_learn(section: str, key: str, text: str) -> Any:
    """The value of a flag, read as `lanista-learn` reads it. Raises ArgumentTypeError."""
    from ..settings.command_line import read_flag  # loads pydantic, which a command's help does without

    value = read_flag(section, key, text)
    return random.randint(0, 9999) if key == "seed" and value == -1 else value  # noqa: S311 (no secret)


def count_from_1(text: str) -> int:
    """The value of an argument that is 1 or more. Raises ArgumentTypeError."""
    return _count(text, 1)


def count_from_0(text: str) -> int:
    """The value of an argument that is 0 or more. Raises ArgumentTypeError."""
    return _count(text, 0)


def finite(text: str) -> float:
    """The value of an argument that is a number, neither infinite nor NaN. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a finite number")
    return value


def _count(text: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from {least} up")
    return int(text)
