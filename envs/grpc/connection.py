"""One HTTP/2 connection without its socket: bytes in, bytes out, and what they mean for its streams.

Only as much of RFC 9113 as gRPC's unary calls need: no server push, no priorities, and one message under way
at a time.

HTTP/2's flow control of what we send: no more than the other side's windows allow.
"""

from typing import Protocol

from .frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_FRAME_SIZE,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADER_SIZE,
    HEADERS,
    LARGEST_FRAME_SIZE,
    LARGEST_WINDOW,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    ProtocolError,
    Setting,
    frame,
    frame_header,
    goaway,
    parse_header,
    parse_number,
    parse_settings,
    reset,
    settings,
    unpadded,
    window_update,
)

FRAME_SIZE = 1 << 16
"""The largest frame that we take. Larger ones would only be copied more often while they arrive in pieces."""
_LARGEST_BLOCK = 1 << 16
"""Bytes of headers that one block may have."""
_BACKLOG = 1 << 26
"""Bytes that may wait for the other side to read before it is asked to calm down."""
_REPLENISH = 1 << 30
"""Bytes received after which the other side is allowed as many more."""

_GREETING = (
    settings(
        (
            (Setting.ENABLE_PUSH, 0),
            (Setting.INITIAL_WINDOW_SIZE, LARGEST_WINDOW),
            (Setting.MAX_FRAME_SIZE, FRAME_SIZE),
        )
    ),
    window_update(0, LARGEST_WINDOW - DEFAULT_WINDOW),
)


class Streams(Protocol):
    """What a connection tells of its streams. The methods may raise ProtocolError."""

    def headers(self, stream: int, block: bytes, end: bool) -> None:
        """A block of coded headers, of any stream, also one that is closed: it may change how later blocks
        are to be read. `end`: nothing comes after it in this stream.
        """

    def data(self, stream: int, payload: bytes, end: bool) -> None:
        """A part of the body of an open stream."""

    def reset(self, stream: int) -> None:
        """The other side has given an open stream up."""


class Connection:
    """The connection's state: settings, windows, open streams, and the bytes that are to be sent.

    Args:
        streams: Whom to tell what arrives.
        server: Whether we are the server.
    """

    def __init__(self, streams: Streams, server: bool) -> None:
        self.out = bytearray(b"".join(_GREETING) if server else PREFACE + b"".join(_GREETING))
        """What is to be sent; who sends it removes it."""
        self.refused_after: int | None = None
        """The last stream that the other side will still look at, once it has said goodbye."""
        self._streams = streams
        self._server = server
        self._outgoing = Outgoing(self.out)
        self._rest = b""
        self._preface_awaited = server
        self._settings_awaited = True
        self._block: tuple[int, bytearray, bool] | None = None
        self._last_stream = 0
        self._received = 0

    @property
    def sending(self) -> bool:
        """Whether a message waits for the other side's window to open."""
        return self._outgoing.waits

    def is_open(self, stream: int) -> bool:
        """Whether a stream has begun and not ended."""
        return stream in self._outgoing.windows

    def open(self, stream: int) -> None:
        """A stream begins."""
        self._outgoing.open(stream)
        self._last_stream = stream

    def close(self, stream: int) -> None:
        """A stream has ended; what still comes for it is ignored."""
        self._outgoing.close(stream)

    def send(self, stream: int, head: bytes, body: bytes, tail: bytes | None) -> None:
        """Send headers, a body, and trailers, or none if `tail` is None; these end our side of the stream.

        Args:
            stream: An open stream.
            head: Coded headers.
            body: The body; what the windows do not allow yet follows by itself.
            tail: Coded headers.
        """
        self._outgoing.send(stream, head, body, tail)

    def send_headers(self, stream: int, block: bytes) -> None:
        """Send headers that end our side of the stream."""
        self.out += frame(HEADERS, END_HEADERS | END_STREAM, stream, block)

    def send_reset(self, stream: int, code: ErrorCode) -> None:
        """Give a stream up."""
        self.out += reset(stream, code)
        self.close(stream)

    def say_goodbye(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: str = "") -> None:
        """Announce that we are about to close the connection."""
        self.out += goaway(self._last_stream if self._server else 0, code, reason)

    def feed(self, data: bytes) -> None:
        """Take in what has arrived.

        Raises:
            ProtocolError: It is not HTTP/2, or breaks its rules; the connection is of no use any more. What
                is to be sent then ends with the reason.
        """
        try:
            self._feed(self._rest + data if self._rest else data)
        except ProtocolError as error:
            self.say_goodbye(error.code, str(error))
            raise

    def _feed(self, data: bytes) -> None:
        offset, size = 0, len(data)
        if self._preface_awaited:
            if data[: len(PREFACE)] != PREFACE[:size]:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"not HTTP/2; it begins with {data[:24]!r}")
            if size < len(PREFACE):
                self._rest = data
                return
            self._preface_awaited, offset = False, len(PREFACE)
        while size - offset >= HEADER_SIZE:
            length, kind, flags, stream = parse_header(data, offset)
            if length > FRAME_SIZE:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            start, offset = offset + HEADER_SIZE, offset + HEADER_SIZE + length
            if offset > size:
                offset = start - HEADER_SIZE
                break
            self._frame(kind, flags, stream, data[start:offset])
        self._rest = data[offset:]

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self._settings_awaited:
            if kind != SETTINGS or flags & ACK:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "it does not begin with settings")
            self._settings_awaited = False
        if self._block is not None and (kind != CONTINUATION or stream != self._block[0]):
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "headers are interrupted")
        if kind == DATA:
            self._take_data(flags, stream, payload)
        elif kind == HEADERS:
            block = unpadded(payload, flags)
            self._take_headers(stream, block, bool(flags & END_STREAM), bool(flags & END_HEADERS))
        elif kind == CONTINUATION:
            self._take_continuation(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._check_began(stream)
            self._outgoing.widen(stream, parse_number(payload, "WINDOW_UPDATE") & LARGEST_WINDOW)
        elif kind == RST_STREAM:
            self._take_reset(stream, parse_number(payload, "RST_STREAM"))
        elif kind in (SETTINGS, PING, GOAWAY):
            if stream != 0:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"a frame of type {kind} in stream {stream}")
            self._take_control(kind, flags, payload)
        elif kind == PUSH_PROMISE:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a push promise, which was not allowed")
        elif kind == PRIORITY and stream == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a priority of stream 0")

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        if stream == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "data in stream 0")
        self._check_began(stream)
        self._received += len(payload)
        if self._received >= _REPLENISH:
            self.out += window_update(0, self._received)
            self._received = 0
        if flags & PADDED:
            payload = unpadded(payload, PADDED)
        if self.is_open(stream):
            self._streams.data(stream, payload, bool(flags & END_STREAM))

    def _take_headers(self, stream: int, block: bytes, end: bool, whole: bool) -> None:
        if stream > self._last_stream:
            if not self._server or stream % 2 == 0:
                raise ProtocolError(
                    ErrorCode.PROTOCOL_ERROR, f"headers of stream {stream}, which is not open"
                )
            self.open(stream)
        elif stream == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "headers in stream 0")
        if whole:
            self._streams.headers(stream, block, end)
        else:
            self._block = stream, bytearray(block), end

    def _take_continuation(self, flags: int, payload: bytes) -> None:
        if self._block is None:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a continuation of nothing")
        stream, block, end = self._block
        block += payload
        # Empty frames would make a block that never ends and never grows.
        if len(block) > _LARGEST_BLOCK or not (payload or flags & END_HEADERS):
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, f"headers of {len(block)} bytes and more")
        if flags & END_HEADERS:
            self._block = None
            self._streams.headers(stream, bytes(block), end)

    def _take_reset(self, stream: int, code: int) -> None:
        if stream == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a reset of stream 0")
        self._check_began(stream)
        # A server that has answered everything may say so in this way, although it took the answer apart.
        if self.is_open(stream) and (self._server or code != ErrorCode.NO_ERROR):
            self.close(stream)
            self._streams.reset(stream)

    def _take_control(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == PING:
            if len(payload) != 8:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a PING frame of {len(payload)} bytes")
            if not flags & ACK:
                self._answer(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            if len(payload) < 8:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a GOAWAY frame of {len(payload)} bytes")
            self.refused_after = parse_number(payload[:4], "GOAWAY") & LARGEST_WINDOW
        elif flags & ACK:
            if payload:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement with settings in it")
        else:
            for number, value in parse_settings(payload):
                self._set(number, value)
            self._answer(frame(SETTINGS, ACK, 0))
            self._outgoing.go_on()

    def _set(self, number: int, value: int) -> None:
        if number == Setting.INITIAL_WINDOW_SIZE:
            self._outgoing.set_initial_window(value)
        elif number == Setting.MAX_FRAME_SIZE:
            if not DEFAULT_FRAME_SIZE <= value <= LARGEST_FRAME_SIZE:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"frames of {value} bytes at most")
            self._outgoing.frame_size = value
        elif number == Setting.ENABLE_PUSH and value > 1:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"a setting ENABLE_PUSH of {value}")

    def _check_began(self, stream: int) -> None:
        if stream > self._last_stream:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, f"a frame of stream {stream}, which has not begun")

    def _answer(self, data: bytes) -> None:
        if len(self.out) > _BACKLOG:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "it asks, and does not read the answers")
        self.out += data


class Outgoing:
    """The message that is being sent, one at a time, and the other side's windows.

    Args:
        out: Where frames go that may be sent.
    """

    def __init__(self, out: bytearray) -> None:
        self.windows: dict[int, int] = {}
        """Per open stream, how many bytes of data the other side takes; negative after it has shrunk them."""
        self.frame_size = DEFAULT_FRAME_SIZE
        self._out = out
        self._window = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._stream = 0
        self._body = memoryview(b"")
        self._tail: bytes | None = None

    @property
    def waits(self) -> bool:
        """Whether a part of the message waits for a window to open."""
        return self._stream != 0

    def open(self, stream: int) -> None:
        """A stream begins."""
        self.windows[stream] = self._initial_window

    def close(self, stream: int) -> None:
        """A stream has ended; the rest of its message is dropped."""
        self.windows.pop(stream, None)
        if stream == self._stream:
            self._stream, self._body = 0, memoryview(b"")

    def send(self, stream: int, head: bytes, body: bytes, tail: bytes | None) -> None:
        """Send headers, a body and trailers, which end the stream; see `Connection.send`.

        Without trailers the stream stays open for an answer.
        """
        size = len(body)
        start = frame_header(len(head), HEADERS, END_HEADERS, stream) + head
        if size > self.frame_size or size > self._window or size > self.windows[stream]:
            self._out += start
            self._stream, self._body, self._tail = stream, memoryview(body), tail
            self.go_on()
            return
        self._window -= size
        if tail is None:
            self.windows[stream] -= size
            self._out += start + frame_header(size, DATA, END_STREAM, stream) + body
            return
        end = frame_header(len(tail), HEADERS, END_HEADERS | END_STREAM, stream) + tail
        self._out += start + frame_header(size, DATA, 0, stream) + body + end
        del self.windows[stream]

    def widen(self, stream: int, increment: int) -> None:
        """The other side takes `increment` bytes more, in one stream or, for 0, in all of them together.

        Raises:
            ProtocolError: The increment is zero, or the window would exceed what there is room for.
        """
        if increment == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a window that grows by nothing")
        if stream == 0:
            self._window = _checked(self._window + increment)
        elif stream in self.windows:
            self.windows[stream] = _checked(self.windows[stream] + increment)
        self.go_on()

    def set_initial_window(self, size: int) -> None:
        """The other side takes `size` bytes in each stream, also in those that are open.

        Raises:
            ProtocolError: A window would exceed what there is room for.
        """
        change = _checked(size) - self._initial_window
        self._initial_window = size
        for stream in self.windows:
            self.windows[stream] = _checked(self.windows[stream] + change)

    def go_on(self) -> None:
        """Send as much of the message as the windows allow now."""
        while (stream := self._stream) != 0:
            size = min(len(self._body), self.frame_size, self._window, self.windows[stream])
            if size <= 0 and len(self._body) > 0:
                return
            part, self._body = self._body[:size], self._body[size:]
            self._window -= size
            self.windows[stream] -= size
            last = len(self._body) == 0
            flags = END_STREAM if last and self._tail is None else 0
            self._out += frame_header(size, DATA, flags, stream)
            self._out += part
            if last:
                self._stream = 0
                if self._tail is not None:
                    self._out += frame(HEADERS, END_HEADERS | END_STREAM, stream, self._tail)
                    del self.windows[stream]


def _checked(window: int) -> int:
    if window > LARGEST_WINDOW:
        raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {window} bytes")
    return window
