"""Where the engines of a cluster's nodes reach the learner."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlagents_envs.exception import UnityEnvironmentException, UnityTimeOutException

from ... import __version__
from ..errors import ClusterError
from ..registry.registry import REGISTRY
from ..remote.address import join_address, split_address
from ..remote.handshake import AccessRules, AttachedEngine
from ..remote.server import AttachServer, ExpectedEngine
from ..remote.tls import self_signed
from ..unity.launch import HOSTED, SCENE
from .remote_engine import RemoteEngine
from .spec import EngineOrder, Order

_LOOK_SECONDS = 0.2


class Meeting:
    """A gate that lets in whom the learner expects, each with a token of its own, and nobody else.

    Args:
        own: This machine's address in the cluster.
        alone: All nodes are on this machine, and will be.
        listen: ADDRESS or ADDRESS:PORT to use in its place.

    Raises:
        ClusterError: Nobody can listen there.
    """

    def __init__(self, own: str, alone: bool, listen: str | None) -> None:
        try:
            host, port = split_address(listen, 0) if listen is not None else (None, None)
        except ValueError as error:
            raise ClusterError(f"--ray-listen: {error}") from error
        self._host = host or ("127.0.0.1" if alone else own)
        context, self._fingerprint = self_signed(self._host)
        try:
            self._gate = AttachServer(self._host, port or 0, AccessRules(tls=context))
        except OSError as error:
            raise ClusterError(
                f"Cannot listen for the nodes at {join_address(self._host, port or 0)} (--ray-listen): "
                f"{error.strerror or error}. Give an address of this machine that the nodes reach."
            ) from error
        self._gate.start()

    @contextmanager
    def expect(self, engine: EngineOrder, name: str) -> Iterator[tuple[ExpectedEngine, Order]]:
        """While open, an engine of this name is let in; with what its node is to be told."""
        with self._gate.expect(name) as expected:
            yield (
                expected,
                Order(
                    version=__version__,
                    host=self._host,
                    port=self._gate.port,
                    token=expected.token,
                    fingerprint=self._fingerprint,
                    name=name,
                    file_name=_on_the_node(engine.file_name),
                    worker_id=engine.worker_id,
                    windowless=engine.windowless,
                    additional_args=[str(argument) for argument in engine.additional_args],
                    log_folder=None if engine.log_folder is None else str(engine.log_folder.absolute()),
                ),
            )

    def close(self) -> None:
        """Let nobody in any more."""
        self._gate.close()


def arrival(expected: ExpectedEngine, engine: RemoteEngine, timeout: float, name: str) -> AttachedEngine:
    """Wait until an engine calls that a node has started.

    Raises:
        UnityEnvironmentException: It has ended before.
        HostLostError: Its node has.
        UnityTimeOutException: It did not call within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return expected.wait(_LOOK_SECONDS)
        except UnityTimeOutException:
            if engine.wait(0.0):
                raise engine.excuse() or UnityEnvironmentException(
                    f"{name}: The engine ended before it called the trainer: what it wrote may tell why. "
                    f"{engine.describe()}"
                ) from None
            if time.monotonic() >= deadline:
                raise UnityTimeOutException(
                    f"The Unity environment took too long to respond: {name} did not call within "
                    f"{timeout:g} s. {engine.describe()}"
                ) from None


def _on_the_node(file_name: str) -> str:
    """A path is the same there, whatever folder one works in."""
    if file_name.strip().startswith((SCENE, REGISTRY, HOSTED)):
        return file_name.strip()
    return str(Path(file_name.strip()).expanduser().absolute())
