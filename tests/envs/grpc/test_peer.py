"""How much of a stranger is read, and of an engine that floods: between two sockets of this process."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from http2peer import HELLO, Caller
from lanista.envs.grpc.frames import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, frame
from lanista.envs.grpc.server import GREETING_BYTES, Peer

PIECE = 1 << 16
MOST_TURNS = 100


@pytest.fixture
def connect() -> Iterator[Callable[..., tuple[Peer, socket.socket]]]:
    ends: list[socket.socket] = []

    def connect(admitted: bool = False) -> tuple[Peer, socket.socket]:
        near, far = socket.socketpair()
        ends.extend((near, far))
        near.setblocking(False)
        far.setblocking(False)
        peer = Peer(near, "a stranger")
        if admitted:
            peer.admit()
        return peer, far

    yield connect
    for end in ends:
        end.close()


def unfinished() -> bytes:
    """A call of two gigabytes that has begun."""
    return Caller().begin(1) + frame(DATA, 0, 1, struct.pack(">BI", 0, 2**31 - 100))


FLOODS = {
    "questions": (HELLO, frame(PING, 0, 0, bytes(8))),
    "frames of an unknown type": (HELLO, frame(0x77, 0, 0)),
    "a message without an end": (HELLO + unfinished(), frame(DATA, 0, 1, bytes(16_384))),
    "large frames of an unknown type": (HELLO, frame(0x77, 0, 0, bytes(16_384))),
}


def turns_until_it_ends(peer: Peer, far: socket.socket, start: bytes, piece: bytes) -> int:
    """How often it is read while it sends the start, then the piece without end; its answers are not read."""
    out = bytearray(start)
    for turn in range(1, MOST_TURNS + 1):
        out += piece * (max(0, PIECE - len(out)) // len(piece) + 1)
        with suppress(BlockingIOError):
            while out:
                del out[: far.send(out)]
        if not peer.receive():
            return turn
    raise AssertionError("it is still read")


@pytest.mark.parametrize("flood", FLOODS)
def test_a_stranger_may_send_as_much_as_a_greeting_has(connect, flood: str) -> None:
    peer, far = connect()
    turns_until_it_ends(peer, far, *FLOODS[flood])
    assert "more than an engine's greeting" in peer.error or "does not read" in peer.error
    assert len(peer.server.connection.out) < 2 * GREETING_BYTES


def test_of_a_flood_of_frames_no_more_are_looked_at_than_a_greeting_has(connect) -> None:
    """One read of small frames had hundreds, each of which took its time."""
    peer, far = connect()
    far.sendall(HELLO + frame(PING, 0, 0, bytes(8)) * 200)
    assert not peer.receive()
    assert "more than an engine's greeting" in peer.error
    assert 90 < peer.server.connection.out.count(frame(PING, ACK, 0, bytes(8))) <= 100


def test_a_stranger_that_drips_is_read_so_often_only(connect) -> None:
    peer, far = connect()
    far.sendall(HELLO)
    assert peer.receive()
    for byte in frame(0x77, 0, 0, bytes(MOST_TURNS)):
        far.sendall(bytes((byte,)))
        if not peer.receive():
            break
    assert "more than an engine's greeting" in peer.error


def test_one_turn_reads_a_piece_of_what_a_stranger_has_sent(connect) -> None:
    peer, far = connect()
    far.sendall(HELLO + frame(0x77, 0, 0, bytes(16_384)) * 2)
    assert peer.receive()
    assert peer.stream.recv(1 << 17), "others have their turn before the rest"


def test_refusals_repeat_little_of_a_long_method_and_end_where_they_are_not_read(connect) -> None:
    """A method of 3.9 kB that stands in the client's table costs it ten bytes a call."""
    path = b"/" + b"\xff" * 3900
    length = len(path) - 127
    first = b"\x83\x86\x44\x7f" + bytes((length & 127 | 128, length >> 7)) + path
    first += b"\x5f\x10application/grpc"
    end = END_HEADERS | END_STREAM
    peer, far = connect()
    far.sendall(HELLO + frame(HEADERS, end, 1, first))
    assert peer.receive()
    assert len(peer.server.connection.out) < 2000
    for begin in range(3, 8192, 64):
        streams = range(begin, begin + 64, 2)
        far.sendall(b"".join(frame(HEADERS, end, k, b"\x83\x86\xbf\xbe") for k in streams))
        if not peer.receive():
            break
    assert peer.error
    assert len(peer.server.connection.out) < 4 * GREETING_BYTES


@pytest.mark.parametrize("flood", ["questions", "frames of an unknown type"])
def test_an_engine_that_sends_frames_and_no_call_is_disconnected(connect, flood: str) -> None:
    """Each turn reads all that has arrived, so that such an engine would take all of the trainer's time."""
    peer, far = connect(admitted=True)
    turns_until_it_ends(peer, far, *FLOODS[flood])
    assert "frames without a call" in peer.error or "does not read" in peer.error


def test_an_engine_may_send_many_frames_with_its_calls(connect) -> None:
    peer, far = connect(admitted=True)
    caller = Caller()
    far.sendall(HELLO)
    for stream in range(1, 401, 2):
        far.sendall(frame(0x77, 0, 0) * 200 + caller.call(stream, b"x"))
        assert peer.receive(), peer.error
        assert peer.server.request == b"x"
        peer.server.request = None
        peer.server.reply(b"")
        peer.server.connection.out.clear()
