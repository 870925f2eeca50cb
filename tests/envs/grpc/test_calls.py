"""gRPC's unary calls over HTTP/2, without sockets: ways to write a call, and rules that one can break."""

import struct

import pytest
from http2peer import HELLO, Caller, Reader, data, prefixed
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.grpc import calls as unary
from lanista.envs.grpc import connection as http2
from lanista.envs.grpc import frames
from lanista.envs.grpc.calls import StatusError, UnaryClient, UnaryServer
from lanista.envs.grpc.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Http2Error,
    SettingCode,
    frame,
)


def greeted(*settings: tuple[SettingCode, int]) -> tuple[UnaryServer, Caller, Reader]:
    """A server whose client has said hello, with these settings."""
    server, reader = UnaryServer(), Reader()
    server.connection.receive_data(frames.PREFACE + frames.settings_frame(settings))
    reader.read(server.connection.out)
    return server, Caller(), reader


def taken(server: UnaryServer) -> bytes:
    request, server.request = server.request, None
    assert request is not None
    return request


def in_pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, offset = [], 0
    for size in sizes:
        pieces.append(data[offset : offset + size])
        offset += size
    return [*pieces, data[offset:]]


def window(stream: int, increment: int) -> bytes:
    return frames.window_update(stream, increment)


# What the server understands ------------------------------------------------------------------------------


def test_the_server_announces_that_large_messages_may_come() -> None:
    reader = Reader().read(UnaryServer().connection.out)
    (kind, _, _, payload), (update, _, stream, increment) = reader.others
    assert (kind, update, stream) == (SETTINGS, WINDOW_UPDATE, 0)
    assert dict(frames.parse_settings(payload))[SettingCode.INITIAL_WINDOW_SIZE] == 2**31 - 1
    assert frames.parse_uint32(increment, "") == 2**31 - 1 - 65_535


@given(st.lists(st.integers(1, 60), max_size=30), st.lists(st.binary(max_size=300), min_size=1, max_size=4))
@settings(max_examples=60)
def test_calls_arrive_in_whatever_pieces(sizes: list[int], messages: list[bytes]) -> None:
    server, caller, reader = UnaryServer(), Caller(), Reader()
    server.connection.receive_data(HELLO)
    for number, message in enumerate(messages):
        stream = 2 * number + 1
        for piece in in_pieces(caller.call(stream, message), sizes):
            server.connection.receive_data(piece)
        assert server.has_pending_call
        assert taken(server) == message
        server.reply(message[::-1])
        assert not server.has_pending_call
        assert reader.read(server.connection.out).message(stream) == message[::-1]


def test_a_message_may_be_split_over_frames_anywhere() -> None:
    server, caller, _ = greeted()
    body = prefixed(bytes(range(200)))
    pieces = b"".join(data(1, body[i : i + 1], end=False) for i in range(len(body)))
    server.connection.receive_data(caller.begin(1) + data(1, b"", end=False) + pieces)
    assert server.request is None
    server.connection.receive_data(data(1, b""))
    assert taken(server) == bytes(range(200))


def test_padding_priorities_and_continuations_mean_nothing() -> None:
    server, caller, _ = greeted()
    block = caller.block()
    priority = struct.pack(">IB", 0, 15)
    head = frame(HEADERS, PADDED | PRIORITIZED, 1, b"\x07" + priority + block[:10] + bytes(7))
    middle = frame(CONTINUATION, 0, 1, block[10:20])
    end = frame(CONTINUATION, END_HEADERS, 1, block[20:])
    padded = frame(DATA, PADDED | END_STREAM, 1, b"\x03" + prefixed(b"abc") + bytes(3))
    server.connection.receive_data(frame(PRIORITY, 0, 1, priority) + head + middle + end + padded)
    assert taken(server) == b"abc"


def test_frames_of_unknown_types_and_settings_are_ignored() -> None:
    server, caller, _ = greeted()
    unknown = frame(0xBE, 0xFF, 1, b"xyz") + frame(SETTINGS, 0, 0, struct.pack(">HI", 0xF000, 1))
    server.connection.receive_data(unknown + caller.call(1, b"x"))
    assert taken(server) == b"x"


def test_trailers_may_end_a_call() -> None:
    server, caller, _ = greeted()
    server.connection.receive_data(caller.begin(1) + data(1, prefixed(b"abc"), end=False))
    trailers = caller.encoder.encode([("x-checksum", "1")])
    server.connection.receive_data(frame(HEADERS, END_HEADERS | END_STREAM, 1, trailers))
    assert taken(server) == b"abc"


def test_headers_are_read_by_the_table_as_it_is_now() -> None:
    """A block that was remembered means something else once the table has changed."""
    server, caller, reader = greeted()
    blocks = []
    for stream in range(1, 40, 2):
        blocks.append(caller.block(user_agent=f"agent {stream % 6}"))
        server.connection.receive_data(
            frame(HEADERS, END_HEADERS, stream, blocks[-1]) + data(stream, prefixed(b"x"))
        )
        assert taken(server) == b"x"
        server.reply(b"y")
    assert len(set(blocks)) < len(blocks), "some were sent again"
    caller.encoder.header_table_size = 0
    caller.encoder.header_table_size = 4096
    other = caller.begin(41, path="/other.Service/Method")
    server.connection.receive_data(other + data(41, prefixed(b"x")))
    assert reader.read(server.connection.out).status(41)[0] == unary.UNIMPLEMENTED
    server.connection.receive_data(caller.call(43, b"z"))
    assert taken(server) == b"z"


def test_pings_and_settings_are_answered() -> None:
    server, _, reader = greeted()
    assert (SETTINGS, ACK, 0, b"") in reader.others
    server.connection.receive_data(frame(PING, 0, 0, b"12345678") + frame(PING, ACK, 0, b"87654321"))
    assert reader.read(server.connection.out).others[-1] == (PING, ACK, 0, b"12345678")


def test_the_connections_window_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "_WINDOW_UPDATE_AFTER", 1000)
    server, caller, reader = greeted()
    for stream in (1, 3, 5):
        server.connection.receive_data(caller.call(stream, bytes(395)))
        taken(server)
        server.reply(b"")
        reader.read(server.connection.out)
    _, *later = (payload for kind, *_, payload in reader.others if kind == WINDOW_UPDATE)
    assert later == [struct.pack(">I", 1200)]


# What the server sends ------------------------------------------------------------------------------------


def test_a_reply_waits_for_the_windows_of_the_stream_and_of_the_connection() -> None:
    server, caller, reader = greeted((SettingCode.INITIAL_WINDOW_SIZE, 1000))
    server.connection.receive_data(caller.call(1, b"x"))
    reply = bytes(range(256)) * 400
    server.reply(reply)
    assert len(reader.read(server.connection.out).body[1]) == 1000
    server.connection.receive_data(window(0, 500))
    assert server.connection.blocked_stream and not server.connection.out
    server.connection.receive_data(window(1, 10**6))
    assert len(reader.read(server.connection.out).body[1]) == 65_535 + 500
    server.connection.receive_data(window(0, 10**6))
    assert not server.connection.blocked_stream
    assert reader.read(server.connection.out).message(1) == reply


def test_a_window_may_become_negative() -> None:
    server, caller, reader = greeted((SettingCode.INITIAL_WINDOW_SIZE, 1000))
    server.connection.receive_data(caller.call(1, b"x"))
    server.reply(bytes(1500))
    server.connection.receive_data(frames.settings_frame([(SettingCode.INITIAL_WINDOW_SIZE, 400)]))
    server.connection.receive_data(window(1, 600))
    assert len(reader.read(server.connection.out).body[1]) == 1000, "400 - 1000 + 600 is nothing"
    server.connection.receive_data(window(1, 505))
    assert reader.read(server.connection.out).message(1) == bytes(1500)


def test_a_reply_is_cut_into_frames_that_the_other_side_takes() -> None:
    server, caller, _ = greeted((SettingCode.INITIAL_WINDOW_SIZE, 10**6))
    server.connection.receive_data(caller.call(1, b"x"))
    server.reply(bytes(40_000))
    lengths, offset, out = [], 0, server.connection.out
    while offset < len(out):
        length, kind, _, _ = frames.parse_header(out, offset)
        offset += 9 + length
        lengths += [length] if kind == DATA else []
    assert lengths == [16_384, 16_384, 40_005 - 2 * 16_384]


def test_a_call_that_is_given_up_is_known_and_the_rest_of_a_reply_is_dropped() -> None:
    server, caller, reader = greeted()
    server.connection.receive_data(caller.call(1, b"x") + frames.rst_stream(1, ErrorCode.CANCEL))
    assert server.cancelled and not server.has_pending_call and server.request is None
    server.connection.receive_data(caller.call(3, b"y"))
    assert not server.cancelled
    server.reply(bytes(10**6))
    server.connection.receive_data(
        frames.rst_stream(3, ErrorCode.CANCEL) + window(0, 10**6) + window(3, 10**6)
    )
    assert not server.connection.blocked_stream and not server.cancelled
    server.connection.receive_data(caller.call(5, b"z"))
    server.reply(b"!")
    assert reader.read(server.connection.out).message(5) == b"!"


REFUSALS = {
    "another method": (lambda c: c.call(1, b"x", path="/a/b"), unary.UNIMPLEMENTED, "no method /a/b"),
    "compressed": (lambda c: c.begin(1) + data(1, prefixed(b"x", 1)), unary.UNIMPLEMENTED, "Compressed"),
    "two messages": (lambda c: c.begin(1) + data(1, prefixed(b"x") * 2), unary.INTERNAL, "has more"),
    "no message": (lambda c: c.begin(1, end=True), unary.INTERNAL, "has none"),
    "an empty body": (lambda c: c.begin(1) + data(1, b""), unary.INTERNAL, "cut short"),
    "cut short": (lambda c: c.begin(1) + data(1, prefixed(b"xyz")[:-1]), unary.INTERNAL, "cut short"),
    "too long": (
        lambda c: c.begin(1) + data(1, b"\0\xff\xff\xff\xff", end=False),
        unary.RESOURCE_EXHAUSTED,
        "4294967295 bytes",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_calls_that_are_refused(case: str) -> None:
    call, status, message = REFUSALS[case]
    server, caller, reader = greeted()
    server.connection.receive_data(call(caller))
    found = reader.read(server.connection.out).status(1)
    assert found[0] == status
    assert message in found[1]
    assert not server.has_pending_call and server.request is None
    server.connection.receive_data(caller.call(3, b"next"))
    assert taken(server) == b"next", "the connection goes on"


def test_what_is_no_call_of_grpc_gets_a_status_of_http() -> None:
    server, caller, reader = greeted()
    server.connection.receive_data(caller.begin(1, end=True, method="GET"))
    server.connection.receive_data(caller.begin(3, end=True, content_type="text/html"))
    reader.read(server.connection.out)
    assert [reader.headers[stream] for stream in (1, 3)] == [[{":status": "415"}]] * 2


def test_a_second_call_beside_the_first_is_refused() -> None:
    server, caller, reader = greeted()
    server.connection.receive_data(caller.call(1, b"one") + caller.call(3, b"two"))
    assert taken(server) == b"one"
    server.reply(b"1")
    reader.read(server.connection.out)
    assert reader.status(3)[0] == unary.FAILED_PRECONDITION
    assert reader.message(1) == b"1"


def header_bytes(length: int, kind: int, flags: int, stream: int) -> bytes:
    return frames.frame_header(length, kind, flags, stream)


BREACHES = {
    "HTTP/1": (b"GET / HTTP/1.1\r\n\r\n", ErrorCode.PROTOCOL_ERROR),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ErrorCode.PROTOCOL_ERROR),
    "no settings": (frames.PREFACE + frame(PING, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "a large frame": (HELLO + header_bytes(1 << 20, DATA, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
    "an even stream": (HELLO + Caller().call(2, b""), ErrorCode.PROTOCOL_ERROR),
    "headers in stream 0": (HELLO + Caller().begin(0), ErrorCode.PROTOCOL_ERROR),
    "data in stream 0": (HELLO + data(0, b""), ErrorCode.PROTOCOL_ERROR),
    "data of no call": (HELLO + data(1, b""), ErrorCode.PROTOCOL_ERROR),
    "headers after the end": (
        HELLO + Caller().call(1, b"") + frame(HEADERS, END_HEADERS, 1, b""),
        ErrorCode.STREAM_CLOSED,
    ),
    "data after the end": (HELLO + Caller().call(1, b"") + data(1, b"x"), ErrorCode.STREAM_CLOSED),
    "headers interrupted": (
        HELLO + frame(HEADERS, 0, 1, b"\x83") + frame(PING, 0, 0, bytes(8)),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a lone continuation": (HELLO + frame(CONTINUATION, END_HEADERS, 1), ErrorCode.PROTOCOL_ERROR),
    "endless headers": (
        HELLO + frame(HEADERS, 0, 1, bytes(60_000)) + frame(CONTINUATION, 0, 1, bytes(60_000)),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "empty continuations": (
        HELLO + frame(HEADERS, 0, 1, b"\x83") + frame(CONTINUATION, 0, 1),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "headers of noise": (HELLO + frame(HEADERS, END_HEADERS, 1, b"\xff" * 9), ErrorCode.COMPRESSION_ERROR),
    "a header of no table": (HELLO + frame(HEADERS, END_HEADERS, 1, b"\xfe"), ErrorCode.COMPRESSION_ERROR),
    "too much padding": (HELLO + frame(HEADERS, PADDED, 1, b"\x09abc"), ErrorCode.PROTOCOL_ERROR),
    "a promise": (HELLO + frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "a short ping": (HELLO + frame(PING, 0, 0, b"1234"), ErrorCode.FRAME_SIZE_ERROR),
    "a ping in a stream": (HELLO + frame(PING, 0, 1, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "odd settings": (HELLO + frame(SETTINGS, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    "a receipt with settings": (HELLO + frame(SETTINGS, ACK, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
    "a huge window": (
        HELLO + frames.settings_frame([(SettingCode.INITIAL_WINDOW_SIZE, 1 << 31)]),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "tiny frames": (
        HELLO + frames.settings_frame([(SettingCode.MAX_FRAME_SIZE, 1)]),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "an odd permission": (
        HELLO + frames.settings_frame([(SettingCode.ENABLE_PUSH, 2)]),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a window of nothing": (HELLO + window(0, 0), ErrorCode.PROTOCOL_ERROR),
    "a window that overflows": (HELLO + window(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    "a short window": (HELLO + frame(WINDOW_UPDATE, 0, 0, b"12"), ErrorCode.FRAME_SIZE_ERROR),
    "a reset of no call": (HELLO + frames.rst_stream(1, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
    "a reset of stream 0": (HELLO + frame(RST_STREAM, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "a short goodbye": (HELLO + frame(GOAWAY, 0, 0, b"1"), ErrorCode.FRAME_SIZE_ERROR),
    "a priority of stream 0": (HELLO + frame(PRIORITY, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
    "trailers without an end": (
        HELLO + Caller().begin(1) + Caller().begin(1),
        ErrorCode.PROTOCOL_ERROR,
    ),
}


@pytest.mark.parametrize("case", BREACHES)
def test_who_breaks_the_rules_is_told_and_left(case: str) -> None:
    noise, code = BREACHES[case]
    server, reader = UnaryServer(), Reader()
    with pytest.raises(Http2Error) as raised:
        server.connection.receive_data(noise)
    assert raised.value.code == code
    kind, _, _, payload = reader.read(server.connection.out).others[-1]
    assert kind == GOAWAY
    assert struct.unpack_from(">I", payload, 4) == (code,)


def test_who_never_reads_the_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "_MAX_BACKLOG", 10_000)
    server, _, _ = greeted()
    with pytest.raises(Http2Error, match="does not read"):
        for _ in range(1000):
            server.connection.receive_data(frame(PING, 0, 0, bytes(8)))


# Whatever the bytes ---------------------------------------------------------------------------------------


def survives(side: UnaryServer | UnaryClient, feed: object, pieces: list[bytes]) -> None:
    """Feeds until the connection is given up; a server answers what it understands."""
    try:
        for piece in pieces:
            feed(piece)  # type: ignore[operator]
            if isinstance(side, UnaryServer) and side.request is not None:
                side.request = None
                side.reply(bytes(70_000))
    except (Http2Error, StatusError):
        pass


SESSION = (
    Caller().call(1, b"hello")
    + frames.settings_frame([(SettingCode.INITIAL_WINDOW_SIZE, 100_000)])
    + window(0, 10**6)
    + frame(PING, 0, 0, bytes(8))
    + frames.rst_stream(1, ErrorCode.CANCEL)
)
PLAUSIBLE = [
    part
    for stream in (1, 3, 5)
    for part in (
        Caller().call(stream, b"x"),
        Caller().begin(stream),
        Caller().begin(stream, end=True),
        data(stream, prefixed(b"x")),
        data(stream, prefixed(b"x")[:4], end=False),
        window(stream, 100_000),
        frames.rst_stream(stream, ErrorCode.CANCEL),
    )
]
FRAMES = st.one_of(
    st.sampled_from(PLAUSIBLE),
    st.builds(frame, st.integers(0, 11), st.integers(0, 255), st.integers(0, 8), st.binary(max_size=40)),
)


@given(st.binary(max_size=200), st.lists(FRAMES, max_size=12), st.lists(st.integers(1, 50), max_size=5))
@settings(max_examples=1000)
def test_no_bytes_are_an_uncaught_error(noise: bytes, others: list[bytes], sizes: list[int]) -> None:
    for start in (b"", HELLO, HELLO + Caller().call(1, b"x")):
        server = UnaryServer()
        survives(server, server.connection.receive_data, in_pieces(start + b"".join(others) + noise, sizes))
        client = UnaryClient("localhost:5005")
        client.call(b"x")
        survives(
            client,
            client.receive_data,
            in_pieces(frames.settings_frame(()) + b"".join(others) + noise, sizes),
        )


@given(st.data())
@settings(max_examples=300)
def test_a_damaged_session_is_no_uncaught_error(draw: st.DataObject) -> None:
    session = bytearray(HELLO + SESSION)
    for _ in range(draw.draw(st.integers(1, 4))):
        session[draw.draw(st.integers(len(frames.PREFACE), len(session) - 1))] = draw.draw(
            st.integers(0, 255)
        )
    server = UnaryServer()
    survives(
        server, server.connection.receive_data, in_pieces(bytes(session), [draw.draw(st.integers(1, 300))])
    )


# Our two sides against each other -------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 200_000)), min_size=1, max_size=4),
    st.integers(1, 50_000),
)
@settings(max_examples=25)
def test_our_client_understands_our_server(exchanges: list[tuple[int, int]], step: int) -> None:
    server, client = UnaryServer(), UnaryClient("localhost:5005")

    def run() -> None:
        while server.connection.out or client.connection.out:
            for out, feed in (
                (client.connection.out, server.connection.receive_data),
                (server.connection.out, client.receive_data),
            ):
                piece = bytes(out[:step])
                del out[:step]
                feed(piece)

    for request, reply in exchanges:
        client.call(bytes(request))
        run()
        assert taken(server) == bytes(request)
        assert client.response is None
        server.reply(b"\x01" * reply)
        run()
        assert client.response == b"\x01" * reply
    assert not server.connection.windows, "nothing is left of calls that have ended"
    assert not client.connection.windows


def asked() -> UnaryClient:
    """A client that waits for the answer to its first call."""
    client = UnaryClient("localhost:5005")
    client.call(b"x")
    client.connection.out.clear()
    client.receive_data(frames.settings_frame(()))
    return client


def answer(
    stream: int, headers: list[tuple[str, str]], body: bytes | None, trailers: dict[str, str]
) -> bytes:
    encoder = Caller().encoder
    parts = frame(HEADERS, END_HEADERS, stream, encoder.encode(headers)) if headers else b""
    parts += b"" if body is None else data(stream, body, end=False)
    return parts + frame(HEADERS, END_HEADERS | END_STREAM, stream, encoder.encode(list(trailers.items())))


GOOD = [(":status", "200"), ("content-type", "application/grpc")]
FAILURES = {
    "a status": (
        answer(1, [], None, {":status": "200", "grpc-status": "9", "grpc-message": "no %C3%A4"}),
        "no ä",
    ),
    "a status without words": (answer(1, GOOD, None, {"grpc-status": "14"}), "gRPC status 14"),
    "no status": (answer(1, GOOD, prefixed(b"x"), {"x": "y"}), "gRPC status 2"),
    "a status of HTTP": (answer(1, [(":status", "502")], b"<html>", {}), "HTTP status 502"),
    "no message": (answer(1, GOOD, None, {"grpc-status": "0"}), "cut short"),
    "two messages": (answer(1, GOOD, prefixed(b"x") * 2, {"grpc-status": "0"}), "has more"),
    "a compressed message": (answer(1, GOOD, prefixed(b"x", 1), {"grpc-status": "0"}), "Compressed"),
    "a reset": (frames.rst_stream(1, ErrorCode.INTERNAL_ERROR), "dropped the call"),
    "a goodbye": (frames.goaway(0, ErrorCode.NO_ERROR), "goodbye"),
    "no trailers": (
        frame(HEADERS, END_HEADERS, 1, Caller().encoder.encode(GOOD)) + data(1, prefixed(b"x")),
        "no trailers",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_answers_that_are_none(case: str) -> None:
    noise, message = FAILURES[case]
    with pytest.raises(StatusError, match=message):
        asked().receive_data(noise)


def test_a_goodbye_after_our_call_leaves_it_its_answer() -> None:
    client = asked()
    client.receive_data(
        frames.goaway(1, ErrorCode.NO_ERROR) + answer(1, GOOD, prefixed(b"y"), {"grpc-status": "0"})
    )
    assert client.response == b"y"
    assert client.exhausted
