"""Stands beside engines on a machine that the trainer is not on, and carries their connections to it."""

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

from ..grpc.server import accept, listen
from ..unity import ports
from ..unity.ports import EDITOR_PORT
from .forwarding import carry
from .relay_client import RefusedError, Trainer, UnreachableError
from .tls import UntrustedError

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
_LONGEST_WAIT = 0.5 if os.name == "nt" else None
"""Seconds of one wait. On Windows Ctrl-C is heard between two waits only."""
_BACKLOG_SECONDS = 1.0


class Relay:
    """Listens where engines of this machine call; each gets a connection of its own to the trainer.

    Args:
        trainer: Where to carry them.
        port: Where engines call; 0 takes a free port (see `port`).
        name: For whom they are; None for anybody.

    Raises:
        PortInUseError: Somebody else listens there.
        OSError: This user may not listen there.
    """

    def __init__(self, trainer: Trainer, port: int = EDITOR_PORT, name: str | None = None) -> None:
        self._trainer = trainer
        self._name = name
        self._listeners = ports.claim(
            partial(listen, "localhost"), port, search=False, remedy="End it, or choose another with --port."
        )
        self.port: int = self._listeners[0].getsockname()[1]
        self._bell, self._rope = socket.socketpair()
        self._stop_carrying, self._stopped = socket.socketpair()
        self._carriers: set[threading.Thread] = set()
        self._ended: SimpleQueue[threading.Thread] = SimpleQueue()
        self._count = 0
        self._refused: RefusedError | UntrustedError | None = None
        self._closed = False

    def await_trainer(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Return as soon as the trainer would let us in; how long it takes depends on when it is started.

        Raises:
            RefusedError: It does not let us in.
            UntrustedError: It is another one than we know.
        """
        told = False
        while True:
            try:
                self._trainer.try_out()
                return
            except UnreachableError as error:
                if not told:
                    logger.warning("%s. Trying again until it does (Ctrl-C ends this).", _sentence(error))
                told = True
                wait(RETRY_SECONDS)

    def serve(self, *, once: bool = False) -> None:
        """Carry engines until `close` is called, from another thread, or, with `once`, until the first ends.

        Raises:
            RefusedError: The trainer does not let this relay in any more.
            UntrustedError: There is another one now than we know.
        """
        with DefaultSelector() as selector:
            selector.register(self._bell, EVENT_READ)
            for listener in self._listeners:
                selector.register(listener, EVENT_READ, listener)
            while not self._closed:
                for key, _ in selector.select(_LONGEST_WAIT):
                    if key.data is not None:
                        self._accept(key.data)
                    else:
                        self._bell.recv(4096)
                with suppress(Empty):
                    while True:
                        self._carriers.discard(self._ended.get_nowait())
                if self._refused is not None:
                    raise self._refused
                if once and self._count and not self._carriers:
                    return

    def close(self) -> None:
        """Hang up on all engines and stop listening; `serve` returns."""
        if self._closed:
            return
        self._closed = True
        for listener in self._listeners:
            listener.close()
        with suppress(OSError):
            self._rope.send(b"!")
            self._stopped.send(b"!")
        for carrier in list(self._carriers):
            carrier.join(_BACKLOG_SECONDS)
        for end in (self._rope, self._stopped, self._stop_carrying):
            end.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            engine, where = accept(listener)
        except OSError as error:
            logger.warning("An engine could not be let in: %s.", error.strerror)
            time.sleep(0.0 if isinstance(error, ConnectionError) else RETRY_SECONDS)
            return
        self._count += 1
        carrier = threading.Thread(
            target=self._carry, args=(engine, where, self._count), name=f"carrier of {where}", daemon=True
        )
        carrier.start()
        self._carriers.add(carrier)  # behind its start: `close` waits for the end of each

    def _carry(self, engine: socket.socket, where: str, number: int) -> None:
        try:
            trainer = self._trainer.dial(self._name)
        except (RefusedError, UntrustedError, UnreachableError) as error:
            engine.close()
            logger.warning("Engine %d (%s) is turned away: %s.", number, where, error)
            if not isinstance(error, UnreachableError):
                self._refused = error
        else:
            logger.info("Engine %d (%s) is connected to %s.", number, where, self._trainer.address)
            logger.info("Engine %d (%s): %s.", number, where, carry(engine, trainer, self._stop_carrying))
        self._ended.put(threading.current_thread())
        with suppress(OSError):
            self._rope.send(b"!")


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
