"""gRPC's unary calls over HTTP/2, without sockets: ways to write a call, and rules that a peer can break."""

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
from lanista.envs.protocol.handshake import UNITY_PATH

window = frames.window_update


def greeted(*settings: tuple[SettingCode, int]) -> tuple[UnaryServer, Caller, Reader]:
    """A server whose client has sent the preface and these settings."""
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


# What the server understands ------------------------------------------------------------------------------


def test_the_server_announces_that_large_messages_may_come() -> None:
    reader = Reader().read(UnaryServer().connection.out)
    (kind, _, _, payload), (update, _, stream, increment) = reader.others
    assert (kind, update, stream) == (SETTINGS, WINDOW_UPDATE, 0)
    assert dict(frames.parse_settings(payload))[SettingCode.INITIAL_WINDOW_SIZE] == 2**31 - 1
    assert frames.parse_uint32(increment, "") == 2**31 - 1 - 65_535


@given(st.lists(st.integers(1, 60), max_size=30), st.lists(st.binary(max_size=300), min_size=1, max_size=4))
@settings(max_examples=60)
def test_calls_may_arrive_in_pieces_of_any_size(sizes: list[int], messages: list[bytes]) -> None:
    server, caller, reader = UnaryServer(), Caller(), Reader()
    server.connection.receive_data(HELLO)
    for stream, message in zip(range(1, 9, 2), messages):
        for piece in in_pieces(caller.call(stream, message), sizes):
            server.connection.receive_data(piece)
        assert server.has_pending_call
        assert taken(server) == message
        server.reply(message[::-1])
        assert not server.has_pending_call
        assert reader.read(server.connection.out).message(stream) == message[::-1]


def padded_call(caller: Caller) -> bytes:
    block, priority = caller.block(), struct.pack(">IB", 0, 15)
    return (
        frame(PRIORITY, 0, 1, priority)
        + frame(HEADERS, PADDED | PRIORITIZED, 1, b"\x07" + priority + block[:10] + bytes(7))
        + frame(CONTINUATION, 0, 1, block[10:20])
        + frame(CONTINUATION, END_HEADERS, 1, block[20:])
        + frame(DATA, PADDED | END_STREAM, 1, b"\x03" + prefixed(b"abc") + bytes(3))
    )


ACCEPTED = {
    "a message split anywhere": lambda c: (
        c.begin(1) + b"".join(data(1, bytes([x]), end=False) for x in prefixed(b"abc")) + data(1, b"")
    ),
    "padding, priorities and continuations": padded_call,
    "frames and settings of unknown types": lambda c: (
        frame(0xBE, 0xFF, 1, b"xyz")
        + frame(SETTINGS, 0, 0, struct.pack(">HI", 0xF000, 1))
        + c.call(1, b"abc")
    ),
    "trailers": lambda c: (
        c.begin(1)
        + data(1, prefixed(b"abc"), end=False)
        + frame(HEADERS, END_HEADERS | END_STREAM, 1, c.encoder.encode([("x-checksum", "1")]))
    ),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_unusual_ways_to_write_a_call_are_understood(case: str) -> None:
    server, caller, _ = greeted()
    written = ACCEPTED[case](caller)
    server.connection.receive_data(written[:-9])
    assert server.request is None, "the last frame is still to come"
    server.connection.receive_data(written[-9:])
    assert taken(server) == b"abc"


def test_headers_are_decoded_with_the_current_dynamic_table() -> None:
    """A cached block means something else once the table has changed."""
    server, caller, reader = greeted()
    blocks = []
    for stream in range(1, 40, 2):
        blocks.append(caller.block(user_agent=f"agent {stream % 6}"))
        server.connection.receive_data(frame(HEADERS, END_HEADERS, stream, blocks[-1]))
        server.connection.receive_data(data(stream, prefixed(b"x")))
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


def test_a_cancelled_call_is_noticed_and_the_rest_of_its_reply_dropped() -> None:
    server, caller, reader = greeted()
    server.connection.receive_data(caller.call(1, b"x") + frames.rst_stream(1, ErrorCode.CANCEL))
    assert server.cancelled and not server.has_pending_call and server.request is None
    server.connection.receive_data(caller.call(3, b"y"))
    assert not server.cancelled
    server.reply(bytes(10**6))
    server.connection.receive_data(frames.rst_stream(3, ErrorCode.CANCEL))
    server.connection.receive_data(window(0, 10**6) + window(3, 10**6))
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
        lambda c: c.begin(1) + data(1, b"\0" + b"\xff" * 4, end=False),
        unary.RESOURCE_EXHAUSTED,
        "4294967295 bytes",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_invalid_calls_are_rejected_and_the_connection_goes_on(case: str) -> None:
    call, status, message = REFUSALS[case]
    server, caller, reader = greeted()
    server.connection.receive_data(call(caller))
    found, text = reader.read(server.connection.out).status(1)
    assert found == status
    assert message in text
    assert not server.has_pending_call and server.request is None
    server.connection.receive_data(caller.call(3, b"next"))
    assert taken(server) == b"next"


def test_a_request_that_is_not_grpc_gets_an_http_status() -> None:
    server, caller, reader = greeted()
    server.connection.receive_data(caller.begin(1, end=True, method="GET"))
    server.connection.receive_data(caller.begin(3, end=True, content_type="text/html"))
    reader.read(server.connection.out)
    assert [reader.headers[stream] for stream in (1, 3)] == [[{":status": "415"}]] * 2


def test_a_second_call_is_rejected_while_the_first_is_pending() -> None:
    server, caller, reader = greeted()
    server.connection.receive_data(caller.call(1, b"one") + caller.call(3, b"two"))
    assert taken(server) == b"one"
    server.reply(b"1")
    reader.read(server.connection.out)
    assert reader.status(3)[0] == unary.FAILED_PRECONDITION
    assert reader.message(1) == b"1"


PROTOCOL, SIZE, FLOW = ErrorCode.PROTOCOL_ERROR, ErrorCode.FRAME_SIZE_ERROR, ErrorCode.FLOW_CONTROL_ERROR
CALM, CLOSED, COMPRESSION = ErrorCode.ENHANCE_YOUR_CALM, ErrorCode.STREAM_CLOSED, ErrorCode.COMPRESSION_ERROR
ENDED = Caller().call(1, b"")
FIRST_BYTES = {
    "HTTP/1": (b"GET / HTTP/1.1\r\n\r\n", PROTOCOL),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", PROTOCOL),
    "no settings": (frames.PREFACE + frame(PING, 0, 0, bytes(8)), PROTOCOL),
}
AFTER_HELLO = {
    "a large frame": (frames.frame_header(1 << 20, DATA, 0, 1), SIZE),
    "an even stream": (Caller().call(2, b""), PROTOCOL),
    "headers in stream 0": (Caller().begin(0), PROTOCOL),
    "data in stream 0": (data(0, b""), PROTOCOL),
    "data of no call": (data(1, b""), PROTOCOL),
    "headers after the end": (ENDED + frame(HEADERS, END_HEADERS, 1, b""), CLOSED),
    "data after the end": (ENDED + data(1, b"x"), CLOSED),
    "headers interrupted": (frame(HEADERS, 0, 1, b"\x83") + frame(PING, 0, 0, bytes(8)), PROTOCOL),
    "a lone continuation": (frame(CONTINUATION, END_HEADERS, 1), PROTOCOL),
    "endless headers": (frame(HEADERS, 0, 1, bytes(60_000)) + frame(CONTINUATION, 0, 1, bytes(60_000)), CALM),
    "empty continuations": (frame(HEADERS, 0, 1, b"\x83") + frame(CONTINUATION, 0, 1), CALM),
    "headers of noise": (frame(HEADERS, END_HEADERS, 1, b"\xff" * 9), COMPRESSION),
    "a header of no table": (frame(HEADERS, END_HEADERS, 1, b"\xfe"), COMPRESSION),
    "too much padding": (frame(HEADERS, PADDED, 1, b"\x09abc"), PROTOCOL),
    "a promise": (frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)), PROTOCOL),
    "a short ping": (frame(PING, 0, 0, b"1234"), SIZE),
    "a ping in a stream": (frame(PING, 0, 1, bytes(8)), PROTOCOL),
    "odd settings": (frame(SETTINGS, 0, 0, bytes(7)), SIZE),
    "an acknowledgement with settings": (frame(SETTINGS, ACK, 0, bytes(6)), SIZE),
    "a huge window": (frames.settings_frame([(SettingCode.INITIAL_WINDOW_SIZE, 1 << 31)]), FLOW),
    "tiny frames": (frames.settings_frame([(SettingCode.MAX_FRAME_SIZE, 1)]), PROTOCOL),
    "an odd permission": (frames.settings_frame([(SettingCode.ENABLE_PUSH, 2)]), PROTOCOL),
    "a window of nothing": (window(0, 0), PROTOCOL),
    "a window that overflows": (window(0, 2**31 - 1), FLOW),
    "a short window": (frame(WINDOW_UPDATE, 0, 0, b"12"), SIZE),
    "a reset of no call": (frames.rst_stream(1, ErrorCode.CANCEL), PROTOCOL),
    "a reset of stream 0": (frame(RST_STREAM, 0, 0, bytes(4)), PROTOCOL),
    "a short goaway": (frame(GOAWAY, 0, 0, b"1"), SIZE),
    "a priority of stream 0": (frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    "trailers without an end": (Caller().begin(1) + Caller().begin(1), PROTOCOL),
}
BREACHES = FIRST_BYTES | {name: (HELLO + noise, code) for name, (noise, code) in AFTER_HELLO.items()}


@pytest.mark.parametrize("case", BREACHES)
def test_a_violation_of_http2_is_answered_with_a_goaway_that_states_the_error(case: str) -> None:
    noise, code = BREACHES[case]
    server, reader = UnaryServer(), Reader()
    with pytest.raises(Http2Error) as raised:
        server.connection.receive_data(noise)
    assert raised.value.code == code
    kind, _, _, payload = reader.read(server.connection.out).others[-1]
    assert kind == GOAWAY
    assert struct.unpack_from(">I", payload, 4) == (code,)


def test_a_peer_that_never_reads_the_answers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2, "MAX_BACKLOG", 10_000)
    server, _, _ = greeted()
    with pytest.raises(Http2Error, match="does not read"):
        for _ in range(1000):
            server.connection.receive_data(frame(PING, 0, 0, bytes(8)))


# Random bytes ---------------------------------------------------------------------------------------------


def survives(side: UnaryServer | UnaryClient, feed: object, pieces: list[bytes]) -> None:
    """Feed until the connection fails; a server answers what it understands."""
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


@pytest.mark.slow
@given(st.binary(max_size=200), st.lists(FRAMES, max_size=12), st.lists(st.integers(1, 50), max_size=5))
@settings(max_examples=1000)
def test_random_bytes_raise_only_protocol_errors(noise: bytes, others: list[bytes], sizes: list[int]) -> None:
    noise = b"".join(others) + noise
    for start in (b"", HELLO, HELLO + Caller().call(1, b"x")):
        server = UnaryServer()
        survives(server, server.connection.receive_data, in_pieces(start + noise, sizes))
        client = UnaryClient("localhost:5005", UNITY_PATH)
        client.call(b"x")
        survives(client, client.receive_data, in_pieces(frames.settings_frame(()) + noise, sizes))


@given(st.data())
@settings(max_examples=300)
def test_a_damaged_session_raises_only_protocol_errors(draw: st.DataObject) -> None:
    session = bytearray(HELLO + SESSION)
    places = st.integers(len(frames.PREFACE), len(session) - 1)
    for _ in range(draw.draw(st.integers(1, 4))):
        session[draw.draw(places)] = draw.draw(st.integers(0, 255))
    server, sizes = UnaryServer(), [draw.draw(st.integers(1, 300))]
    survives(server, server.connection.receive_data, in_pieces(bytes(session), sizes))


# Our two sides against each other -------------------------------------------------------------------------


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 200_000)), min_size=1, max_size=4),
    st.integers(1, 50_000),
)
@settings(max_examples=25)
def test_our_client_understands_our_server(exchanges: list[tuple[int, int]], step: int) -> None:
    server, client = UnaryServer(), UnaryClient("localhost:5005", UNITY_PATH)

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
    client = UnaryClient("localhost:5005", UNITY_PATH)
    client.call(b"x")
    client.connection.out.clear()
    client.receive_data(frames.settings_frame(()))
    return client


def answer(stream: int, headers: list, body: bytes | None, trailers: dict[str, str]) -> bytes:
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
    "a goaway": (frames.goaway(0, ErrorCode.NO_ERROR), "goodbye"),
    "no trailers": (
        frame(HEADERS, END_HEADERS, 1, Caller().encoder.encode(GOOD)) + data(1, prefixed(b"x")),
        "no trailers",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_invalid_responses_are_errors(case: str) -> None:
    noise, message = FAILURES[case]
    with pytest.raises(StatusError, match=message):
        asked().receive_data(noise)


def test_a_goaway_after_our_call_does_not_cancel_it() -> None:
    client, goaway = asked(), frames.goaway(1, ErrorCode.NO_ERROR)
    client.receive_data(goaway + answer(1, GOOD, prefixed(b"y"), {"grpc-status": "0"}))
    assert client.response == b"y"
    assert client.exhausted


# The reason of a GOAWAY -----------------------------------------------------------------------------------

REASONS = st.text(st.characters(exclude_categories=("C", "Z")), max_size=100)


@given(st.binary(max_size=300), REASONS, st.integers(0, 3))
def test_the_reason_of_the_last_goaway_is_found_in_the_tail_of_what_was_sent(before, reason, pings):
    tail = frame(DATA, 0, 1, before) + frames.goaway(1, ErrorCode.NO_ERROR, reason)
    tail += pings * frame(PING, ACK, 0, bytes(8))
    assert frames.last_goaway_reason(tail) == reason
    assert frames.last_goaway_reason(tail[5:] if before else tail) == reason, "wherever the tail begins"


@given(st.binary(max_size=300))
def test_without_a_goaway_there_is_no_reason(noise):
    sent = frame(DATA, 0, 1, bytes(300)) + frame(DATA, 0, 3, bytes(len(noise)))
    assert frames.last_goaway_reason(sent) == ""
    frames.last_goaway_reason(noise)  # any bytes: no error
