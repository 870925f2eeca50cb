"""The trainer's end of a game's socket: frames of a length (4 bytes, little-endian) and as many of text.

The trainer listens and the game dials. Whoever dials is greeted, and the first whose answer is a whole frame
of a JSON object is the game: a port scanner or a browser does not take its place. A connection that was
accepted elsewhere, such as a relay's, is the only caller. Nothing here waits but `receive`; no thread is
involved.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, DefaultSelector

from ..callers.rules import CallerRules
from ..grpc.acceptor import Acceptor
from ..grpc.listeners import listen
from ..grpc.peer import Stream
from ..grpc.selector import SpinWait

LENGTH = struct.Struct("<I")
"""Before every message: the number of its bytes."""
MOST_BYTES = 1 << 28
"""Of one message: a hundred pictures of 512 x 512 in hexadecimal digits take 150 MB."""
_MOST_BYTES_OF_STRANGERS = 1 << 20
"""Of the first message of a caller, which describes spaces."""
_MOST_CALLERS = 8
"""Who may be connected before one of them is the game."""
_READ = 1 << 18
_FLUSH_SECONDS = 1.0


class Caller:
    """A connection: its socket, and what has come and is to be sent."""

    def __init__(self, stream: Stream, name: str, greeting: bytes) -> None:
        self.stream = stream
        self.most = _MOST_BYTES_OF_STRANGERS
        """Bytes of a message, at most."""
        self.name = name
        self.received = bytearray()
        self.out = bytearray(greeting)
        self.gone = False
        self.watched = 0
        """The events that selectors report at present."""

    @property
    def events(self) -> int:
        """The events that selectors should report."""
        return EVENT_READ | EVENT_WRITE if self.out else EVENT_READ

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

    def flush(self) -> None:
        """Send as much as the system accepts."""
        try:
            while self.out:
                del self.out[: self.stream.send(self.out)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.gone = True

    @property
    def length(self) -> int:
        """Of the message that has begun; 0 if none has."""
        return 0 if len(self.received) < LENGTH.size else int(LENGTH.unpack_from(self.received)[0])

    def take(self) -> bytes | None:
        """The first message, if it is complete."""
        end = LENGTH.size + self.length
        if len(self.received) < max(end, LENGTH.size):
            return None
        message = bytes(memoryview(self.received)[LENGTH.size : end])
        del self.received[:end]
        return message


class GodotSession:
    """A server for one game, as an `engines.connection.EngineSession`.

    Args:
        greeting: What every caller is sent first: messages, framed.
        listeners: Where it connects, once.
        caller: Its connection, where that was accepted elsewhere; then there are no listeners.
    """

    def __init__(
        self, greeting: bytes, listeners: Sequence[socket.socket] = (), caller: Caller | None = None
    ) -> None:
        self._listeners = list(listeners)
        self._greeting = greeting
        first = listeners[0] if caller is None else caller.stream
        self.port: int = first.getsockname()[1]
        """The port on which the game calls."""
        self.closing_reason = ""
        """Games are not told why."""
        self.fault = ""
        """Why the connection was cut, if it was cut here."""
        self._selector = DefaultSelector()
        self._watcher: BaseSelector | None = None
        self._token: object = None
        self._spin_wait = SpinWait()
        self._callers: list[Caller] = []
        self._game: Caller | None = None
        self._message: bytes | None = None
        self._gone = False
        self._closed = False
        self.callers = CallerRules()
        """Who may call at the listeners."""
        self.objection: Callable[[bytes], str] | None = None
        """Not asked: games connect once."""
        self._acceptor = Acceptor(
            self._listeners, self.port, lambda each: self._register(each, None), self._unregister
        )
        if caller is not None:
            self._add(caller)

    @classmethod
    def listen(cls, port: int, host: str, greeting: bytes) -> GodotSession:
        """Listen for a game.

        Args:
            port: TCP port; 0 takes a free one (see `port`).
            host: As for `grpc.listeners.listen`.
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
        return cls(greeting, caller=Caller(stream, name, greeting))

    @property
    def rejection(self) -> str:
        """Why the last caller was turned away; empty if none was."""
        return self._acceptor.rejection

    @property
    def disconnected(self) -> bool:
        """Whether the game has gone."""
        return self._gone

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register all sockets, now and later, with a selector, so that it reports when to call `pump`.

        Args:
            selector: None unregisters them.
            token: The `data` of the selector's keys.
        """
        keys = list(self._selector.get_map().values())
        if self._watcher is not None:
            for key in keys:
                self._watcher.unregister(key.fileobj)
        self._watcher, self._token = selector, token
        if selector is not None:
            for key in keys:
                selector.register(key.fileobj, key.events, token)

    def pump(self) -> None:
        """Process what has arrived and send what could not be sent before, without waiting."""
        if not self._closed:
            self._acceptor.resume()
            self._handle(0.0)

    def receive(self, timeout: float) -> bytes | None:
        """The game's next message; None if none arrived within `timeout` seconds or the game has gone."""
        if self._message is None and not self._closed:
            if self._game is not None:
                self._receive_from(self._game)
            if self._message is None:
                self._wait(timeout)
        message, self._message = self._message, None
        return message

    def reply(self, data: bytes) -> None:
        """Send a message. Has no effect when the game has gone meanwhile."""
        if self._game is not None:
            self._game.out += LENGTH.pack(len(data)) + data
            self._flush(self._game)

    def await_another(self) -> bool:
        """No: games connect once."""
        return False

    def close(self, wait: bool = True) -> None:
        """Stop listening, and end the connection.

        Args:
            wait: For the last message to leave.
        """
        if self._closed:
            return
        deadline = time.monotonic() + (_FLUSH_SECONDS if wait else 0.0)
        while self._game is not None and self._game.out and time.monotonic() < deadline:
            self._handle(0.05)
        self.watch(None)
        self._closed = self._gone = True
        self._selector.close()
        self._acceptor.close()
        for caller in self._callers:
            caller.stream.close()
        self._callers.clear()
        self._game = None

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self._message is None and not (self._gone or self._closed):
            remaining = deadline - time.monotonic()
            self._acceptor.resume()
            pause = self._acceptor.pause
            self._handle(max(0.0, remaining if pause is None else min(remaining, pause)))
            if remaining <= 0:
                return

    def _handle(self, timeout: float) -> None:
        for key, events in self._spin_wait.wait(self._selector.select, timeout):
            caller = key.data
            if caller is None:
                self._accept(key.fileobj)  # type: ignore[arg-type]
            elif caller in self._callers:
                if events & EVENT_WRITE:
                    self._flush(caller)
                if events & EVENT_READ and caller in self._callers:
                    self._receive_from(caller)

    def _accept(self, listener: socket.socket) -> None:
        for connection, name in self._acceptor.accept(listener, self.callers, self._game is not None):
            if self._game is not None or self._gone:  # nobody goes on where the game has left
                self._acceptor.turn_away(connection, name, "another game is connected already")
            else:
                self._add(Caller(connection, name, self._greeting))
        for stranger in self._callers[:-_MOST_CALLERS] if self._game is None else ():
            self._drop(stranger, "too many others call")

    def _add(self, caller: Caller) -> None:
        self._callers.append(caller)
        self._register(caller.stream, caller)
        self._flush(caller)

    def _receive_from(self, caller: Caller) -> None:
        """Process what has arrived on a connection."""
        caller.read()
        is_game, most = caller is self._game, caller.most
        if caller.length > most:
            self._drop(
                caller, f"it announces a message of {caller.length:,} bytes, and {most:,} are the most"
            )
            return
        if (message := caller.take()) is not None:
            if not message.startswith(b"{"):
                self._drop(caller, "it does not speak the protocol of a Godot game")
                return
            if self._message is not None:
                self._drop(caller, "it sends a message that it was not asked for")
                return
            is_ours = is_game or not self._listeners
            if not is_ours and (refusal := self._acceptor.why_not(caller.name, self.callers)):
                self._drop(caller, refusal)
                return
            self._game, self._message = caller, message
            caller.most = MOST_BYTES
            if not is_game:
                for other in [each for each in self._callers if each is not caller]:
                    self._drop(other, "")
        if caller.gone and (self._message is None or not is_game):
            rest = len(caller.received)
            self._drop(caller, f"it ended within a message, after {rest:,} bytes of it" if rest else "")

    def _flush(self, caller: Caller) -> None:
        caller.flush()
        if caller.gone:
            self._drop(caller, "")
        elif caller.watched != caller.events:
            caller.watched = caller.events
            self._selector.modify(caller.stream, caller.events, caller)
            if self._watcher is not None:
                self._watcher.modify(caller.stream, caller.events, self._token)

    def _drop(self, caller: Caller, reason: str) -> None:
        """A connection has ended, or is ended for this reason."""
        self._callers.remove(caller)
        self._unregister(caller.stream)
        if caller is self._game or not self._listeners:
            self._game, self._gone, self.fault = None, True, reason
        elif reason:
            self._acceptor.log(caller.name, reason)
        caller.stream.close()

    def _register(self, stream: Stream, caller: Caller | None) -> None:
        self._selector.register(stream, EVENT_READ, caller)
        if caller is not None:
            caller.watched = EVENT_READ
        if self._watcher is not None:
            self._watcher.register(stream, EVENT_READ, self._token)

    def _unregister(self, stream: Stream) -> None:
        self._selector.unregister(stream)
        if self._watcher is not None:
            self._watcher.unregister(stream)


def frame(*messages: bytes) -> bytes:
    """Messages as they are sent, one after the other."""
    return b"".join(LENGTH.pack(len(message)) + message for message in messages)
