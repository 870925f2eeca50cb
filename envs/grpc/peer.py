"""A connection that somebody has opened to a trainer, and the calls that come over it."""

from __future__ import annotations

from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Protocol

from .calls import UnaryServer
from .frames import ProtocolError

_READ = 1 << 17


class Stream(Protocol):
    """A socket that does not block, or what stands for one, such as the inside of TLS.

    `recv` and `send` raise BlockingIOError where they would have to wait. What `recv` leaves behind, having
    given less than it was asked for, shows at the socket: a selector tells of it.
    """

    def recv(self, size: int, /) -> bytes:
        """What has come, up to `size` bytes; b"" at the end."""

    def send(self, data: bytearray, /) -> int:
        """Send what can be sent at once; how many bytes that were."""

    def fileno(self) -> int:
        """The socket's number, for selectors."""

    def shutdown(self, how: int, /) -> None:
        """Hang up."""

    def close(self) -> None:
        """Let go of the socket."""

    def getsockname(self) -> Any:
        """Our own address."""


class Peer:
    """One connection, of which the other side calls, and what is to be sent over it."""

    def __init__(self, stream: Stream, name: str) -> None:
        """`name` is the address of the other side."""
        self.stream = stream
        self.name = name
        self.server = UnaryServer()
        self.allowance: int | None = None
        """Bytes that it may still send before it is hung up on; None for any number."""
        self.complaint = ""
        """What it did wrong, once `read` has ended it for that."""
        self.watched = EVENT_READ
        """What selectors look for, so that who owns it sees when `events` have changed."""

    @property
    def events(self) -> int:
        """What selectors should look for."""
        return EVENT_READ | EVENT_WRITE if self.server.connection.out else EVENT_READ

    def read(self) -> bool:
        """Take in what has come; whether the connection is still of use."""
        try:
            while True:
                data = self.stream.recv(_READ)
                if not data:
                    return False
                self.server.connection.feed(data)
                if self.allowance is not None:
                    self.allowance -= len(data)
                    if self.allowance < 0:
                        self.complaint = "it sends more than an engine's greeting has"
                        return False
                if len(data) < _READ:
                    return True
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        except ProtocolError as error:
            self.complaint = str(error)
            return False

    def flush(self) -> bool:
        """Send what there is to be sent, as much as the system takes; whether the connection still is."""
        out = self.server.connection.out
        try:
            while out:
                del out[: self.stream.send(out)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            return False
        return True
