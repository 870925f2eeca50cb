"""Callers at a port until they have sent a beginning: those that do not cost no thread, and little memory."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from selectors import EVENT_READ

from .clients import ClientRules
from .listening import Acceptor, ClientSelector

MAX_CALLERS = 128
"""The most callers that have not begun; for more, the oldest of them are turned away."""
_READ = 1 << 12
_MAX_WAIT_SECONDS = 0.5 if os.name == "nt" else None
"""Seconds of one wait. On Windows Ctrl-C takes effect between two waits only."""


class UnwantedError(Exception):
    """What a caller has sent is not what is served here; the message says why."""


class Caller:
    """A connection that does not block, and what has arrived on it."""

    def __init__(self, connection: socket.socket, name: str, deadline: float) -> None:
        self.connection = connection
        self.name = name
        """The caller's address and port."""
        self.deadline = deadline
        self.data = bytearray()

    def fileno(self) -> int:
        """The file descriptor, for selectors."""
        return self.connection.fileno()


class Callers:
    """Those who call at a port, in the thread that waits for them.

    Args:
        listeners: The port's listening sockets.
        seconds: How long a caller may take from its connection to the end of its beginning, however slowly
            the bytes arrive.
        most: The most bytes of a beginning.
        is_begun: Whether these bytes contain a beginning; raises UnwantedError if they never will.
        turned_away: Called with each caller that comes to nothing, and why; then its connection is closed.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        seconds: float,
        most: int,
        is_begun: Callable[[bytearray], bool],
        turned_away: Callable[[Caller, str], None] = lambda caller, reason: None,
    ) -> None:
        self.port: int = listeners[0].getsockname()[1]
        self.client_rules = ClientRules()
        """The rules for who may connect."""
        self._seconds = seconds
        self._most = most
        self._is_begun = is_begun
        self._turned_away = turned_away
        self._clients: ClientSelector[Caller] = ClientSelector(listeners)
        self.acceptor = Acceptor(self._clients, self.port)
        self._wakeup_receiver, self._wakeup_sender = socket.socketpair()
        self._wakeup_receiver.setblocking(False)
        self._wakeup_sender.setblocking(False)
        self._clients.selector.register(self._wakeup_receiver, EVENT_READ)
        self._closed = False

    def wait(self, deadline: float | None = None) -> list[Caller]:
        """Wait until something happens, or a deadline; return those who have begun since: they are let go."""
        begun: list[Caller] = []
        connected = self._clients.connected
        for key, _ in self._clients.selector.select(self._time_to_wait(deadline)):
            if key.fileobj is self._wakeup_receiver:
                self._wakeup_receiver.recv(_READ)
            elif key.data in connected:  # it may have been turned away since
                self._hear(key.data, begun)
            elif key.data is None:
                self._accept(key.fileobj, begun)  # type: ignore[arg-type]
        now = time.monotonic()
        while connected and (oldest := next(iter(connected))).deadline <= now:
            self._drop(oldest, f"it did not begin within {self._seconds:g} s")
        self._clients.resume()
        return begun

    def wake(self) -> None:
        """Let `wait` return, in whichever thread it waits."""
        with suppress(OSError):  # it has been woken often already, or is closed
            self._wakeup_sender.send(b"!")

    def close(self) -> None:
        """Stop listening, and close the connections of those who have not begun."""
        if self._closed:
            return
        self._closed = True
        for caller in list(self._clients.connected):
            self._clients.remove(caller)
            caller.connection.close()
        self._clients.close()
        self._wakeup_receiver.close()
        self._wakeup_sender.close()

    def _time_to_wait(self, deadline: float | None) -> float | None:
        """Seconds until this deadline or an earlier one; None without any."""
        deadlines = [oldest.deadline for oldest in list(self._clients.connected)[:1]]
        deadlines += [] if deadline is None else [deadline]
        waits = [at - time.monotonic() for at in deadlines]
        limits = (self._clients.pause_left, _MAX_WAIT_SECONDS)
        waits += [limit for limit in limits if limit is not None]
        return max(0.0, min(waits)) if waits else None

    def _accept(self, listener: socket.socket, begun: list[Caller]) -> None:
        for connection, name in self.acceptor.accept(listener, self.client_rules, occupied=False):
            caller = Caller(connection, name, time.monotonic() + self._seconds)
            if self._is_begun(caller.data):
                begun.append(caller)
            else:
                self._clients.add(caller)
                self._hear(caller, begun)
        for oldest in list(self._clients.connected)[:-MAX_CALLERS]:
            self._drop(oldest, "too many others call, and it was the slowest")

    def _hear(self, caller: Caller, begun: list[Caller]) -> None:
        """Take what has arrived; nothing is read beyond a beginning, but by chance."""
        try:
            data = caller.connection.recv(_READ)
            if not data:
                raise UnwantedError("it disconnected before it had begun")
            caller.data += data
            if self._is_begun(caller.data):
                self._clients.remove(caller)
                begun.append(caller)
            elif len(caller.data) > self._most:
                raise UnwantedError(f"its beginning is longer than {self._most:,} bytes")
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._drop(caller, f"its connection broke ({error.strerror})")
        except UnwantedError as error:
            self._drop(caller, str(error))

    def _drop(self, caller: Caller, reason: str) -> None:
        self._clients.remove(caller)
        self._turned_away(caller, reason)
        caller.connection.close()
