"""The learner's server for the engines of a cluster's nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlagents_envs.exception import UnityEnvironmentException, UnityTimeOutException

from ..._version import __version__
from ..engines.address import join_address, split_address
from ..engines.connection import was_rejected
from ..engines.engine_errors import ErrorPolicy
from ..engines.options import HOSTED, REGISTRY, SCENE, EngineOptions
from ..errors import ClusterError
from ..godot import GODOT, is_godot
from ..godot.launch import GREETING
from ..godot.launch import KIND as GODOT_KIND
from ..godot.session import GodotSession
from ..opening import terms_for
from ..remote.expected import ExpectedEngine
from ..remote.handshake import AccessRules, AttachedEngine, GreetedEngine
from ..remote.server import AttachServer
from ..remote.tls import self_signed
from ..unity.names import PREFIX, is_unreal
from .nodes import LaunchSpec
from .remote_engine import RemoteEngine

_POLL_SECONDS = 0.2
_GODOT_GAME = GreetedEngine(GODOT_KIND, lambda stream, where: GodotSession.of_stream(stream, where, GREETING))


class Rendezvous:
    """A server that admits only the engines that the learner expects, each with its own token.

    Args:
        own: This machine's address in the cluster.
        alone: All nodes are on this machine, and will stay so.
        listen: ADDRESS or ADDRESS:PORT to use instead.

    Raises:
        ClusterError: It cannot listen there.
    """

    def __init__(self, own: str, alone: bool, listen: str | None) -> None:
        try:
            host, port = split_address(listen, 0) if listen is not None else (None, None)
        except ValueError as error:
            raise ClusterError(f"--ray-listen: {error}") from error
        self._host = host or ("127.0.0.1" if alone else own)
        context, self._fingerprint = self_signed(self._host)
        try:
            self._server = AttachServer(self._host, port or 0, AccessRules(tls=context))
        except OSError as error:
            raise ClusterError(
                f"Cannot listen for the nodes at {join_address(self._host, port or 0)} (--ray-listen): "
                f"{error.strerror or error}. Give an address of this machine that the nodes reach."
            ) from error
        self._server.start()

    @contextmanager
    def expect(self, engine: EngineOptions, name: str) -> Iterator[tuple[ExpectedEngine, LaunchSpec]]:
        """While open, admit an engine of this name; yields it and the launch specification for its node."""
        greeted = _GODOT_GAME if is_godot(engine.path) else None
        with self._server.expect(name, greeted) as expected:
            yield (
                expected,
                LaunchSpec(
                    version=__version__,
                    host=self._host,
                    port=self._server.port,
                    token=expected.token,
                    fingerprint=self._fingerprint,
                    name=name,
                    file_name=_path_on_node(str(engine.path)),
                    worker_id=engine.worker_id,
                    windowless=engine.windowless,
                    additional_args=[str(argument) for argument in engine.additional_args],
                    log_folder=None if engine.log_folder is None else str(engine.log_folder.absolute()),
                    seed=engine.seed,
                    real_time=engine.real_time,
                    allow=list(engine.allow),
                    ignores_errors=engine.errors is not None and engine.errors.policy is ErrorPolicy.IGNORE,
                ),
            )

    def close(self) -> None:
        """Stop listening."""
        self._server.close()


def await_engine(expected: ExpectedEngine, engine: RemoteEngine, options: EngineOptions) -> AttachedEngine:
    """Wait until an engine that a node has started connects.

    Raises:
        UnityEnvironmentException: It ended before.
        HostLostError: Its node is lost.
        UnityTimeOutException: It did not connect in time.
    """
    name, timeout = options.name, options.timeout_wait
    deadline = time.monotonic() + timeout
    while True:
        try:
            return expected.wait(_POLL_SECONDS)
        except UnityTimeOutException:
            if engine.wait(0.0):
                state = engine.describe()
                rejected = was_rejected(engine.rejection)
                raise engine.external_error() or UnityEnvironmentException(
                    f"{name}: The engine ended before it connected to the trainer: "
                    f"{rejected or 'its output may say why.'} {state}"
                ) from None
            if time.monotonic() >= deadline:
                terms, state = terms_for(options.path), engine.describe()
                why = was_rejected(engine.rejection) or terms.never_called
                raise UnityTimeOutException(
                    f"The {terms.name} environment took too long to respond: {name} did not connect within "
                    f"{timeout:g} s. {why} {state}"
                ) from None


def _path_on_node(file_name: str) -> str:
    """The file name on the node: absolute, as its working directory is another one."""
    prefix = GODOT if is_godot(file_name) else PREFIX if is_unreal(file_name) else ""
    path = file_name.strip().removeprefix(prefix).strip()
    if path.startswith((SCENE, REGISTRY, HOSTED)):
        return prefix + path
    path, mark, options = path.partition("?") if prefix == GODOT else (path, "", "")
    return f"{prefix}{Path(path).expanduser().absolute()}{mark}{options}"
