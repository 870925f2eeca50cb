"""A server for one engine on sockets: what its protocols have in common.

There is no thread of its own: a second thread would have to wait for the interpreter's lock, up to five
milliseconds, each time the trainer computes while the engine calls.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any, Generic, Protocol, TypeVar

from .clients import ClientRules
from .listening import Acceptor, ClientSelector
from .selector import SpinWait

_MAX_WAIT_SECONDS = 1.0
"""The most seconds of one wait: an engine that has hung up between two calls has gone if it has not returned
by then."""


class Stream(Protocol):
    """A non-blocking socket, or what stands for one, such as the plain-text side of TLS.

    `recv` and `send` raise BlockingIOError where they would have to wait. If `recv` returns less than it was
    asked for, a selector on the socket reports whatever is left.
    """

    def recv(self, size: int, /) -> bytes:
        """Return what has arrived, up to `size` bytes; b"" at the end."""

    def send(self, data: bytearray, /) -> int:
        """Send what can be sent at once; return the number of bytes sent."""

    def fileno(self) -> int:
        """The socket's file descriptor, for selectors."""

    def shutdown(self, how: int, /) -> None:
        """Shut the connection down."""

    def close(self) -> None:
        """Close the socket."""

    def getsockname(self) -> Any:
        """The address of this end."""


class Client:
    """One client's connection: its socket, and what is to be sent.

    Args:
        stream: The socket.
        name: The client's address.
        out: The bytes to be sent, to which others append; those sent are removed.
    """

    def __init__(self, stream: Stream, name: str, out: bytearray) -> None:
        self.stream = stream
        self.name = name
        self.out = out
        self.gone = False
        """Whether the connection has ended."""
        self.is_blocked = False
        """Whether selectors report when more can be sent."""

    def fileno(self) -> int:
        """The socket's file descriptor, for selectors."""
        return self.stream.fileno()

    @property
    def events(self) -> int:
        """The events that selectors should report."""
        return EVENT_READ | EVENT_WRITE if self.out else EVENT_READ

    def flush(self) -> bool:
        """Send as much as the system accepts; return whether the connection is still usable."""
        out = self.out
        try:
            while out:
                del out[: self.stream.send(out)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.gone = True
        return not self.gone


C = TypeVar("C", bound=Client)


class SocketSession(ABC, Generic[C]):
    """A server for one engine, which calls and waits for the answer: an `engines.interfaces.EngineSession`.

    One thread at a time may use it, and nothing happens between its calls: `receive`, or `pump` when a
    selector passed to `watch` reports an event, must be called for anything to be processed. The engine's
    bytes are passed on as they are.

    Args:
        listeners: Listening sockets, at which the engine connects. Without any, the session is over when
            its `client` has gone.
        client: A connection that was accepted elsewhere.
    """

    def __init__(self, listeners: Sequence[socket.socket], client: C | None) -> None:
        self._listeners = listeners
        first = listeners[0] if client is None else client.stream
        self.port: int = first.getsockname()[1]
        """The port on which the engine calls."""
        self.closing_reason = ""
        """Why the session is closed, for the engine; `close` sends it if the protocol has a place for it."""
        self.fault = ""
        """Why the connection was cut, if it was cut here."""
        self.request: bytes | None = None
        """The engine's request that `receive` has not returned yet."""
        self.client_rules = ClientRules()
        """The rules for who may call at the listeners."""
        self.objection: Callable[[bytes], str] | None = None
        """A function that says why a first call on another connection is not the engine's, empty if it may
        be; None: any may."""
        self._clients: ClientSelector[C] = ClientSelector(listeners)
        self._acceptor = Acceptor(self._clients, self.port)
        self._spin_wait = SpinWait()
        self._engine: C | None = None
        self._error: Exception | None = None
        """The error that `receive` raises where there is no request."""
        self._gone = False
        self._closed = False

    @property
    def rejection(self) -> str:
        """Why the last client was turned away; empty if none was."""
        return self._acceptor.rejection

    @property
    def disconnected(self) -> bool:
        """Whether the engine has gone."""
        return self._gone

    @property
    def has_client(self) -> bool:
        """Whether somebody is connected, the engine or one that has not shown yet whether it is."""
        return bool(self._clients.connected)

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register all sockets, now and later, with a selector, so that it reports when to call `pump`.

        Args:
            selector: None unregisters them.
            token: The `data` of the selector's keys.
        """
        self._clients.watch(selector, token)

    def pump(self) -> None:
        """Process what has arrived and send what could not be sent before, without waiting."""
        if not self._closed:
            self._clients.resume()
            self._handle_events(self._clients.selector.select(0))

    def receive(self, timeout: float) -> bytes | None:
        """The engine's next request; None if none arrived within `timeout` seconds or the engine has gone.

        Raises:
            OtherEngineError: An engine of another kind calls.
        """
        if self.request is None and not self._closed:
            if self._engine is not None:
                self._receive_from(self._engine)
            if self.request is None:
                if timeout > 0:
                    self._wait(timeout)
                else:
                    self.pump()
        request, self.request = self.request, None
        if request is None and self._error is not None:
            raise self._error
        return request

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self.request is None and self._error is None and not self.disconnected and not self._closed:
            remaining = min(deadline - time.monotonic(), _MAX_WAIT_SECONDS)
            if remaining <= 0:
                return
            self._clients.resume()
            if (pause := self._clients.pause_left) is not None:
                remaining = min(remaining, pause)
            self._handle_events(self._spin_wait.wait(self._clients.selector.select, remaining))

    def _handle_events(self, ready: Sequence[tuple[SelectorKey, int]]) -> None:
        connected = self._clients.connected
        for key, events in ready:
            client = key.data
            if client is None:
                self._accept(key.fileobj)  # type: ignore[arg-type]
            elif client in connected:  # and not dropped on account of another one
                if events & EVENT_WRITE:
                    self._flush(client)
                if events & EVENT_READ and client in connected:
                    self._receive_from(client)

    def _add(self, client: C) -> None:
        self._clients.add(client)
        self._flush(client)

    def _flush(self, client: C) -> None:
        """Send as much as the system accepts; the rest follows when it accepts more."""
        if not client.flush():
            self._drop(client)
        elif client.is_blocked != bool(client.out):
            client.is_blocked = not client.is_blocked
            self._clients.modify(client, client.events)

    def _close(self) -> None:
        self._closed = True
        self._clients.close()
        for client in self._clients.connected:
            client.stream.close()
        self._clients.connected.clear()
        self._acceptor.close()
        self._engine = None

    @abstractmethod
    def _accept(self, listener: socket.socket) -> None:
        """Accept the connections that wait at a listener."""

    @abstractmethod
    def _receive_from(self, client: C) -> None:
        """Process what has arrived on a connection."""

    @abstractmethod
    def _drop(self, client: C, reason: str = "") -> None:
        """Remove a connection that has ended, or end it for this reason."""
