"""From an environment's name to a running engine."""

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl

from mlagents_envs.exception import UnityEnvironmentException

from ..engines import ports
from ..engines.address import THIS_MACHINE, AllowedNetworks
from ..engines.clients import ClientRules
from ..engines.connection import EngineConnection, EngineSession
from ..engines.logs import log_at, new_log
from ..engines.own_program import own_program
from ..engines.process import EngineProcess
from ..engines.reaper import REAPER
from ..grpc.server import ServerSession
from .executables import check_executable, find_executable
from .names import PREFIX, is_unreal, is_unreal_editor
from .plugin import UNITY_PLUGIN, UNREAL_PLUGIN, Plugin

logger = logging.getLogger(__name__)

SCENE = "scene:"
"""The prefix of Lanista's own scenes."""

HOSTED = "hosted:"
"""The prefix of environments in Python that run as an engine: `hosted:gymnasium:CartPole-v1`."""


Transport = Literal["lean", "grpcio"]
"""The gRPC server that engines call: Lanista's own, or grpcio's."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Which engine to launch, and how."""

    file_name: str | None
    """The executable or scene; None for the Editor, `unreal:` for Unreal's."""
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
    """The environment's name in messages."""
    transport: Transport = "lean"
    """Which gRPC server the engine calls."""
    networks: AllowedNetworks = THIS_MACHINE
    """From where it may call besides this machine."""

    def __call__(self, on_exit: Callable[[], None]) -> EngineConnection:
        """Listen, and start the engine unless it is the Editor.

        Args:
            on_exit: Called, from another thread, when the engine's process has ended.

        Raises:
            UnityEnvironmentException: The executable is missing or cannot be started.
            PortInUseError: The Editor's port, or the requested one, is taken.
        """
        kind = plugin_of(self.file_name).kind
        start = None if is_editor(self.file_name) else resolve(str(self.file_name))
        session = listen(
            self.worker_id,
            self.base_port,
            self.listen,
            file_name=self.file_name,
            name=self.name,
            transport=self.transport,
        )
        session.client_rules = ClientRules(self.networks)
        process = None
        if start is None:
            logger.info(
                "Listening on port %d. Start training by pressing the Play button in the %s Editor.",
                session.port,
                kind.name,
            )
        else:
            try:
                process = self._start(start, session.port, on_exit)
            except BaseException:
                session.close()
                raise
            session.client_rules = ClientRules(self.networks, process.pid, REAPER.mark)
        return EngineConnection(session, process, self.timeout, self.name, kind, windowless=self.windowless)

    def _start(self, start: list[str], port: int, on_exit: Callable[[], None]) -> EngineProcess:
        engine, _ = start_engine(
            plugin_of(self.file_name),
            start,
            port,
            self.worker_id,
            self.log_folder,
            windowless=self.windowless,
            additional_args=self.additional_args,
            on_exit=on_exit,
        )
        return engine


EDITORS: dict[bytes, str | None] = {
    UNITY_PLUGIN.dialect.path: None,
    UNREAL_PLUGIN.dialect.path: PREFIX,
}
"""For each plug-in's gRPC method the name of its editor, or of any engine that connects by itself."""


def plugin_of(file_name: str | None) -> Plugin:
    """The plug-in of the engine that a name means."""
    return UNREAL_PLUGIN if is_unreal(file_name) else UNITY_PLUGIN


def is_editor(file_name: str | None) -> bool:
    """Whether a name means an editor, which is not launched but calls by itself."""
    return file_name is None or is_unreal_editor(file_name)


def start_engine(
    plugin: Plugin,
    command: list[str],
    port: int,
    worker_id: int,
    log_folder: Path | None,
    *,
    windowless: bool,
    additional_args: Sequence[str],
    on_exit: Callable[[], None] | None = None,
) -> tuple[EngineProcess, Path | None]:
    """Start an engine that calls on a port of this machine.

    Args:
        plugin: Its plug-in.
        command: As returned by `resolve`.
        port: The port on which it calls.
        worker_id: Which of several environments it is; it names the log.
        log_folder: Where its log goes, and that of the engine before is kept; made if it is missing.
        windowless: Launch it without a window.
        additional_args: More arguments for it.
        on_exit: Called, from another thread, when its process has ended.

    Returns:
        Its process, and the log that it will write, if we know.

    Raises:
        UnityEnvironmentException: It cannot be started.
    """
    check_executable(command[0])
    own = None if log_folder is None else new_log(log_folder, worker_id)
    options, path = plugin.arguments(port, windowless, None if own is None else own.path, additional_args)
    return EngineProcess([*command, *options], log_at(path, own), on_exit), path


def listen(
    worker_id: int,
    base_port: int | None,
    address: str,
    *,
    file_name: str | None,
    name: str = "",
    transport: Transport = "lean",
) -> EngineSession:
    """Listen where an engine will call.

    Args:
        worker_id: Which of several environments it is; added to the port.
        base_port: The port of worker 0; None for the Editor's, or the first free one.
        address: The address on which to listen.
        file_name: What will call; as `Launch.file_name`.
        name: The environment's name in messages.
        transport: Which gRPC server the engine calls.

    Raises:
        UnityEnvironmentException: There is no such port or address, or this user may not use it.
        PortInUseError: The Editor's port, or the requested one, is taken.
    """
    plugin, editor = plugin_of(file_name), is_editor(file_name)
    first = base_port if base_port is not None else ports.EDITOR_PORT if editor else ports.FIRST_PORT
    remedy = (
        f"End it: this is the port on which the {plugin.kind.name} Editor calls."
        if editor
        else "End it, or choose another port with base_port (--base-port)."
    )
    return ports.serve(
        lambda port: _serve(port, address, transport, plugin.dialect.path),
        first + worker_id,
        address,
        search=base_port is None and not editor,
        worker_id=worker_id,
        name=name or f"environment {worker_id}",
        remedy=remedy,
    )


def _serve(port: int, address: str, transport: Transport, path: bytes) -> EngineSession:
    if transport == "lean":
        return ServerSession.listen(port, address, path)
    from ..grpc.grpcio_server import GrpcioSession  # loads grpcio, which takes time and threads

    return GrpcioSession.listen(port, address, path)


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
