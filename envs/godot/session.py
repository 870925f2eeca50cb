"""The trainer's end of a game's socket: frames of a length (4 bytes, little-endian) and as many of text.

The trainer listens and the game dials. Whoever dials is greeted, and the first whose answer is a whole frame
of a JSON object is the game: a port scanner or a browser does not take its place. A connection that was
accepted elsewhere, such as a relay's, is the only client. Nothing here waits but `receive`; no thread is
involved.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from ..engines.listening import listen
from ..engines.session import Client, SocketSession, Stream

LENGTH = struct.Struct("<I")
"""The format of the number before every message, that of its bytes."""
MOST_BYTES = 1 << 28
"""The most bytes of one message: a hundred pictures of 512 x 512 in hexadecimal digits take 150 MB."""
_MAX_GREETING_BYTES = 1 << 20
"""The most bytes of the first message of a client, which describes spaces."""
_MAX_CLIENTS = 8
"""The most clients that may be connected before one of them is the game."""
_READ = 1 << 18
_FLUSH_SECONDS = 1.0


class GodotClient(Client):
    """A connection, and the part of a message that has arrived."""

    def __init__(self, stream: Stream, name: str, greeting: bytes) -> None:
        super().__init__(stream, name, bytearray(greeting))
        self.most = _MAX_GREETING_BYTES
        """The most bytes of a message."""
        self.received = bytearray()

    def read(self) -> None:
        """Take what has arrived, at most one frame too much."""
        try:
            while len(self.received) < LENGTH.size + self.length and self.length <= self.most:
                data = self.stream.recv(_READ)
                if not data:
                    self.gone = True
                    return
                self.received += data
                if len(data) < _READ:
                    return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.gone = True

    @property
    def length(self) -> int:
        """The number of bytes of the message that has begun; 0 if none has begun."""
        return 0 if len(self.received) < LENGTH.size else int(LENGTH.unpack_from(self.received)[0])

    def take(self) -> bytes | None:
        """The first message, if it is complete."""
        end = LENGTH.size + self.length
        if len(self.received) < max(end, LENGTH.size):
            return None
        message = bytes(memoryview(self.received)[LENGTH.size : end])
        del self.received[:end]
        return message


class GodotSession(SocketSession[GodotClient]):
    """A server for one game, which is not told why the session is closed, and connects once.

    Args:
        greeting: What every client is sent first: messages, framed.
        listeners: The sockets at which the game connects.
        client: The game's connection, where that was accepted elsewhere; then there are no listeners.
    """

    def __init__(
        self, greeting: bytes, listeners: Sequence[socket.socket] = (), client: GodotClient | None = None
    ) -> None:
        super().__init__(listeners, client)
        self._greeting = greeting
        if client is not None:
            self._add(client)

    @classmethod
    def listen(cls, port: int, host: str, greeting: bytes) -> GodotSession:
        """Listen for a game.

        Args:
            port: TCP port; 0 takes a free one (see `port`).
            host: As for `engines.listening.listen`.
            greeting: What the game is sent first.

        Raises:
            AddressInUseError: Another listener has the port.
            PermissionError: This user may not listen on this port.
            OSError: The address is not one of this machine.
        """
        return cls(greeting, listen(host, port))

    @classmethod
    def of_stream(cls, stream: Stream, name: str, greeting: bytes) -> GodotSession:
        """Serve the game at the other end of a connection, which has sent nothing yet.

        Args:
            stream: The connection.
            name: Where it comes from, for messages.
            greeting: What the game is sent first.
        """
        return cls(greeting, client=GodotClient(stream, name, greeting))

    def reply(self, data: bytes) -> None:
        """Send a message. Has no effect when the game has gone meanwhile."""
        if self._engine is not None:
            self._engine.out += LENGTH.pack(len(data)) + data
            self._flush(self._engine)

    def wait_for_reconnect(self) -> bool:
        """Return False: games connect once."""
        return False

    def close(self, wait: bool = True) -> None:
        """Stop listening, and end the connection.

        Args:
            wait: Whether to wait for the last message to leave.
        """
        if self._closed:
            return
        deadline = time.monotonic() + (_FLUSH_SECONDS if wait else 0.0)
        while self._engine is not None and self._engine.out and time.monotonic() < deadline:
            self._handle_events(self._clients.selector.select(0.05))
        self.watch(None)
        self._gone = True
        self._close()

    def _accept(self, listener: socket.socket) -> None:
        for connection, name in self._acceptor.accept(listener, self.client_rules, self._engine is not None):
            if self._engine is not None or self._gone:  # nobody goes on where the game has left
                self._acceptor.turn_away(connection, name, "another game is connected already")
            else:
                self._add(GodotClient(connection, name, self._greeting))
        for early in list(self._clients.connected)[:-_MAX_CLIENTS] if self._engine is None else ():
            self._drop(early, "too many others call")

    def _receive_from(self, client: GodotClient) -> None:
        client.read()
        is_game, most = client is self._engine, client.most
        if client.length > most:
            self._drop(
                client, f"it announces a message of {client.length:,} bytes, and {most:,} are the most"
            )
            return
        if (message := client.take()) is not None:
            if not message.startswith(b"{"):
                self._drop(client, "it does not speak the protocol of a Godot game")
                return
            if self.request is not None:
                self._drop(client, "it sends a message that it was not asked for")
                return
            is_ours = is_game or not self._listeners
            if not is_ours and (refusal := self._acceptor.rejection_reason(client.name, self.client_rules)):
                self._drop(client, refusal)
                return
            self._engine, self.request = client, message
            client.most = MOST_BYTES
            if not is_game:
                for other in [each for each in self._clients.connected if each is not client]:
                    self._drop(other)
        if client.gone and (self.request is None or not is_game):
            rest = len(client.received)
            self._drop(client, f"it ended within a message, after {rest:,} bytes of it" if rest else "")

    def _drop(self, client: GodotClient, reason: str = "") -> None:
        self._clients.remove(client)
        if client is self._engine or not self._listeners:
            self._engine, self._gone, self.fault = None, True, reason
        elif reason:
            self._acceptor.log(client.name, reason)
        client.stream.close()


def frame(*messages: bytes) -> bytes:
    """Messages as they are sent, one after the other."""
    return b"".join(LENGTH.pack(len(message)) + message for message in messages)
