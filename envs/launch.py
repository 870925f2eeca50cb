"""From what the user names as environment to a running engine."""

import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import parse_qsl

from mlagents_envs.exception import UnityEnvironmentException

from . import ports
from .connection import EngineConnection
from .process import EngineProcess
from .wire.endpoint import TrainerEndpoint

logger = logging.getLogger(__name__)

SCENE = "scene:"
"""How the names of Lanista's own scenes begin."""

_SUFFIXES = (".x86_64", ".x86", ".app", ".exe")
_PLATFORMS = {".x86_64": "Linux", ".x86": "Linux", ".app": "macOS", ".exe": "Windows"}


@dataclass(frozen=True, slots=True)
class Launch:
    """What engine to bring up, and how."""

    file_name: str | None
    """The executable or scene; None for the Editor."""
    worker_id: int
    base_port: int | None
    """The port of worker 0; None leaves the choice to Lanista."""
    listen: str
    """The address on which the engine calls."""
    windowless: bool
    additional_args: tuple[str, ...]
    log_folder: Path | None
    timeout: float
    """Seconds that the engine has for each answer."""
    name: str
    """How messages call the environment."""

    def __call__(self, on_exit: Callable[[], None]) -> EngineConnection:
        """Listen, and start the engine unless it is the Editor.

        Args:
            on_exit: Called, from another thread, when the engine's process has ended.

        Raises:
            UnityEnvironmentException: The executable is missing or cannot be started.
            PortInUseError: The Editor's port, or the one that was asked for, is taken.
        """
        start = [] if self.file_name is None else resolve(self.file_name)
        endpoint = self._listen()
        process = None
        if self.file_name is None:
            logger.info(
                "Listening on port %d. Start training by pressing the Play button in the Unity Editor.",
                endpoint.port,
            )
        else:
            try:
                process = self._start(start, endpoint.port, on_exit)
            except BaseException:
                endpoint.close()
                raise
        return EngineConnection(endpoint, process, self.timeout, self.name)

    def _listen(self) -> TrainerEndpoint:
        first = self.base_port
        if first is None:
            first = ports.EDITOR_PORT if self.file_name is None else ports.FIRST_PORT
        remedy = (
            "End it: this is the port on which the Unity Editor calls."
            if self.file_name is None
            else "End it, or choose another port with base_port (--base-port)."
        )
        try:
            return ports.claim(
                lambda port: TrainerEndpoint(port, self.listen),
                first + self.worker_id,
                search=self.base_port is None and self.file_name is not None,
                worker_id=self.worker_id,
                remedy=remedy,
            )
        except PermissionError as error:
            raise UnityEnvironmentException(
                f"{self.name}: this user may not listen there: {error.strerror} (base_port, --base-port)."
            ) from error
        except OSError as error:
            raise UnityEnvironmentException(
                f"{self.name}: cannot listen on the address {self.listen!r}: {error}. Give localhost, an "
                "address of this machine, or 0.0.0.0 for all of them."
            ) from error

    def _start(self, start: list[str], port: int, on_exit: Callable[[], None]) -> EngineProcess:
        check_executable(start[0])
        log_file = None
        if self.log_folder is not None:
            self.log_folder.mkdir(parents=True, exist_ok=True)
            log_file = self.log_folder / f"Player-{self.worker_id}.log"
        options, log_file = arguments(port, self.windowless, log_file, self.additional_args)
        return EngineProcess([*start, *options], log_file, on_exit)


def resolve(file_name: str, platform: str = sys.platform) -> list[str]:
    """The start of the command line for an environment: an executable, a scene such as
    `scene:ball3d?areas=4`, or a Python program `NAME.py`, which the same Python runs as we are run by.

    Raises:
        UnityEnvironmentException: There is no such executable, or the scene's name cannot be read.
    """
    file_name = file_name.strip()
    if file_name.startswith(SCENE):
        return _scene_command(file_name)
    path = Path(file_name).expanduser()
    if path.suffix == ".py" and path.is_file():
        return [sys.executable, str(path.absolute())]
    return [find_executable(file_name, platform)]


def arguments(
    port: int, no_graphics: bool, log_file: Path | None, additional: Sequence[str]
) -> tuple[list[str], Path | None]:
    """The arguments that a Unity executable gets, and the log file it will write, if we know.

    A `-logFile` among the additional arguments wins over `log_file`.
    """
    additional = [str(argument) for argument in additional]
    command = ["-nographics", "-batchmode"] if no_graphics else []
    command += ["--mlagents-port", str(port)]
    given = [index for index, argument in enumerate(additional) if argument.lower() == "-logfile"]
    if given:
        value = additional[given[-1] + 1 : given[-1] + 2]
        # "-" means the standard output, whose end is kept anyway.
        log_file = Path(value[0]) if value and value[0] != "-" else None
    elif log_file is not None:
        command += ["-logFile", str(log_file)]
    return command + additional, log_file


def find_executable(file_name: str, platform: str = sys.platform) -> str:
    """The program that `file_name` means on this platform; the suffix may be left out.

    On Linux `NAME.x86_64`, `NAME.x86` or `NAME`; on macOS the program inside `NAME.app`, or `NAME`; on
    Windows `NAME.exe` or the only program in the folder `NAME`.

    Raises:
        UnityEnvironmentException: Nothing fits; the message tells what was looked for and what is there.
    """
    path = Path(file_name).expanduser()
    stem = path.with_suffix("") if path.suffix in _SUFFIXES else path
    candidates = _candidates(path, stem, platform)
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate.absolute())
    raise UnityEnvironmentException(
        f"Couldn't launch the {stem.name} environment. Provided filename does not match any environments: "
        f"{file_name!r}. {_hint(path, stem, platform)} Looked for "
        f"{', '.join(str(candidate) for candidate in candidates)} in {Path.cwd()}."
    )


def _scene_command(file_name: str) -> list[str]:
    name, _, query = file_name[len(SCENE) :].partition("?")
    try:
        settings = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        settings = [("", "")]
    if not name or not all(key for key, _ in settings):
        raise UnityEnvironmentException(
            f"The environment {file_name!r} cannot be read as a scene; write 'scene:NAME' or "
            "'scene:NAME?key=value&key=value'. `lanista scenes list` lists the names."
        )
    options = [part for key, value in settings for part in (f"--{key}", value)]
    return [sys.executable, "-m", "lanista.envs.scenes", name, *options]


def _with(stem: Path, suffix: str) -> Path:
    # Not with_suffix, which would take "Game.v2" for a Game with the suffix ".v2".
    return stem.with_name(stem.name + suffix)


def _candidates(path: Path, stem: Path, platform: str) -> list[Path]:
    """What the name may mean, the likeliest first."""
    if platform.startswith("linux"):
        named = [path] if path.suffix in (".x86_64", ".x86") else []
        return [*named, _with(stem, ".x86_64"), _with(stem, ".x86"), stem]
    if platform == "darwin":
        programs = _with(stem, ".app") / "Contents" / "MacOS"
        return [programs / stem.name, *sorted(programs.glob("*")), stem]
    if platform == "win32":
        inside = sorted(stem.glob("*.exe")) if stem.is_dir() else []
        return [_with(stem, ".exe"), *(p for p in inside if not p.name.startswith("UnityCrashHandler"))]
    raise UnityEnvironmentException(
        f"Environments cannot be launched on the platform {platform!r}, only on Linux, macOS and Windows."
    )


def _hint(path: Path, stem: Path, platform: str) -> str:
    """What is there in place of what was meant."""
    own = {"darwin": "macOS", "win32": "Windows"}.get(platform, "Linux")
    if path.exists() and _PLATFORMS.get(path.suffix, own) != own:
        return f"That is a build for {_PLATFORMS[path.suffix]}; make one for {own} in Unity's build settings."
    folder = stem if stem.is_dir() else stem.parent
    if not folder.is_dir():
        return f"There is no folder {folder}."
    programs = sorted(entry.name for entry in folder.iterdir() if _PLATFORMS.get(entry.suffix) == own)
    if stem.is_dir() and programs:
        return f"That is a folder; it holds {', '.join(programs[:5])}: name one of them."
    near = get_close_matches(path.name, (entry.name for entry in folder.iterdir()), n=3) or programs[:5]
    return f"There is {', '.join(near)}." if near else f"No {own} build is in {folder}."


def check_executable(program: str) -> None:
    """Refuse a program that the user may not execute.

    Raises:
        UnityEnvironmentException: Its permissions do not allow it.
    """
    if not os.access(program, os.X_OK):
        raise UnityEnvironmentException(
            "Error when trying to launch environment - make sure permissions are set correctly: "
            f'{program} is not executable. For example "chmod -R 755 {program}".'
        )
