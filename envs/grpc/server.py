"""The trainer's end of an engine's connection: serves the engine's calls in the thread that waits for them.

There is no thread of its own: a second thread would have to wait for the interpreter's lock, up to five
milliseconds, each time the trainer computes while the engine calls.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, DefaultSelector, SelectorKey

from ..callers.rules import CallerRules
from ..errors import OtherEngineError
from .acceptor import Acceptor
from .headers import PATHS, UNITY_PATH
from .listeners import has_hung_up, listen
from .peer import STRANGER_BYTES, Peer, Stream
from .selector import SpinWait

logger = logging.getLogger(__name__)

QUIT = bytes.fromhex("0a03089003")  # a header of status 400
FLUSH_SECONDS = 1.0
"""How long the last bytes for an engine may take to leave."""
LINGER_SECONDS = 0.2
"""How long an engine may then take to hang up; bytes that arrive later would make the system drop ours."""
_RECONNECT_SECONDS = 1.0
"""How long an engine that hung up between two calls may take to call again: gRPC channels may reconnect."""
_MAX_STRANGERS = 32
"""More connections of whom may be anybody make room by closing the oldest of them."""
_GROWTH = 4
"""How many times the longest message so far the first one after a reconnection may have."""


class ServerSession:
    """A server for one engine, which calls and waits in the call for its answer.

    One thread at a time may use it, and nothing happens between its calls: `receive`, or `pump` when a
    selector passed to `watch` reports an event, must be called for anything to be processed. The engine's
    bytes are passed on as they are.

    Args:
        listeners: Listening sockets, at which the engine connects, and connects again after it hung up
            between two calls. Without any, the session is over when its `peer` has gone.
        peer: A connection that was accepted elsewhere; it may have called already.
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
        """Why the connection was cut, if it was cut here. At listeners there is a warning instead: the engine
        may call again."""
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
        self.callers = CallerRules()
        """Who may call at the listeners."""
        self.objection: Callable[[bytes], str] | None = None
        """Why a first call on another connection is not the engine's, empty if it may be; None: any may."""
        self._longest = 0
        self._acceptor = Acceptor(
            listeners, self.port, lambda each: self._register(each, None), self._unregister
        )
        if peer is not None:
            self._engine = peer
            self._add(peer)
            self.request, peer.server.request = peer.server.request, None

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
    def rejection(self) -> str:
        """Why the last caller was turned away; empty if none was."""
        return self._acceptor.rejection

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
            self._acceptor.resume()
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

    def await_another(self) -> bool:
        """Forget the engine, which has gone, so that another one may begin; whether one can call."""
        self._gone, self._hung_up_at = False, None
        return bool(self._listeners) and not self._closed

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
        self._acceptor.close()
        for peer in self._peers:
            peer.stream.close()
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
            self._acceptor.resume()
            if (pause := self._acceptor.pause) is not None:
                remaining = min(remaining, pause)
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
        if server.request is not None:
            if peer is self._engine or self._becomes_engine(peer):
                self.request, server.request = server.request, None
                if len(self.request) > self._longest:
                    self._longest = len(self.request)
                self._engine = peer
                self._gone, self._hung_up_at = False, None
        elif server.cancelled:
            server.cancelled = False
            if peer is self._engine:
                self._gone = True
        if peer.error:
            self._report_violation(peer)
        if server.connection.out:
            self._flush(peer)
        if not usable or peer.error or (self._gone and not self._listeners):
            self._drop(peer)

    def _becomes_engine(self, peer: Peer) -> bool:
        """Whether this peer, which has called, is the engine from now on; else it is rejected."""
        if self._is_occupied():
            peer.reject("Another engine is connected to this port.")
            return False
        if peer.server.path != self._path:
            self._other = OtherEngineError(self.port, PATHS[peer.server.path], PATHS[self._path])
            peer.reject(str(self._other))
            return False
        if peer.is_stranger and (refusal := self._why_not(peer)):
            peer.reject(refusal)
            peer.error = refusal
            return False
        self.fault = ""
        peer.admit()
        return True

    def _why_not(self, peer: Peer) -> str:
        """Why a stranger that has called is not the engine; empty if it may be."""
        refusal = self._acceptor.why_not(peer.name, self.callers)
        if not refusal and has_hung_up(peer.stream):  # of a connection that is gone no system tells the owner
            refusal = "it left before it could be answered"
        if not refusal and self.objection is not None:
            refusal = self.objection(peer.server.request or b"")
        return refusal

    def _is_occupied(self) -> bool:
        """Whether the engine is here and will not go on by another connection."""
        engine = self._engine
        if engine is None:
            return False
        self._receive_from(engine)  # it may have gone, or sent GOAWAY, unnoticed
        return self._engine is engine and (
            engine.server.has_pending_call or not engine.server.stream_ids_exhausted
        )

    def _report_violation(self, peer: Peer) -> None:
        if not self._listeners:
            self.fault = peer.error
        elif peer is self._engine:
            self.fault = peer.error
            logger.warning("The connection of %s to port %d is closed: %s.", peer.name, self.port, peer.error)
        else:
            self._acceptor.log(peer.name, peer.error)

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
        most = STRANGER_BYTES + _GROWTH * self._longest  # an engine that returns may send a whole step
        for connection, name in self._acceptor.accept(listener, self.callers, self._is_occupied()):
            self._add(Peer(connection, name, most))
        strangers = [peer for peer in self._peers if peer.is_stranger]
        for peer in strangers[:-_MAX_STRANGERS]:
            self._drop(peer)

    def _add(self, peer: Peer) -> None:
        self._peers.append(peer)
        self._register(peer.stream, peer)
        self._flush(peer)

    def _register(self, fileobj: socket.socket | Stream, peer: Peer | None) -> None:
        self._selector.register(fileobj, EVENT_READ, peer)
        if self._watcher is not None:
            self._watcher.register(fileobj, EVENT_READ, self._token)

    def _unregister(self, fileobj: socket.socket | Stream) -> None:
        self._selector.unregister(fileobj)
        if self._watcher is not None:
            self._watcher.unregister(fileobj)
