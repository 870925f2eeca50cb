"""The trainer's end of an engine's connection: serves the engine's calls in the thread that waits for them.

There is no thread of its own: a second thread would have to wait for the interpreter's lock, up to five
milliseconds, each time the trainer computes while the engine calls.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, DefaultSelector, SelectorKey
from typing import Any, Protocol

from ..errors import OtherEngineError
from .calls import FAILED_PRECONDITION, UnaryServer
from .frames import Http2Error
from .headers import PATHS, UNITY_PATH
from .listeners import OUT_OF_RESOURCES, accept, listen
from .selector import SpinWait

logger = logging.getLogger(__name__)

QUIT = bytes.fromhex("0a03089003")  # a header of status 400
FLUSH_SECONDS = 1.0
"""How long the last bytes for an engine may take to leave."""
LINGER_SECONDS = 0.2
"""How long an engine may then take to hang up; bytes that arrive later would make the system drop ours."""
_RECONNECT_SECONDS = 1.0
"""How long an engine that hung up between two calls may take to call again: gRPC channels may reconnect."""
_MAX_IDLE_PEERS = 32
"""More connections make room by closing the oldest one that is not the engine's."""
_ACCEPT_PAUSE_SECONDS = 1.0
"""How long nothing is accepted after the system could not open another connection."""
_READ = 1 << 17


class Stream(Protocol):
    """A non-blocking socket, or what stands for one, such as the plain-text side of TLS.

    `recv` and `send` raise BlockingIOError where they would have to wait. If `recv` returns less than it was
    asked for, a selector on the socket reports whatever is left.
    """

    def recv(self, size: int, /) -> bytes:
        """What has arrived, up to `size` bytes; b"" at the end."""

    def send(self, data: bytearray, /) -> int:
        """Send what can be sent at once; the number of bytes sent."""

    def fileno(self) -> int:
        """The socket's file descriptor, for selectors."""

    def shutdown(self, how: int, /) -> None:
        """Shut the connection down."""

    def close(self) -> None:
        """Close the socket."""

    def getsockname(self) -> Any:
        """Our own address."""


class Peer:
    """One client's connection: its socket and the call that it may have open.

    Args:
        stream: The socket.
        name: The client's address.
        max_bytes: How many bytes it may send before it is disconnected; None for any number.
    """

    def __init__(self, stream: Stream, name: str, max_bytes: int | None = None) -> None:
        self.stream = stream
        self.name = name
        self.max_bytes = max_bytes
        self.server = UnaryServer()
        self.error = ""
        """Its violation, once `receive` has ended the connection because of it."""
        self.watched_events = EVENT_READ
        """The events that selectors report at present."""

    @property
    def events(self) -> int:
        """The events that selectors should report."""
        return EVENT_READ | EVENT_WRITE if self.server.connection.out else EVENT_READ

    def receive(self) -> bool:
        """Process what has arrived; whether the connection is still usable."""
        connection = self.server.connection
        try:
            while True:
                data = self.stream.recv(_READ)
                if not data:
                    return False
                connection.receive_data(data)
                if self.max_bytes is not None:
                    self.max_bytes -= len(data)
                    if self.max_bytes < 0:
                        self.error = "it sends more than an engine's greeting has"
                        return False
                if len(data) < _READ:
                    return True
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        except Http2Error as error:
            self.error = str(error)
            return False

    def flush(self) -> bool:
        """Send as much as the system accepts; whether the connection is still usable."""
        out = self.server.connection.out
        try:
            while out:
                del out[: self.stream.send(out)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            return False
        return True


class ServerSession:
    """A server for one engine, which calls and waits in the call for its answer.

    One thread at a time may use it, and nothing happens between its calls: `receive`, or `pump` when a
    selector passed to `watch` reports an event, must be called for anything to be processed. The engine's
    bytes are passed on as they are.

    Args:
        listeners: Listening sockets, at which the engine connects, and connects again after it hung up
            between two calls. Without any, the session is over when its `peer` has gone.
        peer: A connection that was accepted elsewhere.
        path: The method that the engine calls, of those in `headers.PATHS`; others are no engine of ours.
    """

    def __init__(
        self, listeners: Sequence[socket.socket] = (), peer: Peer | None = None, path: bytes = UNITY_PATH
    ) -> None:
        self._listeners = listeners
        self._path = path
        first = listeners[0] if peer is None else peer.stream
        self.port: int = first.getsockname()[1]
        """The port on which the engine calls."""
        self.closing_reason = ""
        """Why the session is closed, for the engine; `close` sends it."""
        self.fault = ""
        """None: an engine whose bytes are not HTTP/2 is disconnected with a warning, and may call again."""
        self.request: bytes | None = None
        """The engine's request that `receive` has not returned yet."""
        self._selector = DefaultSelector()
        self._watcher: BaseSelector | None = None
        self._token: object = None
        self._spin_wait = SpinWait()
        self._peers: list[Peer] = []
        self._engine: Peer | None = None
        self._other: OtherEngineError | None = None
        self._gone = False
        self._hung_up_at: float | None = None
        self._closed = False
        self._paused_until: float | None = None
        self._warned = False
        for listener in listeners:
            self._register(listener, None)
        if peer is not None:
            self._engine = peer
            self._add(peer)

    @classmethod
    def listen(cls, port: int, host: str = "localhost", path: bytes = UNITY_PATH) -> ServerSession:
        """Listen for an engine.

        Args:
            port: TCP port; 0 takes a free one (see `port`).
            host: `localhost` is 127.0.0.1 and, where the machine has it, ::1; else an address of this
                machine, which is then listened on besides these.
            path: The method that the engine calls.

        Raises:
            AddressInUseError: Another listener has the port.
            PermissionError: This user may not listen on this port.
            OSError: The address is not one of this machine.
        """
        return cls(listen(host, port), path=path)

    @property
    def disconnected(self) -> bool:
        """Whether the engine has gone.

        It hung up before it had an answer (its process died, say), or between two calls and did not return.
        """
        if self._hung_up_at is not None and time.monotonic() - self._hung_up_at >= _RECONNECT_SECONDS:
            self._gone = True
        return self._gone

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register all sockets, now and later, with a selector, so that it reports when to call `pump`.

        Args:
            selector: None unregisters them.
            token: The `data` of the selector's keys.
        """
        if self._watcher is not None:
            for key in self._selector.get_map().values():
                self._watcher.unregister(key.fileobj)
        self._watcher, self._token = selector, token
        if selector is not None:
            for key in self._selector.get_map().values():
                selector.register(key.fileobj, key.events, token)

    def pump(self) -> None:
        """Process what has arrived and send what could not be sent before, without waiting."""
        if not self._closed:
            self._resume_accepting()
            self._handle_events(self._selector.select(0))

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
        if request is None and self._other is not None:
            raise self._other
        return request

    def reply(self, data: bytes) -> None:
        """Respond to the request received last. Has no effect when the engine has gone meanwhile."""
        engine = self._engine
        if engine is not None and engine.server.has_pending_call:
            engine.server.reply(data)
            self._flush(engine)

    def close(self, wait: bool = True) -> None:
        """Stop serving. An engine that waits for an answer is told to quit.

        Args:
            wait: For the last bytes to leave, and for the engine to hang up.
        """
        if self._closed:
            return
        self.watch(None)
        self.reply(QUIT)
        if self._engine is not None:
            self._send_goaway(self._engine, wait)
        self._closed = True
        self._selector.close()
        for open_socket in (*self._listeners, *(peer.stream for peer in self._peers)):
            open_socket.close()
        self._engine = None
        self._peers.clear()

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self.request is None and self._other is None and not self.disconnected and not self._closed:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            if self._hung_up_at is not None:
                remaining = min(remaining, _RECONNECT_SECONDS)
            if self._paused_until is not None:
                remaining = min(remaining, _ACCEPT_PAUSE_SECONDS)
                self._resume_accepting()
            self._handle_events(self._spin_wait.wait(self._selector.select, remaining))

    def _handle_events(self, ready: Sequence[tuple[SelectorKey, int]]) -> None:
        for key, events in ready:
            peer = key.data
            if peer is None:
                self._accept(key.fileobj)  # type: ignore[arg-type]
            elif peer in self._peers:  # and not dropped on account of another one
                if events & EVENT_WRITE:
                    self._flush(peer)
                if events & EVENT_READ and peer in self._peers:
                    self._receive_from(peer)

    def _receive_from(self, peer: Peer) -> None:
        """Process what has arrived on a connection."""
        server = peer.server
        usable = peer.receive()
        if peer.error and self._listeners:
            logger.warning("The connection of %s to port %d is closed: %s.", peer.name, self.port, peer.error)
        if server.request is not None:
            if peer is self._engine or self._becomes_engine(peer):
                self.request, server.request = server.request, None
                self._engine = peer
                self._gone, self._hung_up_at = False, None
        elif server.cancelled:
            server.cancelled = False
            if peer is self._engine:
                self._gone = True
        if server.connection.out:
            self._flush(peer)
        if not usable or (self._gone and not self._listeners):
            self._drop(peer)

    def _becomes_engine(self, peer: Peer) -> bool:
        """Whether this peer, which has called, is the engine from now on; else it is rejected."""
        engine = self._engine
        if engine is not None:
            self._receive_from(engine)  # it may have gone, or sent GOAWAY, unnoticed
        if (
            engine is not None
            and self._engine is engine
            and (engine.server.has_pending_call or not engine.server.stream_ids_exhausted)
        ):
            peer.server.reject(FAILED_PRECONDITION, "Another engine is connected to this port.")
            return False
        if peer.server.path != self._path:
            self._other = OtherEngineError(self.port, PATHS[peer.server.path], PATHS[self._path])
            peer.server.reject(FAILED_PRECONDITION, str(self._other))
            return False
        return True

    def _flush(self, peer: Peer) -> None:
        """Send as much as the system accepts; the rest follows when it accepts more."""
        if not peer.flush():
            self._drop(peer)
            return
        if peer.server.connection.out or peer.watched_events != EVENT_READ:
            events = peer.watched_events = peer.events
            self._selector.modify(peer.stream, events, peer)
            if self._watcher is not None:
                self._watcher.modify(peer.stream, events, self._token)

    def _drop(self, peer: Peer) -> None:
        """A connection has ended."""
        if peer not in self._peers:
            return
        self._peers.remove(peer)
        self._unregister(peer.stream)
        peer.stream.close()
        if peer is self._engine:
            self._engine = None
            if peer.server.has_pending_call or not self._listeners:
                self._gone = True
            else:
                self._hung_up_at = time.monotonic()

    def _send_goaway(self, engine: Peer, wait: bool) -> None:
        """Announce the end; let the last bytes leave, and give the engine a moment to hang up."""
        connection = engine.server.connection
        connection.send_goaway(reason=self.closing_reason)
        self._flush(engine)
        if not wait:
            return
        deadline = time.monotonic() + FLUSH_SECONDS
        while self._engine is engine and (connection.blocked_stream or connection.out):
            if (remaining := deadline - time.monotonic()) <= 0:
                return
            self._handle_events(self._selector.select(remaining))
        if self._engine is engine:
            with suppress(OSError):
                engine.stream.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + LINGER_SECONDS
        while self._engine is engine and (remaining := deadline - time.monotonic()) > 0:
            self._handle_events(self._selector.select(remaining))

    # Connections ---------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        if self._paused_until is not None:  # since the other listener was tried
            return
        try:
            connection, name = accept(listener)
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:
                self._pause_accepting(error)
            else:  # it has hung up already
                logger.debug("A connection to port %d came to nothing: %s", self.port, error)
            return
        self._add(Peer(connection, name))
        idle = [peer for peer in self._peers if peer is not self._engine]
        if len(idle) > _MAX_IDLE_PEERS:
            self._drop(idle[0])

    def _add(self, peer: Peer) -> None:
        self._peers.append(peer)
        self._register(peer.stream, peer)
        self._flush(peer)

    def _pause_accepting(self, reason: OSError) -> None:
        """Ignore the listeners for a while: the selector would report the waiting client again and again."""
        self._paused_until = time.monotonic() + _ACCEPT_PAUSE_SECONDS
        for listener in self._listeners:
            self._unregister(listener)
        if not self._warned:
            self._warned = True
            logger.warning(
                "A connection to port %d cannot be opened: %s. Allow more open files (ulimit -n). It is "
                "tried again every second; this is said once.",
                self.port,
                reason.strerror,
            )

    def _resume_accepting(self) -> None:
        if self._paused_until is not None and time.monotonic() >= self._paused_until:
            self._paused_until = None
            for listener in self._listeners:
                self._register(listener, None)

    def _register(self, fileobj: socket.socket | Stream, peer: Peer | None) -> None:
        self._selector.register(fileobj, EVENT_READ, peer)
        if self._watcher is not None:
            self._watcher.register(fileobj, EVENT_READ, self._token)

    def _unregister(self, fileobj: socket.socket | Stream) -> None:
        self._selector.unregister(fileobj)
        if self._watcher is not None:
            self._watcher.unregister(fileobj)
