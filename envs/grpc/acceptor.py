"""Accepting callers at an engine's port, at little cost to the run however many there are."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence

from ..callers.rejection_log import RejectionLog
from ..callers.rules import CallerRules, owner
from .listeners import OUT_OF_RESOURCES, accept, first_byte, has_hung_up
from .peer import Stream

logger = logging.getLogger(__name__)

_AT_ONCE = 16
"""Callers that are accepted at once while the engine is awaited; if there were as many, it pauses."""
_AWAITED_PAUSE_SECONDS = 0.02
_OCCUPIED_PAUSE_SECONDS = 0.1
"""How long nobody is accepted after somebody was, while the engine's place is taken."""
_RESOURCES_PAUSE_SECONDS = 1.0
"""How long nothing is accepted after the system could not open another connection."""


class Acceptor:
    """The listening sockets of one engine's port.

    Args:
        listeners: The sockets.
        port: Theirs.
        register: Begins to report a socket's events.
        unregister: Ends that.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        port: int,
        register: Callable[[socket.socket], None],
        unregister: Callable[[socket.socket], None],
    ) -> None:
        self._rejections = RejectionLog(f" from port {port}")
        self._listeners = listeners
        self._port = port
        self._register = register
        self._unregister = unregister
        self._paused_until: float | None = None
        self._warned = False
        for listener in listeners:
            register(listener)

    @property
    def pause(self) -> float | None:
        """Seconds until `resume` has something to do; None if there is no pause."""
        return None if self._paused_until is None else max(0.0, self._paused_until - time.monotonic())

    @property
    def rejection(self) -> str:
        """Why the last caller was turned away; empty if none was."""
        return self._rejections.last

    def accept(
        self, listener: socket.socket, rules: CallerRules, occupied: bool
    ) -> list[tuple[socket.socket, str]]:
        """Those that wait at a listener and may be the engine by their addresses, a few at a time.

        Args:
            listener: Which has reported somebody.
            rules: Who may call.
            occupied: The engine is here and can have no successor, so that whoever calls is none.

        Returns:
            Their connections and addresses.
        """
        if self._paused_until is not None:  # since another listener was tried
            return []
        most = 1 if occupied else _AT_ONCE
        found, is_flood = self._accept(listener, most)
        if occupied or is_flood:
            self._pause(_OCCUPIED_PAUSE_SECONDS if occupied else _AWAITED_PAUSE_SECONDS)
        admitted = []
        for connection, name in found:
            refusal = rules.why_not_from(_address(name)[0])
            if occupied and rules.pid is not None:
                if first_byte(connection) is None:  # as another run does that looks for a free port
                    connection.close()
                    continue
                refusal = "the engine that was started is connected already"
            if refusal:
                self.turn_away(connection, name, refusal)
            else:
                admitted.append((connection, name))
        return admitted

    def why_not(self, name: str, rules: CallerRules) -> str:
        """Why who has connected from this address and called is not the engine; empty if it may be."""
        return rules.why_not(_address(name), self._port)

    def turn_away(self, connection: Stream, name: str, reason: str) -> None:
        """Close a connection, and log why."""
        self.log(name, reason)
        connection.close()

    def log(self, name: str, reason: str) -> None:
        """Log why a connection is about to be closed, with its owner if it is the first with this reason."""
        host, port = _address(name)
        self._rejections.log(host, name, reason, lambda: owner((host, port), self._port))

    def resume(self) -> None:
        """Listen again if a pause is over."""
        if self._paused_until is not None and time.monotonic() >= self._paused_until:
            self._paused_until = None
            for listener in self._listeners:
                self._register(listener)

    def close(self) -> None:
        """Stop listening."""
        for listener in self._listeners:
            listener.close()
        self._rejections.finish_period()

    def _accept(self, listener: socket.socket, most: int) -> tuple[list[tuple[socket.socket, str]], bool]:
        """Those that wait and have not hung up yet; and whether there may be more."""
        found: list[tuple[socket.socket, str]] = []
        for _ in range(most):
            try:
                connection, name = accept(listener)
                if has_hung_up(connection):
                    connection.close()
                else:
                    found.append((connection, name))
            except (BlockingIOError, InterruptedError):
                return found, False
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    self._run_out(error)
                else:  # it has hung up already
                    logger.debug("A connection to port %d came to nothing: %s", self._port, error)
                return found, False
        return found, True

    def _run_out(self, reason: OSError) -> None:
        self._pause(_RESOURCES_PAUSE_SECONDS)
        if not self._warned:
            self._warned = True
            logger.warning(
                "A connection to port %d cannot be opened: %s. Allow more open files (ulimit -n). It is "
                "tried again every second; this is said once.",
                self._port,
                reason.strerror,
            )

    def _pause(self, seconds: float) -> None:
        """Ignore the listeners for a while: a selector would report those that wait again and again."""
        if self._paused_until is None:
            for listener in self._listeners:
                self._unregister(listener)
        self._paused_until = max(self._paused_until or 0.0, time.monotonic() + seconds)


def _address(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)
