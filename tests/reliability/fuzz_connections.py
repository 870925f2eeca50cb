"""What reads the bytes of a connection before there are messages: HTTP/2, frames, the relay."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

from fuzz_target import Target, refusal
from fuzz_wire import NAME, chosen, with_choice
from http2peer import HELLO, Caller
from lanista.envs.engines.address import AllowedNetworks
from lanista.envs.engines.callers import UnwantedError
from lanista.envs.godot.session import GodotSession
from lanista.envs.godot.session import frame as godot_frame
from lanista.envs.grpc.calls import StatusError, UnaryClient, UnaryServer
from lanista.envs.grpc.frames import PREFACE, ErrorCode, Http2Error, goaway, last_goaway_reason
from lanista.envs.grpc.server import Peer, ServerSession
from lanista.envs.protocol.engine import encode_hello
from lanista.envs.protocol.handshake import UNITY_PATH
from lanista.envs.remote.handshake import AccessRules, IncomingConnection, RejectedError
from lanista.envs.remote.preamble import Preamble, PreambleError, decode_answer
from lanista.envs.remote.relay import Relay
from lanista.trainers.cli.page_server import PageRequest, PageServer, is_request

MOST_OUT = 4 << 20
"""Bytes of answers that may wait for a caller."""


class Loopback(socket.socket):
    """A socket of this process that has an address, as those of callers have."""

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 5005


def carried(data: bytes, serve: Callable[[socket.socket, Callable[[], bool]], object]) -> None:
    """Let a server read an input from a socket; it calls back to have the next piece sent."""
    end, far = socket.socketpair()
    near = Loopback(fileno=end.detach())
    pieces = iter([data[at : at + 4096] for at in range(0, len(data), 4096)])
    near.setblocking(False)
    far.setblocking(False)

    def more() -> bool:
        piece = next(pieces, None)
        with suppress(OSError):
            if piece is None:
                far.shutdown(socket.SHUT_WR)
            else:
                far.sendall(piece)
            while far.recv(1 << 16):
                pass
        return piece is not None

    try:
        serve(near, more)
    finally:
        near.close()
        far.close()


def read_godot_frames(data: bytes) -> None:
    def serve(near: socket.socket, more: Callable[[], bool]) -> None:
        session = GodotSession.of_stream(near, NAME, b"{}")
        going = True
        while going and not session.disconnected:
            going = more()
            while (message := session.receive(0.0)) is not None:
                assert message.startswith(b"{")
                session.reply(b"{}")
        session.close(wait=False)

    carried(data, serve)


def read_frames(data: bytes) -> None:
    """HTTP/2: as the trainer, of a stranger and of an engine; as a scene's engine."""
    number, rest = chosen(data, 3)
    if number == 2:
        client = UnaryClient("localhost", UNITY_PATH)
        client.call(b"x")
        with refusal(Http2Error, StatusError, names=""):
            client.receive_data(rest)
            assert len(client.connection.out) < MOST_OUT
        return

    def serve(near: socket.socket, more: Callable[[], bool]) -> None:
        peer = Peer(near, NAME)
        if number:
            peer.admit()
        session = ServerSession(peer=peer)
        going = True
        while going and not session.disconnected:
            going = more()
            while session.receive(0.0) is not None:
                session.reply(b"answer")
            assert len(peer.server.connection.out) < MOST_OUT
        session.close(wait=False)

    carried(rest, serve)


def frame_seeds() -> list[bytes]:
    caller, client = Caller(), UnaryClient("localhost", UNITY_PATH)
    client.call(encode_hello("1.5.0", "4.0.0", "Game"))
    asked = HELLO + caller.call(1, b"first") + caller.call(3, b"second" * 400)
    server = UnaryServer()
    server.connection.receive_data(HELLO + Caller().call(1, b"first"))
    server.reply(b"answer" * 100)
    answered = [bytes(server.connection.out), goaway(1, ErrorCode.NO_ERROR, "why")]
    return with_choice([[asked, bytes(client.connection.out)], [asked], answered])


class PlainTls:
    """Stands for TLS, which is OpenSSL's: the bytes are plain."""

    def __init__(self, near: socket.socket | None = None) -> None:
        self.near = near

    def wrap_socket(self, near: socket.socket, **options: object) -> PlainTls:
        return PlainTls(near)

    def do_handshake(self) -> None:
        pass

    def __getattr__(self, name: str) -> object:
        return getattr(self.near, name)


def read_relay(data: bytes) -> None:
    """A relay's line, an answer to it, the reason of a rejection, a connection that is not admitted yet."""
    number, rest = chosen(data, 5)
    if number == 0:
        with refusal(PreambleError, names=""):
            assert "\n" not in repr(Preamble.decode(rest))
    elif number == 1:
        with refusal(PreambleError, names=""):
            answer = decode_answer(rest)
            assert answer is None or answer.reason.isprintable()
    elif number == 2:
        assert last_goaway_reason(rest).isprintable()
    else:
        carried(rest, attached if number == 3 else attached_by_relay)


def attached(near: socket.socket, more: Callable[[], bool], tls: PlainTls | None = None) -> None:
    def answer(preamble: Preamble, host: str) -> None:
        if preamble.token != "token" * 4:
            raise RejectedError("its token is wrong")

    rules = AccessRules(AllowedNetworks(), tls)  # type: ignore[arg-type]
    caller = IncomingConnection(near, "127.0.0.1", 9, rules, answer, 0.0)
    going = True
    with refusal(RejectedError, names=""):
        while going:
            going = more()
            if not isinstance(engine := caller.advance(), int):
                if engine is not None:
                    engine.reject()
                break
    caller.close()


def attached_by_relay(near: socket.socket, more: Callable[[], bool]) -> None:
    attached(near, more, PlainTls())


def relay_seeds() -> list[bytes]:
    client = UnaryClient("localhost", UNITY_PATH)
    client.call(encode_hello("1.5.0", "4.0.0", "Game"))
    greeting, line = bytes(client.connection.out), Preamble("token" * 4, "left").encode()
    lists = [[line[:-1]], [b"ok", b"no because"], [goaway(1, ErrorCode.NO_ERROR, "because")], [greeting]]
    return with_choice([*lists, [b"\x16" + line[1:], line, line + greeting]])


def read_callers(data: bytes) -> None:
    """What says whether a caller has begun, of a relay and of a page, and what answers a page's requests."""
    number, rest = chosen(data, 2)
    if number == 0:
        relay = object.__new__(Relay)
        relay.is_greeted = False
        with refusal(UnwantedError, names=""):
            relay._is_begun(bytearray(rest))
    elif is_request(bytearray(rest)):
        page = PageServer(lambda: b"page", 0)
        with page:
            host = f"Host: 127.0.0.1:{page.port}".encode()
            answer = PageRequest(rest.replace(b"/PATH/", page.path.encode()).replace(b"Host", host), page)
        assert len(answer.answer) < 2000


def caller_seeds() -> list[bytes]:
    request = b"GET /PATH/ HTTP/1.1\r\nHost\r\nAccept: */*\r\n\r\n"
    return with_choice([[PREFACE, PREFACE[:9], b'{"AcademyName": 1}'], [request, b"HEAD / HTTP/1.0\n\n"]])


CONNECTIONS = {
    "callers": Target(caller_seeds, read_callers),
    "godot_frames": Target(
        lambda: [godot_frame(b"{}", b'{"a": 1}'), godot_frame(b"{" * 9000)], read_godot_frames
    ),
    "frames": Target(frame_seeds, read_frames),
    "relay": Target(relay_seeds, read_relay),
}
