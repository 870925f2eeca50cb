"""A relay: forwards the connections of engines on this machine to a trainer on another one."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from selectors import EVENT_READ, DefaultSelector
from typing import TypeVar

from ..engines import ports
from ..engines.address import join_address
from ..engines.callers import MAX_CALLERS, Caller, Callers, UnwantedError
from ..engines.clients import ClientRules
from ..engines.listening import has_hung_up, listen
from ..engines.ports import EDITOR_PORT
from ..grpc.calls import UnaryServer
from ..grpc.frames import PREFACE, Http2Error
from ..grpc.server import refuse_oldest_unity
from .forwarding import configure_keepalive, forward
from .handshake import why_ended
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

_JOIN_SECONDS = 1.0
_MAX_DIALING = 64
"""The most engines for which the trainer is dialed at the same time; each takes a thread."""
_BEGINNING_SECONDS = 20.0
"""Seconds that a caller may take until the trainer is dialed for it."""


class Relay:
    """Listens for engines on this machine; each gets its own connection to the trainer.

    Whoever calls costs neither a thread nor a connection to the trainer before it has begun to speak gRPC.

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
        listeners = ports.claim(
            partial(listen, "localhost", backlog=MAX_CALLERS),
            port,
            search=False,
            remedy="End it, or choose another with --port.",
        )
        self._callers = Callers(listeners, _BEGINNING_SECONDS, 1 << 16, self._is_begun, self._turn_away)
        self.port = self._callers.port
        self.is_greeted = False
        """Whether the trainer speaks first, so that engines say nothing before it is dialed."""
        self._stop_forwarding, self._stopped = socket.socketpair()
        self._threads: set[threading.Thread] = set()
        self._ended: SimpleQueue[threading.Thread] = SimpleQueue()
        self._count = 0
        self._ready: deque[Caller] = deque()
        """Those who have begun and wait until fewer others dial."""
        self._places = threading.Semaphore(_MAX_DIALING)
        self._has_served = False
        """Whether an engine has been connected to the trainer, or the one that was started has failed."""
        self._admitted = False
        """Whether the trainer has admitted this relay: from then on no refusal ends it and its engines."""
        self._refused: RelayRejectedError | UntrustedError | None = None
        self._serving = threading.Lock()
        self._closed = False

    @property
    def client_rules(self) -> ClientRules:
        """The rules for who may connect."""
        return self._callers.client_rules

    @client_rules.setter
    def client_rules(self, rules: ClientRules) -> None:
        self._callers.client_rules = rules

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
        with self._serving:
            while not self._closed:
                self._ready.extend(self._callers.wait(self._ready[0].deadline if self._ready else None))
                self._start_ready()
                with suppress(Empty):
                    while True:
                        self._threads.discard(self._ended.get_nowait())
                if self._refused is not None:
                    raise self._refused
                if once and self._has_served and not self._threads:
                    return

    @property
    def rejection(self) -> str:
        """Why the last program that may not be an engine was turned away; empty if none was."""
        return self._callers.acceptor.rejection

    def close(self) -> None:
        """Disconnect all engines and stop listening; `serve` returns."""
        if self._closed:
            return
        self._closed = True
        self._callers.wake()
        with suppress(OSError):
            self._stopped.send(b"!")
        with self._serving:
            self._callers.close()
        for caller in self._ready:
            caller.connection.close()
        for thread in list(self._threads):
            thread.join(_JOIN_SECONDS)
        for end in (self._stopped, self._stop_forwarding):
            end.close()

    def _is_begun(self, data: bytearray) -> bool:
        """Whether a caller has sent what an engine begins with, the preface of HTTP/2 (RFC 9113, 3.4)."""
        if self.is_greeted:
            return True
        try:
            refuse_oldest_unity(data)
            UnaryServer().connection.receive_data(bytes(data[: len(PREFACE)]))
        except Http2Error as error:
            raise UnwantedError(why_ended(str(error))) from error
        return len(data) >= len(PREFACE)

    def _turn_away(self, caller: Caller, reason: str) -> None:
        self._callers.acceptor.log(caller.name, reason)
        caller.connection.close()

    def _start_ready(self) -> None:
        """Start threads for those who have begun, as far as there are places; the others wait for one."""
        while self._ready and not self._closed and self._places.acquire(blocking=False):
            if not self._start(self._ready.popleft()):
                self._places.release()
        while len(self._ready) > MAX_CALLERS:
            self._turn_away(self._ready.pop(), "too many others wait for the trainer")
        while self._ready and self._ready[0].deadline <= time.monotonic():
            self._turn_away(
                self._ready.popleft(), f"the trainer could not be called for it in {_BEGINNING_SECONDS:g} s"
            )

    def _start(self, caller: Caller) -> bool:
        """Start a thread for a caller, if it is there and may call; return whether it is."""
        if has_hung_up(caller.connection):
            self._turn_away(caller, "it left before it could be answered")
            return False
        if refusal := self._callers.acceptor.rejection_reason(caller.name, self.client_rules):
            self._turn_away(caller, refusal)
            return False
        self._count += 1
        thread = threading.Thread(
            target=self._forward, args=(caller, self._count), name=f"thread of {caller.name}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._turn_away(caller, f"this system starts no more threads: {error}")
            return False
        self._threads.add(thread)  # after its start: `close` joins each
        return True

    def _dial(self, engine: socket.socket, who: str) -> TlsStream:
        """Dial the trainer for an engine, which waits while the trainer does not admit it yet."""
        waits = False

        def wait(later: TryLaterError) -> bool:
            nonlocal waits
            if not waits:
                logger.warning("%s waits: %s.", who, later)
            waits = True
            return not self._stops_within(later.seconds) and not has_hung_up(engine)

        return until_admitted(lambda: self._trainer.dial(self._name), wait)

    def _stops_within(self, seconds: float) -> bool:
        """Wait until `close` is called, at most so many seconds; return whether it was."""
        with suppress(OSError, ValueError), DefaultSelector() as selector:  # closed meanwhile
            selector.register(self._stop_forwarding, EVENT_READ)
            selector.select(seconds)
        return self._closed

    def _forward(self, caller: Caller, number: int) -> None:
        engine, where = caller.connection, caller.name
        try:
            try:
                trainer = self._connect(engine, where, number)
            finally:
                self._places.release()
                self._callers.wake()
            if trainer is not None:
                logger.info("Engine %d (%s) is connected to %s.", number, where, self._trainer.address)
                outcome = forward(engine, trainer, self._stop_forwarding, caller.data)
                logger.info("Engine %d (%s): %s.", number, where, outcome)
        except Exception:  # the others are served
            logger.exception("Engine %d (%s) is dropped: its bytes could not be forwarded.", number, where)
            self._has_served = True
        finally:
            engine.close()
            self._ended.put(threading.current_thread())
            self._callers.wake()

    def _connect(self, engine: socket.socket, where: str, number: int) -> TlsStream | None:
        """The trainer's connection for an engine; None, and the engine's is closed, if there is none."""
        try:
            trainer = self._dial(engine, f"Engine {number} ({where})")
        except (RelayRejectedError, UntrustedError, UnreachableError) as error:
            engine.close()
            logger.warning("Engine %d (%s) is rejected: %s.", number, where, error)
            self._has_served |= self._name is not None  # the engine that was started calls but once
            if isinstance(error, UnreachableError):
                pass  # the next engine may find the trainer
            elif self._admitted:
                logger.warning(
                    "The trainer has admitted this relay before, so the relay continues. If another trainer "
                    "listens there now, restart the relay with that one's token and fingerprint."
                )
            else:
                self._refused = error
            return None
        self._admitted = self._has_served = True
        return trainer


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]
