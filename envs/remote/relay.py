"""A relay: forwards the connections of engines on this machine to a trainer on another one."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from typing import TypeVar

from ..engines import ports
from ..engines.address import join_address
from ..engines.clients import ClientRules
from ..engines.limits import RejectionLog
from ..engines.listening import accept, has_hung_up, listen
from ..engines.ports import EDITOR_PORT
from .forwarding import configure_keepalive, forward
from .preamble import MAX_LINE, Preamble, PreambleError, Refusal, decode_answer
from .tls import TlsStream, UntrustedError, check_fingerprint

DIAL_SECONDS = 10.0
"""Seconds for each step until an engine's bytes can flow."""


RETRY_SECONDS = 2.0
"""Seconds between two attempts, unless the trainer says when."""
_LONGEST_WAIT = 15.0
"""The most seconds between two attempts, whatever the trainer says."""
PATIENCE_SECONDS = 60.0
"""Seconds that an engine waits for a trainer that is there but does not admit the relay yet."""

T = TypeVar("T")


class RelayRejectedError(Exception):
    """The trainer rejects this relay, and will again; the message is its reason."""


class UnreachableError(Exception):
    """Nothing answers there, or it is not a trainer; the message says what happened."""


class TryLaterError(UnreachableError):
    """The trainer is there but does not admit this relay now, as when others flood it or guess tokens.

    Args:
        message: What happened.
        seconds: When to try again.
    """

    def __init__(self, message: str, seconds: float = RETRY_SECONDS) -> None:
        super().__init__(message)
        self.seconds = min(max(seconds, 1.0), _LONGEST_WAIT)


def until_admitted(attempt: Callable[[], T], wait: Callable[[TryLaterError], bool]) -> T:
    """What an attempt returns, which is repeated while the trainer does not admit this relay yet.

    Args:
        attempt: Calls the trainer.
        wait: Waits as long as an error says; returns whether to go on.

    Raises:
        TryLaterError: The trainer has not within `PATIENCE_SECONDS`, or `wait` says to stop.
        Exception: Other errors of `attempt`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return attempt()
        except TryLaterError as later:
            if time.monotonic() + later.seconds > deadline or not wait(later):
                raise


@dataclass(frozen=True)
class RemoteTrainer:
    """A trainer's address, how its identity is checked, and the token for it."""

    host: str
    port: int
    token: str = field(repr=False)
    context: ssl.SSLContext = field(repr=False)
    """The TLS context, made by `tls.client_context`."""
    fingerprint: str | None = None
    """The fingerprint of the trainer's certificate, if that is how its identity is checked."""

    @property
    def address(self) -> str:
        """The trainer's address as users write it."""
        return join_address(self.host, self.port)

    def probe(self, name: str | None = None) -> None:
        """Check whether an engine of this name would be admitted. Raises the errors of `dial`."""
        self._dial(Preamble(self.token, name, probe=True)).close()

    def dial(self, name: str | None = None) -> TlsStream:
        """Open a non-blocking connection for an engine's bytes.

        Args:
            name: The name under which the engine is expected; None if it is not expected by name.

        Raises:
            RelayRejectedError: The trainer rejects this relay.
            UntrustedError: The trainer's certificate is not the expected one.
            TryLaterError: The trainer does not admit the relay yet.
            UnreachableError: Nothing answers, or it is not a trainer.
        """
        stream = TlsStream(encrypted := self._dial(Preamble(self.token, name)))
        encrypted.setblocking(False)
        return stream

    def _dial(self, preamble: Preamble) -> ssl.SSLSocket:
        try:
            plain = socket.create_connection((self.host, self.port), DIAL_SECONDS)
        except OSError as error:
            raise _unreachable(f"no trainer answers at {self.address}", error) from error
        try:
            configure_keepalive(plain, always_read=False)
            encrypted = self._encrypt(plain)
        except BaseException:
            plain.close()
            raise
        try:
            encrypted.sendall(preamble.encode())
            refusal = decode_answer(_read_line(encrypted))
        except (OSError, PreambleError) as error:
            encrypted.close()
            raise _unreachable(f"{self.address} does not answer as a trainer does", error) from error
        if refusal is not None:
            encrypted.close()
            raise self._rejected(refusal)
        return encrypted

    def _rejected(self, refusal: Refusal) -> RelayRejectedError | TryLaterError:
        if refusal.seconds is None:
            return RelayRejectedError(refusal.reason)
        why = f"the trainer at {self.address} does not admit relays from this address yet: {refusal.reason}"
        return TryLaterError(why, refusal.seconds)

    def _encrypt(self, plain: socket.socket) -> ssl.SSLSocket:
        try:
            encrypted = self.context.wrap_socket(plain, server_hostname=self.host)
        except ssl.SSLCertVerificationError as error:
            raise UntrustedError(
                f"its certificate is not trusted here ({error.verify_message.rstrip('.')}); give "
                "--fingerprint as the trainer prints it, or --ca with the certificate that signed it"
            ) from error
        except (OSError, ValueError) as error:
            raise _unreachable(
                f"{self.address} does not speak TLS, as a trainer with --listen and --token-file does", error
            ) from error
        if self.fingerprint is not None:
            try:
                check_fingerprint(encrypted, self.fingerprint)
            except UntrustedError:
                with suppress(OSError):
                    encrypted.close()
                raise
        return encrypted


def _read_line(encrypted: ssl.SSLSocket) -> bytes:
    """Read the trainer's answer, byte by byte: what follows belongs to the engine."""
    line = b""
    while not line.endswith(b"\n"):
        more = encrypted.recv(1)
        if not more:
            raise ConnectionAbortedError("it disconnected; its log says why")
        if len(line) > MAX_LINE:
            raise PreambleError("its answer is too long")
        line += more
    return line[:-1]


def _unreachable(what: str, error: Exception) -> UnreachableError:
    """The error for what went wrong: a trainer that is flooded answers late, or drops a connection."""
    overloaded = isinstance(error, TimeoutError | ssl.SSLEOFError | ssl.SSLZeroReturnError) or (
        isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
    )
    return (TryLaterError if overloaded else UnreachableError)(f"{what}: {_cause(error)}")


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing arrived within {DIAL_SECONDS:g} s"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)


logger = logging.getLogger(__name__)

_MAX_WAIT_SECONDS = 0.5 if os.name == "nt" else None
"""Seconds of one wait. On Windows Ctrl-C takes effect between two waits only."""
_JOIN_SECONDS = 1.0
_MAX_WAITING = 64
"""The most engines that wait until the trainer admits them; each takes a thread."""


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
        self.client_rules = ClientRules()
        """The rules for who may connect."""
        self._rejections = RejectionLog(f" from port {self.port}")
        self._admitted = False
        """Whether the trainer has admitted this relay: from then on no refusal ends it and its engines."""
        self._refused: RelayRejectedError | UntrustedError | None = None
        self._places = threading.Semaphore(_MAX_WAITING)
        self._closed = False

    def await_trainer(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Wait until the trainer would admit this relay, as long as it takes the trainer to start.

        Raises:
            RelayRejectedError: The trainer rejects this relay.
            UntrustedError: The trainer's certificate is not the expected one.
        """
        logged: set[type[Exception]] = set()
        while True:
            try:
                self._trainer.probe()
                self._admitted = True
                return
            except UnreachableError as error:
                if type(error) not in logged:
                    logger.warning("%s. Trying again until it does (Ctrl-C stops).", _sentence(error))
                logged.add(type(error))
                wait(error.seconds if isinstance(error, TryLaterError) else RETRY_SECONDS)

    def serve(self, *, once: bool = False) -> None:
        """Forward engines until `close` is called from another thread, or with `once` until all have ended.

        Raises:
            RelayRejectedError: The trainer rejects this relay, and has never admitted it.
            UntrustedError: The same, because its certificate is not the expected one.
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

    @property
    def rejection(self) -> str:
        """Why the last program that may not be an engine was turned away; empty if none was."""
        return self._rejections.last

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
        if refusal := self.client_rules.rejection_reason((host, int(port)), self.port):
            self._rejections.log(host, where, refusal)
            engine.close()
            return
        self._count += 1
        thread = threading.Thread(
            target=self._forward, args=(engine, where, self._count), name=f"thread of {where}", daemon=True
        )
        thread.start()
        self._threads.add(thread)  # after its start: `close` joins each

    def _dial(self, engine: socket.socket, who: str) -> TlsStream:
        """Dial the trainer for an engine, which waits while the trainer does not admit it yet."""
        waits = False

        def wait(later: TryLaterError) -> bool:
            nonlocal waits
            if not self._places.acquire(blocking=False):
                return False
            try:
                if not waits:
                    logger.warning("%s waits: %s.", who, later)
                waits = True
                return not self._stops_within(later.seconds) and not has_hung_up(engine)
            finally:
                self._places.release()

        return until_admitted(lambda: self._trainer.dial(self._name), wait)

    def _stops_within(self, seconds: float) -> bool:
        """Wait until `close` is called, at most so many seconds; return whether it was."""
        with suppress(OSError, ValueError), DefaultSelector() as selector:  # closed meanwhile
            selector.register(self._stop_forwarding, EVENT_READ)
            selector.select(seconds)
        return self._closed

    def _forward(self, engine: socket.socket, where: str, number: int) -> None:
        try:
            trainer = self._dial(engine, f"Engine {number} ({where})")
        except (RelayRejectedError, UntrustedError, UnreachableError) as error:
            engine.close()
            logger.warning("Engine %d (%s) is rejected: %s.", number, where, error)
            if isinstance(error, UnreachableError):
                pass  # the next engine may find the trainer
            elif self._admitted:
                logger.warning(
                    "The trainer has admitted this relay before, so the relay continues. If another trainer "
                    "listens there now, restart the relay with that one's token and fingerprint."
                )
            else:
                self._refused = error
        else:
            self._admitted = True
            logger.info("Engine %d (%s) is connected to %s.", number, where, self._trainer.address)
            logger.info("Engine %d (%s): %s.", number, where, forward(engine, trainer, self._stop_forwarding))
        self._ended.put(threading.current_thread())
        with suppress(OSError):
            self._wakeup_sender.send(b"!")


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
