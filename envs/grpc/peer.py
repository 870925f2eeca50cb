"""One client's connection, and how much of it is read before the client is known to be an engine."""

from __future__ import annotations

import socket

from .calls import FAILED_PRECONDITION, UnaryServer
from .connection import MAX_BACKLOG, TOO_MUCH_FROM_STRANGER
from .frames import MAX_WINDOW, Http2Error
from .session import Client, Stream

_READ = 1 << 17
STRANGER_BYTES = 1 << 16
"""The most bytes of an engine's first call and the HTTP/2 frames before it, usually a few hundred."""
_STRANGER_READ = 1 << 12
_STRANGER_READS = 32
"""In how many pieces these bytes may arrive; more for one that may send more."""
_STRANGER_FRAMES = 100
"""Likewise, of how many frames they may be."""
_MAX_FRAMES = 20_000
"""Frames of a connection between two calls, beyond one for 256 bytes: window updates, pings, and the like."""
_READS_AT_ONCE = 64
"""An engine whose bytes arrive as fast as they are read does not keep others waiting."""


class Peer(Client):
    """One client's connection: its socket and the call that it may have open.

    Until `admit` it is a stranger, which may send little: as much as a first call takes.

    Args:
        stream: The socket.
        name: The client's address.
        max_bytes: How many bytes it may send as a stranger.
    """

    def __init__(self, stream: Stream, name: str, max_bytes: int = STRANGER_BYTES) -> None:
        self.server = UnaryServer()
        super().__init__(stream, name, self.server.connection.out)
        self.server.connection.max_backlog = max_bytes
        self.error = ""
        """Its violation, once `receive` has ended the connection because of it."""
        self._max_bytes = max_bytes
        pieces = max(0, max_bytes - STRANGER_BYTES) // _STRANGER_READ
        self._max_reads = _STRANGER_READS + pieces
        self.server.connection.max_frames = _STRANGER_FRAMES + pieces
        self.is_stranger = True
        """Whether it may be anybody."""

    def admit(self) -> None:
        """It is an engine: from now on it may send as much as it likes."""
        if self.is_stranger:
            self.is_stranger = False
            self.server.connection.max_backlog = MAX_BACKLOG
            self.server.connection.max_frames = MAX_WINDOW

    def receive(self) -> bool:
        """Process what has arrived, of a stranger only a piece; whether the connection is still usable."""
        try:
            return self._receive_from_stranger() if self.is_stranger else self._receive()
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        except Http2Error as error:
            self.error = str(error)
            return False

    def reject(self, reason: str) -> None:
        """Refuse its call."""
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

    def _receive_from_stranger(self) -> bool:
        size = _STRANGER_READ if isinstance(self.stream, socket.socket) else STRANGER_BYTES
        data = self.stream.recv(size)
        if not data:
            return False
        connection = self.server.connection
        connection.receive_data(data)
        self._max_bytes -= len(data)
        self._max_reads -= 1
        if self._max_bytes < 0 or self._max_reads < 0:
            self.error = TOO_MUCH_FROM_STRANGER
            return False
        return True
