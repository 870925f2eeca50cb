"""Launches Godot games by their names, or connects to one that the editor plays."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl

from mlagents_envs.exception import UnityEnvironmentException

from ..engines import ports
from ..engines.connection import EngineConnection
from ..engines.interfaces import EngineKind
from ..engines.listener import EngineListener
from ..engines.logs import new_log
from ..engines.options import EngineOptions
from ..engines.process import EngineProcess, launched
from ..engines.terms import GODOT as TERMS
from ..unity.executables import check_executable, find_executable
from ..utils.programs import find_program
from . import GODOT, is_godot_editor
from .columns import DIALECT
from .session import GodotSession, frame

logger = logging.getLogger(__name__)

EDITOR_PORT = 11008
"""The port on which games call by themselves, also those in the editor."""
FIRST_PORT = 11009
"""The port on which the first game that is launched calls, unless it is taken."""
VARIABLE = "LANISTA_GODOT"
"""The environment variable that names the engine."""
TICKS = 60
"""Physics ticks per second, as both plugins set them; times `speedup`."""
_PROJECT_FILE = "project.godot"
_IMPORTED = Path(".godot", "global_script_class_cache.cfg")
_CONFIG_VERSION = 5
"""The least `config_version` in the project file of a Godot 4."""
_VERSION_SECONDS = 30.0

KIND = EngineKind(TERMS, quit=b'{"type":"close"}')

GREETING = frame(
    json.dumps(
        {"type": "handshake", "major_version": "0", "minor_version": "7", "lanista": DIALECT},
        separators=(",", ":"),
    ).encode(),
    b'{"type":"env_info"}',
)
"""The messages that a game reads first. godot_rl_agents does not answer a handshake, and knows no key
`lanista`."""


@dataclass(frozen=True, slots=True)
class GodotName:
    """The parts of a name `godot:PATH?key=value&...`."""

    path: str
    """The path of an executable, a `.pck` or a project's folder; empty for the editor."""
    scene: str | None = None
    speedup: float = 1.0
    arguments: tuple[str, ...] = ()
    """Further arguments for the game, such as `--action_repeat=4`."""

    @classmethod
    def parse(cls, name: str) -> GodotName:
        """Take a name apart.

        Raises:
            UnityEnvironmentException: It cannot be read.
        """
        path, _, query = name.strip()[len(GODOT) :].partition("?")
        try:
            options = dict(parse_qsl(query, strict_parsing=True)) if query else {}
            scene = options.pop("scene", None)
            speedup = float(options.pop("speedup", "1"))
        except ValueError as error:
            raise UnityEnvironmentException(
                f"The environment {name!r} cannot be read ({error}); write godot:PATH, or "
                "godot:PATH?scene=res://train.tscn&speedup=1&action_repeat=8."
            ) from error
        if not 0.01 <= speedup <= 1000:
            raise UnityEnvironmentException(
                f"The environment {name!r}: speedup is {speedup:g}; give 0.01 to 1000."
            )
        return cls(path, scene, speedup, tuple(f"--{key}={value}" for key, value in options.items()))


def launch(options: EngineOptions, on_exit: Callable[[], None]) -> EngineConnection:
    """Listen, and start the game unless the editor plays it.

    Args:
        options: Which game, and how.
        on_exit: Called, from another thread, when the game's process has ended.

    Raises:
        ValueError: An entry of `allow` is not a network.
        UnityEnvironmentException: The game or the engine is missing or cannot be started.
        PortInUseError: The editor's port, or the requested one, is taken.
    """
    game = GodotName.parse(str(options.path))
    if not game.path:
        return launched(options, KIND, listen, None)
    command = resolve(game)
    return launched(options, KIND, listen, lambda port: start_game(options, command, port, on_exit)[0])


def start_game(
    options: EngineOptions, command: Sequence[str], port: int, on_exit: Callable[[], None] | None = None
) -> tuple[EngineProcess, Path | None]:
    """Start a game that calls on a port of this machine.

    Args:
        options: Which game, and how.
        command: As returned by `resolve`.
        port: The port on which it calls.
        on_exit: Called, from another thread, when its process has ended.

    Returns:
        Its process, and the log that it will write.

    Raises:
        UnityEnvironmentException: It cannot be started, or its name cannot be read.
    """
    game = GodotName.parse(str(options.path))
    arguments = ["--headless"] if options.windowless else []
    if not options.real_time:
        # One physics tick for every turn of the main loop, without waiting for the clock.
        arguments += ["--fixed-fps", str(round(TICKS * game.speedup))]
        arguments += [] if options.windowless else ["--disable-vsync", "--audio-driver", "Dummy"]
    log = None
    if options.log_folder is not None:
        log = new_log(options.log_folder.absolute(), options.worker_id, options.errors)
        arguments += ["--log-file", str(log.path)]
    arguments += [f"--port={port}", f"--env_seed={options.seed}", f"--speedup={game.speedup:g}"]
    path = None if log is None else log.path
    listener = EngineListener.of(options, KIND.name, path, repeats=True)
    arguments += [*game.arguments, *options.additional_args]
    return EngineProcess([*command, *arguments], log, on_exit, listener), path


def listen(options: EngineOptions) -> GodotSession:
    """Listen where a game will call.

    Raises:
        UnityEnvironmentException: There is no such port or address, or this user may not use it.
        PortInUseError: The editor's port, or the requested one, is taken.
    """
    editor, base_port = is_godot_editor(options.path), options.base_port
    return ports.serve(
        lambda port: GodotSession.listen(port, options.listen, GREETING),
        options,
        base_port if base_port is not None else EDITOR_PORT if editor else FIRST_PORT,
        search=base_port is None and not editor,
        remedy="End it, or choose another port with base_port (--base-port), and --port=N in the game.",
    )


def resolve(name: GodotName, platform: str = sys.platform) -> list[str]:
    """The start of the command line of a game.

    Raises:
        UnityEnvironmentException: There is no such game or scene, no engine for it, or it was never imported.
    """
    path = Path(name.path).expanduser()
    if path.name == _PROJECT_FILE:
        path = path.parent
    if path.is_dir() and path.suffix != ".app":
        return _project_command(path.absolute(), name.scene, platform)
    if path.suffix == ".pck" and path.is_file():
        return [
            find_godot(path.parent, platform),
            "--main-pack",
            str(path.absolute()),
            *filter(None, [name.scene]),
        ]
    try:
        program = find_executable(name.path, platform, terms=TERMS)
    except UnityEnvironmentException as error:
        raise UnityEnvironmentException(
            f"{error} godot: takes a project's folder, which holds {_PROJECT_FILE}, or an exported game."
        ) from None
    check_executable(program, platform, TERMS)
    return [program, *filter(None, [name.scene])]


def _project_command(folder: Path, scene: str | None, platform: str) -> list[str]:
    project = folder / _PROJECT_FILE
    if not project.is_file():
        raise UnityEnvironmentException(
            f"{folder} is a folder without {_PROJECT_FILE}. Name the folder of a Godot project, or an "
            f"exported game."
        )
    found = re.search(r"^config_version=(\d+)", project.read_text("utf-8", "replace"), re.MULTILINE)
    if found is None or int(found[1]) < _CONFIG_VERSION:
        version = "has no config_version" if found is None else f"has config_version={found[1]}"
        raise UnityEnvironmentException(
            f"{project} {version}: a project of Godot 3 or older; Godot 4's have {_CONFIG_VERSION}. The "
            "plugins need Godot 4: open the project there once, which converts it."
        )
    engine = find_godot(folder, platform)
    check_version(engine)
    if not (folder / _IMPORTED).exists():
        raise UnityEnvironmentException(
            f"The Godot project {folder} was never imported, so that its scripts do not know each other's "
            f"classes. Open it in the editor once, or run: {engine} --headless --path {folder} --import"
        )
    if scene is not None:
        _check_scene(folder, scene)
    return [engine, "--path", str(folder), *filter(None, [scene])]


def _check_scene(folder: Path, scene: str) -> None:
    if scene.startswith("uid://") or (folder / scene.removeprefix("res://")).is_file():
        return
    scenes = [f"res://{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.tscn")]
    near = get_close_matches(scene, scenes, n=3, cutoff=0.3) or sorted(scenes)[:5]
    hint = f"There is {', '.join(near)}." if near else "It has no scenes (*.tscn)."
    raise UnityEnvironmentException(f"The Godot project {folder} has no scene {scene!r}. {hint}")


def find_godot(folder: Path, platform: str = sys.platform) -> str:
    """The engine: named by LANISTA_GODOT, on the search path, or where a platform usually has it.

    Raises:
        UnityEnvironmentException: There is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        program = find_program(str(Path(named).expanduser()), platform)
        if program is None:
            raise UnityEnvironmentException(f"{VARIABLE} is {named!r}, and that is no program. Name Godot's.")
        return program
    for program in ("godot", "godot4"):
        if (found := find_program(program, platform)) is not None:
            return found
    usual: Sequence[Path] = ()
    if platform == "darwin":
        usual = [
            Path(root, "Godot.app/Contents/MacOS/Godot").expanduser()
            for root in ("/Applications", "~/Applications")
        ]
    elif platform == "win32":
        usual = sorted({*folder.glob("Godot*.exe"), *folder.parent.glob("Godot*.exe")})
    for path in usual:
        if path.is_file():
            return str(path)
    raise UnityEnvironmentException(
        f"Godot was not found: neither godot nor godot4 is on the search path. Name it with "
        f"{VARIABLE}=PATH, or give "
        "an exported game, which brings its engine with it."
    )


@cache
def check_version(engine: str) -> None:
    """Refuse an engine that is not a Godot 4.

    Raises:
        UnityEnvironmentException: It is another version, or no Godot.
    """
    try:
        printed = subprocess.run(
            [engine, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            stdin=subprocess.DEVNULL,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnityEnvironmentException(f"{engine} cannot be asked for its version: {error}.") from error
    version = re.search(r"^(\d+)\.\d+", printed, re.MULTILINE)
    if version is None or int(version[1]) < 4:
        raise UnityEnvironmentException(
            f"{engine} is no Godot 4: it calls its version {printed[:80]!r}. Name another one with "
            f"{VARIABLE}=PATH."
        )
