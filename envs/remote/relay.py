"""A relay: forwards the connections of engines on this machine to a trainer on another one."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from selectors import EVENT_READ, DefaultSelector

from ..callers.rejection_log import RejectionLog
from ..callers.rules import CallerRules
from ..engines import ports
from ..engines.ports import EDITOR_PORT
from ..grpc.listeners import accept, listen
from .forwarding import forward
from .relay_client import RelayRejectedError, RemoteTrainer, UnreachableError
from .tls import UntrustedError

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
_MAX_WAIT_SECONDS = 0.5 if os.name == "nt" else None
"""Seconds of one wait. On Windows Ctrl-C takes effect between two waits only."""
_JOIN_SECONDS = 1.0


class Relay:
    """Listens for engines on this machine; each gets its own connection to the trainer.

    Args:
        trainer: The trainer.
        port: Where engines connect; 0 takes a free port (see `port`).
        name: The name under which the trainer expects them; None if it does not expect them by name.

    Raises:
        AddressInUseError: Another process listens there.
        OSError: This user may not listen there.
    """

    def __init__(self, trainer: RemoteTrainer, port: int = EDITOR_PORT, name: str | None = None) -> None:
        self._trainer = trainer
        self._name = name
        self._listeners = ports.claim(
            partial(listen, "localhost"), port, search=False, remedy="End it, or choose another with --port."
        )
        self.port: int = self._listeners[0].getsockname()[1]
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._stop_forwarding, self._stopped = socket.socketpair()
        self._threads: set[threading.Thread] = set()
        self._ended: SimpleQueue[threading.Thread] = SimpleQueue()
        self._count = 0
        self.callers = CallerRules()
        """Who may connect."""
        self._rejections = RejectionLog(f" from port {self.port}")
        self._refused: RelayRejectedError | UntrustedError | None = None
        self._closed = False

    def await_trainer(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Wait until the trainer would admit this relay, as long as it takes the trainer to start.

        Raises:
            RelayRejectedError: The trainer rejects this relay.
            UntrustedError: The trainer's certificate is not the expected one.
        """
        logged = False
        while True:
            try:
                self._trainer.probe()
                return
            except UnreachableError as error:
                if not logged:
                    logger.warning("%s. Trying again until it does (Ctrl-C stops).", _sentence(error))
                logged = True
                wait(RETRY_SECONDS)

    def serve(self, *, once: bool = False) -> None:
        """Forward engines until `close` is called from another thread, or with `once` until all have ended.

        Raises:
            RelayRejectedError: The trainer does not admit this relay any more.
            UntrustedError: The trainer's certificate is no longer the expected one.
        """
        with DefaultSelector() as selector:
            selector.register(self._wakeup_receiver, EVENT_READ)
            for listener in self._listeners:
                selector.register(listener, EVENT_READ, listener)
            while not self._closed:
                for key, _ in selector.select(_MAX_WAIT_SECONDS):
                    if key.data is not None:
                        self._accept(key.data)
                    else:
                        self._wakeup_receiver.recv(4096)
                with suppress(Empty):
                    while True:
                        self._threads.discard(self._ended.get_nowait())
                if self._refused is not None:
                    raise self._refused
                if once and self._count and not self._threads:
                    return

    def close(self) -> None:
        """Disconnect all engines and stop listening; `serve` returns."""
        if self._closed:
            return
        self._closed = True
        for listener in self._listeners:
            listener.close()
        with suppress(OSError):
            self._wakeup_sender.send(b"!")
            self._stopped.send(b"!")
        for thread in list(self._threads):
            thread.join(_JOIN_SECONDS)
        for end in (self._wakeup_sender, self._stopped, self._stop_forwarding):
            end.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            engine, where = accept(listener)
        except OSError as error:
            logger.warning("An engine could not be accepted: %s.", error.strerror)
            time.sleep(0.0 if isinstance(error, ConnectionError) else RETRY_SECONDS)
            return
        host, _, port = where.rpartition(":")
        if refusal := self.callers.why_not((host, int(port)), self.port):
            self._rejections.log(host, where, refusal)
            engine.close()
            return
        self._count += 1
        thread = threading.Thread(
            target=self._forward, args=(engine, where, self._count), name=f"thread of {where}", daemon=True
        )
        thread.start()
        self._threads.add(thread)  # after its start: `close` joins each

    def _forward(self, engine: socket.socket, where: str, number: int) -> None:
        try:
            trainer = self._trainer.dial(self._name)
        except (RelayRejectedError, UntrustedError, UnreachableError) as error:
            engine.close()
            logger.warning("Engine %d (%s) is rejected: %s.", number, where, error)
            if not isinstance(error, UnreachableError):
                self._refused = error
        else:
            logger.info("Engine %d (%s) is connected to %s.", number, where, self._trainer.address)
            logger.info("Engine %d (%s): %s.", number, where, forward(engine, trainer, self._stop_forwarding))
        self._ended.put(threading.current_thread())
        with suppress(OSError):
            self._wakeup_sender.send(b"!")


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
