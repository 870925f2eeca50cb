"""Launches the engine that an environment's name means."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl

from mlagents_envs.exception import UnityEnvironmentException

from ..engines import ports
from ..engines.connection import EngineConnection
from ..engines.interfaces import EngineSession
from ..engines.listener import EngineListener
from ..engines.logs import log_at, new_log
from ..engines.options import HOSTED, SCENE, EngineOptions
from ..engines.own_program import own_program
from ..engines.process import EngineProcess, launched
from ..engines.terms import PYTHON, UNITY, Terms
from ..grpc.server import ServerSession
from .executables import check_executable, find_executable
from .logs import editor_log, player_log
from .names import PREFIX, is_unreal, is_unreal_editor
from .plugin import UNITY_PLUGIN, UNREAL_PLUGIN, Plugin

logger = logging.getLogger(__name__)


def launch(options: EngineOptions, on_exit: Callable[[], None]) -> EngineConnection:
    """Listen, and start the engine unless it is an editor.

    Args:
        options: Which engine, and how.
        on_exit: Called, from another thread, when the engine's process has ended.

    Raises:
        ValueError: An entry of `allow` is not a network.
        UnityEnvironmentException: The executable is missing or cannot be started.
        PortInUseError: The Editor's port, or the requested one, is taken.
    """
    kind = plugin_of(options.path).kind
    if is_editor(options.path):
        log = None if is_unreal(options.path) else editor_log()
        return launched(options, kind, listen, None, log)
    command = resolve(str(options.path))
    return launched(options, kind, listen, lambda port: start_engine(options, command, port, on_exit)[0])


EDITORS: dict[bytes, str | None] = {
    UNITY_PLUGIN.dialect.path: None,
    UNREAL_PLUGIN.dialect.path: PREFIX,
}
"""The name of a plug-in's editor, or of any engine that connects by itself, by its gRPC method."""


def plugin_of(file_name: str | None) -> Plugin:
    """The plug-in of the engine that a name means."""
    return UNREAL_PLUGIN if is_unreal(file_name) else UNITY_PLUGIN


def terms_of_engine(file_name: str | None) -> Terms:
    """The words for the engine that a name means: those of its plug-in, or Python's for a program in it."""
    written = (file_name or "").strip()
    in_python = written.startswith((SCENE, HOSTED)) or written.endswith(".py")
    return PYTHON if in_python else plugin_of(file_name).kind.terms


def is_editor(file_name: str | None) -> bool:
    """Whether a name means an editor, which is not launched but calls by itself."""
    return file_name is None or is_unreal_editor(file_name)


def start_engine(
    options: EngineOptions, command: list[str], port: int, on_exit: Callable[[], None] | None = None
) -> tuple[EngineProcess, Path | None]:
    """Start an engine that calls on a port of this machine.

    Args:
        options: Which engine, and how.
        command: As returned by `resolve`.
        port: The port on which it calls.
        on_exit: Called, from another thread, when its process has ended.

    Returns:
        Its process, and the log that it will write, if we know.

    Raises:
        UnityEnvironmentException: It cannot be started.
    """
    check_executable(command[0], terms=plugin_of(options.path).kind.terms)
    own = (
        None if options.log_folder is None else new_log(options.log_folder, options.worker_id, options.errors)
    )
    arguments, path = plugin_of(options.path).arguments(
        port, options.windowless, None if own is None else own.path, options.additional_args
    )
    terms = terms_of_engine(options.path)
    heard = path
    if heard is None and terms is UNITY:
        heard = player_log(Path(command[0]))
    listener = EngineListener.of(options, terms.name, heard)
    return EngineProcess([*command, *arguments], log_at(path, own), on_exit, listener), path


def listen(options: EngineOptions) -> EngineSession:
    """Listen where an engine will call.

    Raises:
        UnityEnvironmentException: There is no such port or address, or this user may not use it.
        PortInUseError: The Editor's port, or the requested one, is taken.
    """
    plugin, editor, base_port = plugin_of(options.path), is_editor(options.path), options.base_port
    first = base_port if base_port is not None else ports.EDITOR_PORT if editor else ports.FIRST_PORT
    remedy = (
        f"End it: this is the port on which {plugin.kind.terms.editor} calls."
        if editor
        else "End it, or choose another port with base_port (--base-port)."
    )
    return ports.serve(
        lambda port: _serve(port, options, plugin.dialect.path),
        options,
        first,
        search=base_port is None and not editor,
        remedy=remedy,
    )


def _serve(port: int, options: EngineOptions, path: bytes) -> EngineSession:
    if options.transport == "lean":
        return ServerSession.listen(port, options.listen, path)
    from ..grpc.grpcio_server import GrpcioSession  # loads grpcio, which takes time and threads

    return GrpcioSession.listen(port, options.listen, path)


def resolve(file_name: str, platform: str = sys.platform) -> list[str]:
    """The start of the command line for an environment.

    It is an executable, a scene such as `scene:ball3d?areas=4`, a Python program `NAME.py`, or an environment
    in Python that is to be hosted; the last three are run by the Python that runs us. Before any of them may
    stand `unreal:`. `registry.resolve_registered` comes before this.

    Raises:
        UnityEnvironmentException: There is no such executable, or the scene's name cannot be read.
    """
    plugin = plugin_of(file_name)
    file_name = file_name.strip().removeprefix(PREFIX).strip()
    if file_name.startswith(SCENE):
        return own_program("lanista.envs.scenes", *scene_words(file_name))
    if file_name.startswith(HOSTED):
        return own_program("lanista.envs.hosting", file_name[len(HOSTED) :])
    path = Path(file_name).expanduser()
    if path.suffix == ".py" and path.is_file():
        return [sys.executable, str(path.absolute())]
    return [find_executable(file_name, platform, plugin)]


def scene_words(file_name: str) -> list[str]:
    """The name of `scene:NAME?key=value`, and its options as an executable would get them.

    Raises:
        UnityEnvironmentException: It cannot be read.
    """
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
    return [name, *(part for key, value in settings for part in (f"--{key.replace('_', '-')}", value))]
