"""The server that running engines connect to: one address, one connection per engine."""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from selectors import EVENT_READ
from typing import Any

from ..engines.address import join_address
from ..engines.clients import OUT_OF_RESOURCES
from ..engines.limits import LimitPerHost, RateLimit, RejectionLog, WorkBudget
from ..engines.listening import ClientSelector, first_byte, has_hung_up, listen
from .expected import ExpectedEngine
from .handshake import (
    AccessRules,
    AttachedEngine,
    GreetedEngine,
    IncomingConnection,
    RejectedError,
)
from .preamble import Preamble
from .tokens import cannot_be_guessed, make_token, same

logger = logging.getLogger(__name__)

GREETING_TIMEOUT_SECONDS = 20.0
"""Seconds from the connection to the end of an engine's greeting."""
MAX_CONNECTIONS = 128
"""The most connections that have not greeted yet; beyond that the oldest of them is rejected."""
_PAUSE_SECONDS = 1.0
"""Seconds for which nothing is accepted after the system could not open another connection."""

_GUESSES, _GUESSES_PER_SECOND = 30, 0.1
"""The wrong tokens that one address may send at once, and after that per second."""
_ACCEPTS, _ACCEPTS_PER_SECOND = 256, 20
"""The connections that are accepted at once, and after that per second: clients that come and go leave most
of the time to the run."""
_AT_ONCE = 16
"""The most connections that are accepted in one turn."""
_BACKLOG = 64
"""Engines that may call in the same instant; the system would put off those beyond for a second or more."""
_SHORTEST_PAUSE_SECONDS = 0.2
"""The shortest pause in seconds for the run's thread between acceptances, once there are too many clients."""
_FAILED_SECONDS = 0.002
"""Processor time that goes into an engine that greets and leaves: a thread and half of a handshake."""

OnEngine = Callable[[AttachedEngine], None]


class AttachServer:
    """Listens for engines and admits them, in a thread of its own, since clients may be slow or hostile.

    Engines in plain text are admitted from this machine and from the networks of the rules. Relays are
    admitted over TLS with the token, or with that of an engine that is expected by name. A client that does
    not greet as an engine is rejected, which is logged.
    """

    def __init__(
        self,
        host: str,
        port: int,
        rules: AccessRules | None = None,
        *,
        token: str | None = None,
        on_engine: OnEngine | None = None,
        timeout: float = GREETING_TIMEOUT_SECONDS,
    ) -> None:
        """Start to listen; `start` starts to accept.

        Args:
            host: `localhost`, or an address of this machine to listen on besides the loopback addresses.
            port: TCP port; 0 takes a free one.
            rules: Which clients are admitted.
            token: The token of relays whose engine is not expected by name; None admits no such relay.
            on_engine: Called with each engine that is not expected by name, in the server's thread; None
                rejects them.
            timeout: Seconds that a client has to greet as an engine.

        Raises:
            AddressInUseError: Another process listens there.
            PermissionError: This user may not listen on this port.
            OSError: The address is not one of this machine's.
        """
        self._listeners = listen(host, port, _BACKLOG)
        self.port: int = self._listeners[0].getsockname()[1]
        self.address = join_address(host.strip("[]"), self.port)
        self._rules = rules or AccessRules()
        self._token = token
        self._on_engine = on_engine
        self._timeout = timeout
        self._rejections = RejectionLog()
        self._guesses = LimitPerHost(_GUESSES, _GUESSES_PER_SECOND)
        self._accepts = RateLimit(_ACCEPTS, _ACCEPTS_PER_SECOND)
        self._budget = WorkBudget()
        self._expected: dict[str, ExpectedEngine] = {}
        self._lock = threading.Lock()
        self._clients: ClientSelector[IncomingConnection] = ClientSelector(self._listeners)
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="attach-server", daemon=True)

    def start(self) -> None:
        """Start to accept engines."""
        self._thread.start()

    @contextmanager
    def expect(self, name: str, greeted: GreetedEngine | None = None) -> Iterator[ExpectedEngine]:
        """Admit, while open, an engine of this name whose relay presents the token of the context.

        Args:
            name: The engine's name.
            greeted: What the engine is, if it is to be greeted; None if it calls by gRPC.

        Raises:
            ValueError: An engine of this name is expected already.
        """
        expected = ExpectedEngine(name, greeted)
        Preamble(expected.token, name).encode()  # refuses names that cannot be sent
        with self._lock:
            if name in self._expected:
                raise ValueError(f"an engine called {name!r} is expected already")
            self._expected[name] = expected
        try:
            yield expected
        finally:
            with self._lock:
                if self._expected.get(name) is expected:
                    del self._expected[name]
            expected.reject()

    def close(self) -> None:
        """Stop listening, and close connections that have not been admitted.

        Admitted engines belong to others.
        """
        if self._closing:
            return
        self._closing = True
        with suppress(OSError):
            self._wakeup_sender.send(b"!")
        if self._thread.is_alive():
            self._thread.join(self._timeout)
        self._clients.close()
        self._wakeup_receiver.close()
        self._wakeup_sender.close()
        self._rejections.finish_period()

    def _run(self) -> None:
        self._clients.selector.register(self._wakeup_receiver, EVENT_READ)
        try:
            while not self._closing:
                self._run_once()
        except Exception:  # those who take part are served on
            logger.exception("No more engines can connect at %s, for a fault of Lanista.", self.address)
        finally:
            for connection in list(self._clients.connected):
                self._drop(connection)
            self._clients.close()

    def _run_once(self) -> None:
        """Wait for events, and handle them."""
        connected = self._clients.connected
        for key, _ in self._clients.selector.select(self._time_to_wait()):
            if key.data in connected:
                self._advance(key.data)
            elif key.fileobj in self._listeners:
                self._accept(key.fileobj)  # type: ignore[arg-type]
        now = time.monotonic()
        while connected and (oldest := next(iter(connected))).deadline <= now:
            self._reject(oldest, f"{oldest.stage} within {self._timeout:g} s")
        self._clients.resume()

    def _time_to_wait(self) -> float | None:
        """Seconds until the next deadline; None without one."""
        waits = [connection.deadline - time.monotonic() for connection in list(self._clients.connected)[:1]]
        if (pause := self._clients.pause_left) is not None:
            waits.append(pause)
        return max(0.0, min(waits)) if waits else None

    def _accept(self, listener: socket.socket) -> None:
        """Accept some of the clients that wait, unless too much has been done in vain lately."""
        for _ in range(_AT_ONCE):
            if self._clients.is_paused:
                return
            begin = time.thread_time()
            try:
                accepted, address = listener.accept()
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    self._clients.pause(_PAUSE_SECONDS)
                    advice = f"{error.strerror}. Allow more open files (ulimit -n); retrying"
                    self._rejections.log("", "new connections", advice)
                return
            if has_hung_up(accepted):  # while it waited: nobody is there to be an engine
                self._turn_away(accepted, address, begin)
            else:
                self._accepts.take()
                self._begin(accepted, address, begin)
            if (wait := max(self._accepts.wait, self._budget.wait)) > 0 and not self._clients.is_paused:
                self._clients.pause(max(wait, _SHORTEST_PAUSE_SECONDS))

    def _turn_away(self, accepted: socket.socket, address: Sequence[Any], begin: float) -> None:
        silent = first_byte(accepted) in (b"", None)
        reason = "it disconnected " + ("without sending anything" if silent else "before its greeting")
        self._rejections.log(address[0], join_address(address[0], address[1]), reason)
        accepted.close()
        self._budget.spend(time.thread_time() - begin)

    def _begin(self, accepted: socket.socket, address: Sequence[Any], begin: float) -> None:
        accepted.setblocking(False)
        deadline = time.monotonic() + self._timeout
        connection = IncomingConnection(accepted, address[0], address[1], self._rules, self._answer, deadline)
        self._clients.add(connection)
        connection.cost = time.thread_time() - begin
        self._advance(connection)
        if len(self._clients.connected) > MAX_CONNECTIONS:
            self._reject(
                next(iter(self._clients.connected)), "too many others are connecting, and it was the slowest"
            )

    def _advance(self, connection: IncomingConnection) -> None:
        begin = time.thread_time()
        found: int | AttachedEngine | RejectedError | None
        try:
            found = connection.advance()
        except RejectedError as refusal:
            found = refusal
        except Exception:  # one client must never stop the server
            logger.exception("The bytes of %s could not be handled.", connection.where)
            found = RejectedError("its bytes could not be handled")
        connection.cost += time.thread_time() - begin
        if isinstance(found, RejectedError):
            self._reject(connection, str(found))
        elif isinstance(found, int):
            self._clients.modify(connection, found)
        elif found is None:
            self._drop(connection)
        else:
            self._clients.remove(connection)
            found.on_rejected = partial(self._budget.spend, connection.cost + _FAILED_SECONDS)
            self._admit(found, connection)

    def _admit(self, engine: AttachedEngine, connection: IncomingConnection) -> None:
        with self._lock:
            expected = self._expected.pop(engine.name, None) if engine.name is not None else None
        if expected is not None:
            expected.put(engine)
        elif engine.name is None and self._on_engine is not None:
            self._on_engine(engine)
        else:
            reason = "its engine is not expected"
            self._rejections.log(connection.host, connection.where, reason)
            engine.reject(reason)

    def _answer(self, relay: Preamble, host: str) -> GreetedEngine | None:
        """Admit a relay; see `handshake.Answer`.

        Who guesses shares an address with relays, so that while guesses are slowed a token that nobody can
        guess is admitted all the same; one that could be guessed is not looked at.
        """
        waiting = None
        if relay.name is None:
            expected = self._token
        else:
            with self._lock:
                waiting = self._expected.get(relay.name)
            expected = None if waiting is None else waiting.token
        # Compare even if nothing is expected, so that the time does not reveal which engines are.
        right = same(relay.token, expected or make_token())
        wait = math.ceil(self._guesses.wait(host))
        if wait > 0 and not (right and cannot_be_guessed(relay.token)):
            raise RejectedError(f"too many wrong tokens came from its address; wait {wait} s", wait)
        if not right:
            self._guesses.take(host)
            raise RejectedError("wrong token")
        return None if waiting is None else waiting.greeted

    def _reject(self, connection: IncomingConnection, reason: str) -> None:
        self._rejections.log(connection.host, connection.where, reason)
        self._drop(connection, reason)

    def _drop(self, connection: IncomingConnection, reason: str = "") -> None:
        begin = time.thread_time()
        with suppress(KeyError, ValueError):  # its socket may be closed already
            self._clients.remove(connection)
        connection.close(reason)
        self._budget.spend(connection.cost + time.thread_time() - begin)
