"""Where engines call that run already: one address, at which each connection is an engine of its own.

Telling who was turned away, without letting anybody fill the log.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from selectors import EVENT_READ, DefaultSelector

from mlagents_envs.exception import UnityTimeOutException

from ..grpc.server import OUT_OF_RESOURCES, listen
from . import forwarding as lifelines
from .address import join_address
from .handshake import Admitted, Caller, Preamble, Rules, TurnedAwayError
from .tokens import make_token, same

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 20.0
"""What somebody has from the connection to the end of an engine's greeting."""
MOST_CALLERS = 128
"""How many may be on their way in; more make room by turning the oldest of them away."""
_PAUSE_SECONDS = 1.0
"""For how long nobody is let in when the system cannot open another connection."""

OnEngine = Callable[[Admitted], None]


class Expected:
    """An engine that somebody waits for by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.token = make_token()
        """What its relay has to show; good for one engine."""
        self._arrived: queue.SimpleQueue[Admitted] = queue.SimpleQueue()

    def arrive(self, engine: Admitted) -> None:
        """It is there; called by the gate."""
        self._arrived.put(engine)

    def wait(self, timeout: float) -> Admitted:
        """The engine, once it is there.

        Raises:
            UnityTimeOutException: It did not come within `timeout` seconds.
        """
        try:
            return self._arrived.get(timeout=timeout)
        except queue.Empty:
            raise UnityTimeOutException(
                f"No engine called {self.name!r} has connected within {timeout:g} s."
            ) from None

    def turn_away(self) -> None:
        """Nobody waits any more: hang up on one that has come."""
        with suppress(queue.Empty):
            while True:
                self._arrived.get_nowait().turn_away("nobody waits for it any more")


class Gate:
    """Listens, and lets engines in; everything that is slow or hostile happens in a thread of its own.

    An engine in plain text is let in from this machine and from the networks of the rules. A relay is let in
    over TLS with the token, or with that of an engine that is expected by name. Whoever does not greet as an
    engine is turned away, which is told in the log.
    """

    def __init__(
        self,
        host: str,
        port: int,
        rules: Rules | None = None,
        *,
        token: str | None = None,
        on_engine: OnEngine | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Listens at once; `start` lets in.

        Args:
            host: `localhost`, or an address of this machine, which then listens beside the loopbacks.
            port: TCP port; 0 takes a free one.
            rules: Who may come in.
            token: What a relay has to show whose engine is for anybody; None for none such.
            on_engine: Gets each engine that is for anybody, in the gate's thread; None turns them away.
            patience: Seconds until who has not greeted as an engine is turned away.

        Raises:
            PortInUseError: Somebody else listens there.
            PermissionError: This user may not listen on this port.
            OSError: The address is none of this machine's.
        """
        self._listeners = listen(host, port)
        self.port: int = self._listeners[0].getsockname()[1]
        self.address = join_address(host.strip("[]"), self.port)
        self._rules = rules or Rules()
        self._token = token
        self._on_engine = on_engine
        self._patience = patience
        self._refusals = Refusals()
        self._expected: dict[str, Expected] = {}
        self._lock = threading.Lock()
        self._selector = DefaultSelector()
        self._callers: dict[Caller, None] = {}
        self._paused_until: float | None = None
        self._bell, self._rope = socket.socketpair()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="gate", daemon=True)

    def start(self) -> None:
        """Let engines in from now on."""
        self._thread.start()

    @contextmanager
    def expect(self, name: str) -> Iterator[Expected]:
        """While open, an engine of this name is let in whose relay shows the token that is in here.

        Raises:
            ValueError: Somebody waits for this name already.
        """
        expected = Expected(name)
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
            expected.turn_away()

    def close(self) -> None:
        """Stop listening, and hang up on whoever is on the way in.

        Engines that are in are others' to close.
        """
        if self._closing:
            return
        self._closing = True
        with suppress(OSError):
            self._rope.send(b"!")
        if self._thread.is_alive():
            self._thread.join(self._patience)
        for listener in self._listeners:
            listener.close()
        self._bell.close()
        self._rope.close()
        self._refusals.conclude()

    def _work(self) -> None:
        self._selector.register(self._bell, EVENT_READ)
        for listener in self._listeners:
            self._selector.register(listener, EVENT_READ, listener)
        try:
            while not self._closing:
                self._turn()
        finally:
            for caller in list(self._callers):
                self._forget(caller)
            self._selector.close()

    def _turn(self) -> None:
        """Wait for something to happen, and see to it."""
        for key, _ in self._selector.select(self._rest()):
            if isinstance(key.data, Caller):
                if key.data in self._callers:
                    self._go_on(key.data)
            elif key.data is not None:
                self._accept(key.data)
        now = time.monotonic()
        while self._callers and (oldest := next(iter(self._callers))).deadline <= now:
            self._turn_away(oldest, f"{oldest.doing} within {self._patience:g} s")
        if self._paused_until is not None and now >= self._paused_until:
            self._paused_until = None
            for listener in self._listeners:
                self._selector.register(listener, EVENT_READ, listener)

    def _rest(self) -> float | None:
        """Seconds until something is due."""
        due = [caller.deadline for caller in list(self._callers)[:1]]
        if self._paused_until is not None:
            due.append(self._paused_until)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, address = listener.accept()
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES and self._paused_until is None:
                self._pause(error)
            return
        connection.setblocking(False)
        lifelines.prepare(connection)
        deadline = time.monotonic() + self._patience
        caller = Caller(connection, address[0], address[1], self._rules, self._refusal, deadline)
        self._callers[caller] = None
        self._selector.register(caller, EVENT_READ, caller)
        self._go_on(caller)
        if len(self._callers) > MOST_CALLERS:
            self._turn_away(next(iter(self._callers)), "too many others want to come in; it was the slowest")

    def _pause(self, reason: OSError) -> None:
        """Stop looking at the listeners for a while: who waits there would be announced again and again."""
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        for listener in self._listeners:
            self._selector.unregister(listener)
        self._refusals.tell(
            "",
            "whoever calls now",
            f"{reason.strerror}. Allow more open files (ulimit -n); it is tried again",
        )

    def _go_on(self, caller: Caller) -> None:
        try:
            found = caller.go_on()
        except TurnedAwayError as refusal:
            self._turn_away(caller, str(refusal))
            return
        except Exception:  # one caller must never end the gate for all
            logger.exception("What %s said could not be handled.", caller.where)
            self._turn_away(caller, "what it said could not be handled")
            return
        if isinstance(found, int):
            self._selector.modify(caller, found, caller)
        elif found is None:
            self._forget(caller)
        else:
            self._callers.pop(caller)
            self._selector.unregister(caller)
            self._let_in(found, caller)

    def _let_in(self, engine: Admitted, caller: Caller) -> None:
        with self._lock:
            expected = self._expected.pop(engine.name, None) if engine.name is not None else None
        if expected is not None:
            expected.arrive(engine)
        elif engine.name is None and self._on_engine is not None:
            self._on_engine(engine)
        else:
            reason = "nobody waits for its engine"
            self._refusals.tell(caller.host, caller.where, reason)
            engine.turn_away(reason)

    def _refusal(self, relay: Preamble) -> str | None:
        """Why a relay is not let in; None if it is."""
        if relay.name is None:
            expected = self._token
        else:
            with self._lock:
                waiting = self._expected.get(relay.name)
            expected = None if waiting is None else waiting.token
        # Compared also where nothing is expected: how long it takes tells nobody who is waited for.
        if not same(relay.token, expected or make_token()):
            return "wrong token"
        return None

    def _turn_away(self, caller: Caller, reason: str) -> None:
        self._refusals.tell(caller.host, caller.where, reason)
        self._forget(caller, reason)

    def _forget(self, caller: Caller, reason: str = "") -> None:
        del self._callers[caller]
        with suppress(KeyError, ValueError):  # its socket may be closed already
            self._selector.unregister(caller)
        caller.close(reason)


MOST = 100
"""Lines within one period."""
PERIOD_SECONDS = 3600.0


class Refusals:
    """Logs each reason once for each address; what is not logged is counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds, monotonic."""
        self._clock = clock
        self._told: set[tuple[str, str]] = set()
        self._began = clock()
        self._silent = 0

    def tell(self, host: str, where: str, reason: str) -> None:
        """Somebody was turned away.

        Args:
            host: The address, without the port: a machine that tries again and again is told of once.
            where: How the message calls it.
            reason: Why; what stands behind a semicolon may differ without being told again.
        """
        if self._clock() - self._began > PERIOD_SECONDS:
            self.conclude()
        key = host, reason.partition(";")[0]
        if key in self._told or len(self._told) >= MOST:
            self._silent += 1
            logger.debug("Turned away %s: %s.", where, reason)
            return
        self._told.add(key)
        logger.warning("Turned away %s: %s.", where, reason)
        if len(self._told) == MOST:
            logger.warning("Who else is turned away within this hour is only counted.")

    def conclude(self) -> None:
        """Say how many were not told of, and begin a new period."""
        if self._silent:
            logger.warning(
                "%d more connections were turned away, for the same reasons or beyond what is listed.",
                self._silent,
            )
        self._told.clear()
        self._silent = 0
        self._began = self._clock()
