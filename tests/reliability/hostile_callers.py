"""Connections that a hostile or careless program opens to a trainer's port, one kind for each name.

    python tests/reliability/hostile_callers.py pings 5005           # goes on until it is killed
    python tests/reliability/hostile_callers.py crowd 5005 10000     # so many connections, of all kinds

`strangers.py` measures what they do to a run. As a script each keeps hitting the port; the functions make one
connection each.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lanista.envs.grpc.calls import UnaryClient
from lanista.envs.grpc.frames import DATA, END_HEADERS, END_STREAM, HEADERS, PING, frame
from lanista.envs.protocol.engine import encode_hello
from lanista.envs.protocol.handshake import UNITY_PATH

PATIENCE_SECONDS = 5.0
PIECE = 1 << 16
"""Bytes that are sent at once."""
CROWD = "crowd"
THREADS = 8
"""Of a crowd."""
BRIEF_SECONDS = 0.2
"""How long one of a crowd waits for anything."""


def connect(port: int, data: bytes = b"") -> socket.socket:
    """A connection on which these bytes have been sent."""
    caller = socket.create_connection(("127.0.0.1", port), socket.getdefaulttimeout() or PATIENCE_SECONDS)
    caller.sendall(data)
    return caller


def preface() -> bytes:
    """What every client of HTTP/2 sends first."""
    return bytes(UnaryClient("localhost", UNITY_PATH).connection.out)


def greeting() -> bytes:
    """The first call of an engine."""
    client = UnaryClient("localhost", UNITY_PATH)
    client.call(encode_hello("Stranger", "4.0.0"))
    return bytes(client.connection.out)


def flood(port: int, start: bytes, piece: bytes, pieces: int | None = None) -> None:
    """Send a start, then a piece again and again; what comes back is not read."""
    with connect(port, start) as caller:
        for _ in count() if pieces is None else range(pieces):
            caller.sendall(piece)


def pings(port: int) -> None:
    """Questions whose answers are not read."""
    flood(port, preface(), frame(PING, 0, 0, bytes(8)) * (PIECE // 17))


def unknown(port: int) -> None:
    """Frames of an unknown type, which are to be ignored."""
    flood(port, preface(), frame(0x77, 0, 0) * (PIECE // 9))


def refused(port: int) -> None:
    """Calls of a method that is not there, whose name, of 3.9 kB, comes back with the refusals."""
    path = b"/" + b"\xff" * 3900
    length = len(path) - 127
    # Fields that go into the dynamic table: a later block is one byte for each.
    first = b"\x83\x86\x44\x7f" + bytes((length & 127 | 128, length >> 7)) + path
    first += b"\x5f\x10application/grpc"
    start = preface() + frame(HEADERS, END_HEADERS | END_STREAM, 1, first)
    with connect(port, start) as caller:
        for first_stream in count(3, 4096):
            streams = range(first_stream, first_stream + 4096, 2)
            caller.sendall(
                b"".join(frame(HEADERS, END_HEADERS | END_STREAM, k, b"\x83\x86\xbf\xbe") for k in streams)
            )


def unfinished(port: int) -> None:
    """Three calls of two gigabytes that never end."""
    client = UnaryClient("localhost", UNITY_PATH)
    client.call(b"")
    start = bytes(client.connection.out)[: -len(frame(DATA, END_STREAM, 1, bytes(5)))]
    start += frame(DATA, 0, 1, struct.pack(">BI", 0, 2**31 - 100))
    callers = [connect(port, start) for _ in range(3)]
    for k in count():
        callers[k % 3].sendall(frame(DATA, 0, 1, bytes(16384)) * 16)


def drip(port: int) -> None:
    """Frames a byte at a time."""
    with connect(port, preface()) as caller:
        caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in count():
            for byte in frame(0x77, 0, 0):
                caller.sendall(bytes((byte,)))


def http(port: int) -> None:
    """A browser."""
    with connect(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as caller:
        while caller.recv(4096):
            pass


def connects(port: int) -> None:
    """Connections that end at once."""
    connect(port).close()


def leave(port: int) -> None:
    """An engine that greets and leaves."""
    with connect(port, greeting()) as caller:
        caller.recv(4096)


def stay(port: int) -> None:
    """An engine that greets, and never calls again."""
    with connect(port, greeting()) as caller:
        while caller.recv(4096):
            pass


def greet_and_flood(port: int) -> None:
    """An engine that greets, and then sends frames that mean nothing."""
    flood(port, greeting(), frame(0x77, 0, 0) * (PIECE // 9))


CALLERS: dict[str, Callable[[int], None]] = {
    each.__name__: each
    for each in (
        *(pings, unknown, refused, unfinished, drip, http, connects),
        *(leave, stay, greet_and_flood),
    )
}


def reset(port: int) -> None:
    """A greeting whose connection is reset at once."""
    with connect(port, greeting()) as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def noise(port: int) -> None:
    """Bytes that mean nothing."""
    flood(port, b"", random.randbytes(PIECE), 1)


def announced(port: int) -> None:
    """A call of two gigabytes of which a part comes."""
    client = UnaryClient("localhost", UNITY_PATH)
    client.call(b"")
    start = bytes(client.connection.out)[: -len(frame(DATA, END_STREAM, 1, bytes(5)))]
    flood(port, start, frame(DATA, 0, 1, struct.pack(">BI", 0, 2**31 - 100) + bytes(10_000)), 1)


BRIEF: tuple[Callable[[int], None], ...] = (
    *(http, connects, leave, reset, noise, announced),
    lambda port: flood(port, preface(), frame(PING, 0, 0, bytes(8)) * (PIECE // 17), 1),
    lambda port: flood(port, preface(), frame(0x77, 0, 0) * (PIECE // 9), 1),
    lambda port: flood(port, greeting(), frame(0x77, 0, 0) * (PIECE // 9), 1),
)
"""Connections that end soon; those which are kept waiting are given up."""


def crowd(port: int, connections: int) -> int:
    """Make so many connections; how many could be established and did not wait in vain."""
    socket.setdefaulttimeout(BRIEF_SECONDS)

    def one(number: int) -> bool:
        try:
            BRIEF[number % len(BRIEF)](port)
        except ConnectionRefusedError:
            return False
        except TimeoutError:
            return False
        except OSError:  # it was cut off
            return True
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(one, range(connections)))


def main() -> None:
    """Hit a port until killed, or with a crowd."""
    name, port = sys.argv[1], int(sys.argv[2])
    if name == CROWD:
        print(crowd(port, int(sys.argv[3])), flush=True)
        return
    while True:
        try:
            CALLERS[name](port)
        except ConnectionRefusedError:
            time.sleep(0.05)
        except OSError:
            pass


if __name__ == "__main__":
    main()
