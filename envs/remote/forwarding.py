"""Forward bytes between an engine and a trainer until one of them disconnects, or its machine dies."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

from ..engines.session import Stream
from ..grpc.frames import last_goaway_reason

_READ = 1 << 17
_BACKLOG = 1 << 22
"""Bytes that may wait for one side before reading from the other pauses."""
_TAIL = 1 << 11
"""The number of last bytes of a direction that are kept, which may contain the reason of a rejection."""
_DRAIN_SECONDS = 0.5
"""Seconds of reading from the trainer after the engine has gone: the reason may be on its way."""
_FLUSH_SECONDS = 2.0
"""Seconds for the last bytes to be sent, and for the engine to disconnect."""

_TRAINER_GONE, _ENGINE_GONE, _STOPPED = (
    "the trainer has disconnected",
    "the engine has disconnected",
    "it was stopped",
)


class _Direction:
    """One direction of a connection that is forwarded."""

    def __init__(self, source: Stream, sink: Stream) -> None:
        self.source = source
        self.sink = sink
        self.pending = bytearray()
        self.ended = False
        """Whether the source has disconnected."""
        self.broken = False
        """Whether the sink has disconnected."""
        self.tail = b""

    def move(self) -> None:
        """Receive and send what can be done without waiting."""
        self.receive()
        try:
            while self.pending:
                del self.pending[: self.sink.send(self.pending)]
                self.receive()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.broken = True
            self.pending.clear()

    def receive(self) -> None:
        """Receive what has arrived."""
        while not self.ended and len(self.pending) < _BACKLOG:
            try:
                data = self.source.recv(_READ)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data = b""
            self.ended = not data
            self.pending += data
            self.tail = (self.tail + data)[-_TAIL:]

    @property
    def full(self) -> bool:
        return len(self.pending) >= _BACKLOG


def forward(
    engine: socket.socket, trainer: Stream, stop: socket.socket | None = None, first: bytes | bytearray = b""
) -> str:
    """Forward bytes in both directions until one side disconnects; then close both.

    Args:
        engine: The engine's non-blocking connection.
        trainer: The trainer's non-blocking connection.
        stop: A socket that becomes readable when this is to stop.
        first: The engine's first bytes, which have been received already.

    Returns:
        Why it ended, as a sentence without its full stop.
    """
    to_trainer, to_engine = _Direction(engine, trainer), _Direction(trainer, engine)
    to_trainer.pending += first
    try:
        outcome = _forward(to_trainer, to_engine, stop)
        if outcome is _TRAINER_GONE:
            _flush_to_engine(engine, to_engine.pending)
        elif outcome is _ENGINE_GONE:
            _drain_trainer(trainer, to_engine)
        words = last_goaway_reason(to_engine.tail)
        return f"the trainer rejected the engine: {words}" if words else outcome
    finally:
        with suppress(OSError):
            trainer.shutdown(socket.SHUT_WR)
        trainer.close()
        engine.close()


def _forward(to_trainer: _Direction, to_engine: _Direction, stop: socket.socket | None) -> str:
    """Forward until one side has disconnected and its bytes are delivered; return which side has."""
    engine, trainer = to_trainer.source, to_engine.source
    with DefaultSelector() as selector:
        selector.register(engine, EVENT_READ)
        selector.register(trainer, EVENT_READ)
        if stop is not None:
            selector.register(stop, EVENT_READ, stop)
        while True:
            to_trainer.move()
            to_engine.move()
            if to_engine.ended or to_trainer.broken:
                return _TRAINER_GONE
            if to_engine.broken or (to_trainer.ended and not to_trainer.pending):
                return _ENGINE_GONE
            _update_events(selector, engine, to_trainer, to_engine)
            _update_events(selector, trainer, to_engine, to_trainer)
            if any(key.data is not None for key, _ in selector.select()):
                return _STOPPED


def _update_events(selector: DefaultSelector, stream: Stream, from_it: _Direction, to_it: _Direction) -> None:
    reads = 0 if from_it.full or from_it.ended else EVENT_READ
    events = reads | (EVENT_WRITE if to_it.pending else 0)
    known = selector.get_map().get(stream)
    if known is None:
        if events:
            selector.register(stream, events)
    elif not events:
        selector.unregister(stream)
    elif known.events != events:
        selector.modify(stream, events)


def _drain_trainer(trainer: Stream, to_engine: _Direction) -> None:
    """Tell the trainer at once that the engine has gone, and receive its last bytes."""
    with suppress(OSError), DefaultSelector() as selector:
        trainer.shutdown(socket.SHUT_WR)
        selector.register(trainer, EVENT_READ)
        deadline = time.monotonic() + _DRAIN_SECONDS
        while not to_engine.ended and (left := deadline - time.monotonic()) > 0:
            to_engine.pending.clear()
            if selector.select(left):
                to_engine.receive()


def _flush_to_engine(engine: socket.socket, last: bytearray) -> None:
    """Send the trainer's last bytes to the engine, and give it a moment to disconnect."""
    with suppress(OSError):
        engine.settimeout(_FLUSH_SECONDS)
        engine.sendall(last)
        engine.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _FLUSH_SECONDS
        while engine.recv(_READ) and time.monotonic() < deadline:
            pass


_IDLE_SECONDS = 20
_INTERVAL_SECONDS = 5
_PROBES = 4
_USER_TIMEOUT_MILLISECONDS = 60_000

_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", _IDLE_SECONDS),
    ("TCP_KEEPALIVE", _IDLE_SECONDS),  # its name on macOS
    ("TCP_KEEPINTVL", _INTERVAL_SECONDS),
    ("TCP_KEEPCNT", _PROBES),
)
"""The options of a TCP socket; those that the system does not know are skipped."""


def configure_keepalive(connection: socket.socket, *, always_read: bool = True) -> None:
    """Send small messages at once, and end the connection within a minute when the other machine is gone.

    By default systems take hours to notice that a peer is gone.

    Args:
        connection: A TCP connection.
        always_read: The other side reads at any time. A trainer during an update does not: it may leave our
            bytes unread for longer than a minute, and must not be considered gone for that.
    """
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    user_timeout = (("TCP_USER_TIMEOUT", _USER_TIMEOUT_MILLISECONDS),) if always_read else ()
    for name, value in (*_OPTIONS, *user_timeout):
        if hasattr(socket, name):
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
