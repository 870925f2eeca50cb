"""Bytes from an engine to a trainer and back, until one of them hangs up.

Connections between machines, one of which may lose its power without a word.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

from ..grpc.frames import last_goodbye
from ..grpc.peer import Stream

_READ = 1 << 17
_BACKLOG = 1 << 22
"""Bytes that may wait for one side before the other is asked to pause, by not reading from it."""
_TAIL = 1 << 11
"""Bytes of the trainer's last words."""
_HEARING_SECONDS = 0.5
"""How long a trainer is listened to whose engine has gone: it may be about to say why it sent it away."""
_PARTING_SECONDS = 2.0
"""What the last bytes have to leave, and an engine to hang up."""

_TRAINER_GONE, _ENGINE_GONE, _STOPPED = "the trainer has hung up", "the engine has hung up", "it was stopped"


class _Way:
    """One direction."""

    def __init__(self, source: Stream, sink: Stream) -> None:
        self.source = source
        self.sink = sink
        self.pending = bytearray()
        self.ended = False
        """Whether the source has hung up."""
        self.broken = False
        """Whether the sink has."""
        self.tail = b""

    def move(self) -> None:
        """Take in and send what can be done at once."""
        self.take()
        try:
            while self.pending:
                del self.pending[: self.sink.send(self.pending)]
                self.take()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.broken = True
            self.pending.clear()

    def take(self) -> None:
        """Take in what has come."""
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


def carry(engine: socket.socket, trainer: Stream, stop: socket.socket | None = None) -> str:
    """Carry bytes to and fro; then close both.

    Args:
        engine: Does not block.
        trainer: Does not block.
        stop: A socket that has something as soon as this is to end.

    Returns:
        What has ended it, as a sentence without its full stop.
    """
    to_trainer, to_engine = _Way(engine, trainer), _Way(trainer, engine)
    try:
        outcome = _carry(to_trainer, to_engine, stop)
        if outcome is _TRAINER_GONE:
            _see_off(engine, to_engine.pending)
        elif outcome is _ENGINE_GONE:
            _hear_out(trainer, to_engine)
        words = last_goodbye(to_engine.tail)
        return f"the trainer turned the engine away: {words}" if words else outcome
    finally:
        with suppress(OSError):
            trainer.shutdown(socket.SHUT_WR)
        trainer.close()
        engine.close()


def _carry(to_trainer: _Way, to_engine: _Way, stop: socket.socket | None) -> str:
    """Until one side has ended, and what it said before is with the other; which one."""
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
            _look_for(selector, engine, to_trainer, to_engine)
            _look_for(selector, trainer, to_engine, to_trainer)
            if any(key.data is not None for key, _ in selector.select()):
                return _STOPPED


def _look_for(selector: DefaultSelector, stream: Stream, from_it: _Way, to_it: _Way) -> None:
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


def _hear_out(trainer: Stream, to_engine: _Way) -> None:
    """Let the trainer know at once that the engine has gone, and take in what it says last."""
    with suppress(OSError), DefaultSelector() as selector:
        trainer.shutdown(socket.SHUT_WR)
        selector.register(trainer, EVENT_READ)
        deadline = time.monotonic() + _HEARING_SECONDS
        while not to_engine.ended and (left := deadline - time.monotonic()) > 0:
            to_engine.pending.clear()
            if selector.select(left):
                to_engine.take()


def _see_off(engine: socket.socket, last: bytearray) -> None:
    """Let the trainer's last words reach the engine, and give it a moment to hang up."""
    with suppress(OSError):
        engine.settimeout(_PARTING_SECONDS)
        engine.sendall(last)
        engine.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _PARTING_SECONDS
        while engine.recv(_READ) and time.monotonic() < deadline:
            pass


_IDLE_SECONDS = 20
_AGAIN_SECONDS = 5
_PROBES = 4
_UNHEARD_MILLISECONDS = 60_000

_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", _IDLE_SECONDS),
    ("TCP_KEEPALIVE", _IDLE_SECONDS),  # its name on macOS
    ("TCP_KEEPINTVL", _AGAIN_SECONDS),
    ("TCP_KEEPCNT", _PROBES),
)
"""Each as far as the system knows it."""


def prepare(connection: socket.socket, *, always_read: bool = True) -> None:
    """Let small messages leave at once, and have the connection end within a minute when the other machine is
    gone. By default systems take hours to find out that nobody is there.

    Args:
        connection: TCP.
        always_read: The other side reads at any time. One that does not, as a trainer that updates, may leave
            bytes of ours unread for longer than a minute, and must not be taken for gone because of that.
    """
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    unheard = (("TCP_USER_TIMEOUT", _UNHEARD_MILLISECONDS),) if always_read else ()
    for name, value in (*_OPTIONS, *unheard):
        if hasattr(socket, name):
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
