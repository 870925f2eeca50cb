"""On a node: brings an engine up beside a relay, and knows what became of it. Runs within a Ray actor."""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path
from typing import Any

from mlagents_envs.exception import UnityException

from ... import __version__
from ..remote.relay import Relay
from ..remote.relay_client import RelayRejectedError, RemoteTrainer, UnreachableError
from ..remote.tls import UntrustedError, client_context
from ..unity.executables import check_executable
from ..unity.launch import resolve, start_engine, with_registered
from ..unity.process import EngineProcess
from .spec import Order

logger = logging.getLogger(__name__)

PARTING_SECONDS = 10.0
"""What an engine has to end by itself once its connection is gone."""
_LAST_BREATH = 2.0
"""What an engine whose connection is gone has to end, so that its exit code can be told."""


class HostError(Exception):
    """The engine cannot be brought up here; the message says why."""


class Host:
    """One engine and its relay.

    Args:
        order: What to bring up.

    Raises:
        HostError: This node cannot; nothing is left behind.
    """

    def __init__(self, order: Order) -> None:
        trainer = check(order)
        self._relay = Relay(trainer, 0, order.name)
        self.log: Path | None = None
        try:
            self._engine = self._start(order)
        except (UnityException, OSError) as error:
            self._relay.close()
            raise HostError(str(error)) from error
        threading.Thread(target=self._serve, name="relay", daemon=True).start()

    def _start(self, order: Order) -> EngineProcess:
        folder = None if order.log_folder is None else _writable(Path(order.log_folder))
        engine, self.log = start_engine(
            *(resolve(order.file_name), self._relay.port, order.worker_id, folder),
            windowless=order.windowless,
            additional_args=with_registered(order.file_name, order.additional_args),
        )
        return engine

    def _serve(self) -> None:
        try:
            self._relay.serve(once=True)
        except (RelayRejectedError, UntrustedError) as error:
            logger.warning("%s", error)
        self._relay.close()
        if not self._engine.wait(PARTING_SECONDS):
            self._engine.kill()

    def report(self) -> dict[str, Any]:
        """How the engine is; it has a moment to end, since this is asked when its connection is gone."""
        self._engine.wait(_LAST_BREATH)
        return self._report()

    def await_end(self) -> dict[str, Any]:
        """How the engine ended, once it has."""
        while not self._engine.wait(3600.0):
            pass
        return self._report()

    def end(self) -> None:
        """End the engine at once."""
        self._engine.kill()
        self._relay.close()

    def _report(self) -> dict[str, Any]:
        return {"returncode": self._engine.returncode, "text": self._engine.describe()}


def check(order: Order) -> RemoteTrainer:
    """Whether this node can bring the engine up and reach the learner.

    Returns:
        The learner, as relays know it.

    Raises:
        HostError: It cannot; the message says why.
    """
    if order.version != __version__:
        raise HostError(
            f"it has Lanista {__version__}, and the learner {order.version}: install the same version on both"
        )
    try:
        check_executable(resolve(order.file_name)[0])
    except UnityException as error:
        raise HostError(str(error)) from error
    context = client_context(pinned=True)
    trainer = RemoteTrainer(order.host, order.port, order.token, context, order.fingerprint)
    try:
        trainer.probe(order.name)
    except (RelayRejectedError, UntrustedError, UnreachableError) as error:
        raise HostError(
            f"it does not reach the learner: {error}. Let its firewall pass that port, or name an address "
            "that the nodes reach (--ray-listen)"
        ) from error
    return trainer


def _writable(folder: Path) -> Path:
    """The folder, made; one of its own under the system's for temporary files where that is not allowed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="lanista-"))
