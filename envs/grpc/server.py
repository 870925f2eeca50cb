"""The trainer's end of an engine's connection by gRPC: serves its calls in the thread that waits for them."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from contextlib import suppress

from ..engines.listening import has_hung_up, listen
from ..engines.session import Client, SocketSession, Stream
from ..errors import OtherEngineError
from ..protocol.handshake import OLDEST_UNITY, PATHS, UNITY_PATH
from .calls import FAILED_PRECONDITION, UnaryServer
from .connection import MAX_BACKLOG, TOO_MUCH_FOR_GREETING
from .frames import MAX_WINDOW, ErrorCode, Http2Error

logger = logging.getLogger(__name__)

QUIT = bytes.fromhex("0a03089003")  # a header of status 400
FLUSH_SECONDS = 1.0
"""Seconds that the last bytes for an engine may take to leave."""
LINGER_SECONDS = 0.2
"""Seconds that an engine may then take to hang up; later bytes would make the system drop ours."""
_RECONNECT_SECONDS = 1.0
"""Seconds that an engine may take to call again if it hung up between two calls: gRPC may reconnect."""
_MAX_UNADMITTED = 32
"""The most connections of clients that may be anybody; for more, the oldest of them are closed."""
_GROWTH = 4
"""The most bytes of the first message after a reconnection, in multiples of the longest message so far."""
_READ = 1 << 17
GREETING_BYTES = 1 << 16
"""The most bytes of an engine's first call and the HTTP/2 frames before it, usually a few hundred."""
_GREETING_READ = 1 << 12
_GREETING_READS = 32
"""The most pieces in which a first call may arrive; more for a client that may send more."""
_GREETING_FRAMES = 100
"""The most frames before and in a first call; more for a client that may send more."""
_OLDEST_KEYS = (b'"AcademyName"', b'"apiNumber"')
"""What the first bytes of a game of 2017 hold, the parameters of its Academy in JSON."""
_MAX_FRAMES = 20_000
"""The most frames between two calls, beyond one per 256 bytes: window updates, pings, and the like."""
_READS_AT_ONCE = 64
"""The most reads of a connection at a time, so that an engine whose bytes arrive as fast as they are read
does not keep others waiting."""


def refuse_oldest_unity(data: bytes | bytearray) -> None:
    """Raises Http2Error if these first bytes of a connection are those of a game of 2017, before gRPC."""
    if data.startswith(b"{") and any(key in data for key in _OLDEST_KEYS):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, OLDEST_UNITY)


class Peer(Client):
    """One client's connection: its socket and the call that it may have open.

    Until `admit` the client may send little: as much as a first call takes.

    Args:
        stream: The socket.
        name: The client's address.
        max_bytes: How many bytes the client may send until then.
    """

    def __init__(self, stream: Stream, name: str, max_bytes: int = GREETING_BYTES) -> None:
        self.server = UnaryServer()
        super().__init__(stream, name, self.server.connection.out)
        self.server.connection.max_backlog = max_bytes
        self.error = ""
        """The client's violation, once `receive` has ended the connection because of it."""
        self._max_bytes = max_bytes
        pieces = max(0, max_bytes - GREETING_BYTES) // _GREETING_READ
        self._max_reads = _GREETING_READS + pieces
        self.server.connection.max_frames = _GREETING_FRAMES + pieces
        self.is_admitted = False
        """Whether the client is known to be an engine."""

    def admit(self) -> None:
        """Admit the client as an engine: from now on it may send as much as it likes."""
        if not self.is_admitted:
            self.is_admitted = True
            self.server.connection.max_backlog = MAX_BACKLOG
            self.server.connection.max_frames = MAX_WINDOW

    def receive(self) -> bool:
        """Process what has arrived, before `admit` a piece; return whether the connection is still usable."""
        try:
            return self._receive() if self.is_admitted else self._receive_greeting()
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        except Http2Error as error:
            self.error = str(error)
            return False

    def reject(self, reason: str) -> None:
        """Refuse the client's call."""
        try:
            self.server.reject(FAILED_PRECONDITION, reason)
        except Http2Error as error:
            self.error = str(error)

    # No selector sees what TLS has buffered, so that of a stream that is no socket all is read at once. Who
    # speaks through TLS has shown a token.

    def _receive(self) -> bool:
        server, connection = self.server, self.server.connection
        reads = 0
        while True:
            data = self.stream.recv(_READ)
            if not data:
                return False
            connection.receive_data(data)
            if server.request is not None:
                connection.frames = 0
            else:
                connection.frames -= min(len(data) >> 8, connection.frames)
                if connection.frames > _MAX_FRAMES:
                    self.error = f"it sends {connection.frames:,} frames without a call"
                    return False
            if len(data) < _READ:
                return True
            reads += 1
            if reads >= _READS_AT_ONCE and isinstance(self.stream, socket.socket):
                return True

    def _receive_greeting(self) -> bool:
        size = _GREETING_READ if isinstance(self.stream, socket.socket) else GREETING_BYTES
        data = self.stream.recv(size)
        if not data:
            return False
        connection = self.server.connection
        refuse_oldest_unity(data)
        connection.receive_data(data)
        self._max_bytes -= len(data)
        self._max_reads -= 1
        if self.server.outdated:
            self.error = self.server.outdated
            return False
        if self._max_bytes < 0 or self._max_reads < 0:
            self.error = TOO_MUCH_FOR_GREETING
            return False
        return True


class ServerSession(SocketSession[Peer]):
    """A server for one engine, which calls by gRPC.

    Args:
        listeners: Listening sockets, at which the engine connects, and connects again after it hung up
            between two calls. When it is cut off there, it is warned of, since it may call again.
        peer: A connection that was accepted elsewhere; it may have called already.
        path: The method that the engine calls, of those in `PATHS`; others are no engine of ours.
    """

    def __init__(
        self, listeners: Sequence[socket.socket] = (), peer: Peer | None = None, path: bytes = UNITY_PATH
    ) -> None:
        super().__init__(listeners, peer)
        self._path = path
        self._hung_up_at: float | None = None
        self._longest = 0
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
    def disconnected(self) -> bool:
        """Whether the engine has gone.

        It hung up before it had an answer (its process died, say), or between two calls and did not return.
        """
        if self._hung_up_at is not None and time.monotonic() - self._hung_up_at >= _RECONNECT_SECONDS:
            self._gone = True
        return self._gone

    def reply(self, data: bytes) -> None:
        """Respond to the request received last. Has no effect when the engine has gone meanwhile."""
        engine = self._engine
        if engine is not None and engine.server.has_pending_call:
            engine.server.reply(data)
            self._flush(engine)

    def wait_for_reconnect(self) -> bool:
        """Forget the engine, which has gone, so that another one may begin; return whether one can call."""
        self._gone, self._hung_up_at = False, None
        return bool(self._listeners) and not self._closed

    def close(self, wait: bool = True) -> None:
        """Stop serving. An engine that waits for an answer is told to quit.

        Args:
            wait: Whether to wait for the last bytes to leave, and for the engine to hang up.
        """
        if self._closed:
            return
        self.watch(None)
        self.reply(QUIT)
        if self._engine is not None:
            self._send_goaway(self._engine, wait)
        self._close()

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
        if not peer.is_admitted and (refusal := self._rejection_reason(peer)):
            peer.reject(refusal)
            peer.error = refusal
            return False
        if peer.server.path != self._path:
            self._error = OtherEngineError(self.port, PATHS[peer.server.path], PATHS[self._path])
            peer.reject(str(self._error))
            return False
        self.fault = ""
        peer.admit()
        return True

    def _rejection_reason(self, peer: Peer) -> str:
        """Why a client that has called may not be the engine; empty if it may.

        An engine of another kind is named as that, and not by what it sends.
        """
        refusal = self._acceptor.rejection_reason(peer.name, self.client_rules)
        if not refusal and has_hung_up(peer.stream):  # of a connection that is gone no system tells the owner
            refusal = "it left before it could be answered"
        if not refusal and peer.server.path == self._path and self.objection is not None:
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

    def _drop(self, peer: Peer, reason: str = "") -> None:
        if peer not in self._clients.connected:
            return
        self._clients.remove(peer)
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
            self._handle_events(self._clients.selector.select(remaining))
        if self._engine is engine:
            with suppress(OSError):
                engine.stream.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + LINGER_SECONDS
        while self._engine is engine and (remaining := deadline - time.monotonic()) > 0:
            self._handle_events(self._clients.selector.select(remaining))

    def _accept(self, listener: socket.socket) -> None:
        most = GREETING_BYTES + _GROWTH * self._longest  # an engine that returns may send a whole step
        for connection, name in self._acceptor.accept(listener, self.client_rules, self._is_occupied()):
            self._add(Peer(connection, name, most))
        unadmitted = [peer for peer in self._clients.connected if not peer.is_admitted]
        for peer in unadmitted[:-_MAX_UNADMITTED]:
            self._drop(peer)
