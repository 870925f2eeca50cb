"""One HTTP/2 connection without I/O (RFC 9113): bytes in, bytes out, and events of its streams.

Covers as much of the protocol as gRPC's unary calls need: no server push, no priorities, and one message in
flight at a time.
"""

from typing import Protocol

from .frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER,
    GOAWAY,
    HEADER_SIZE,
    HEADERS,
    INITIAL_WINDOW,
    MAX_MAX_FRAME_SIZE,
    MAX_STREAM_ID,
    MAX_WINDOW,
    MIN_MAX_FRAME_SIZE,
    PADDED,
    PING,
    PREFACE,
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
    frame_header,
    goaway,
    parse_settings,
    parse_uint32,
    rst_stream,
    settings_frame,
    strip_padding,
    window_update,
)

FRAME_SIZE = 1 << 16
"""Our SETTINGS_MAX_FRAME_SIZE. Larger frames would only be copied more often while they arrive in pieces."""
_MAX_HEADER_BLOCK = 1 << 16
"""Bytes of one field block."""
MAX_BACKLOG = 1 << 26
"""Bytes that may wait for the peer to read before ENHANCE_YOUR_CALM."""
TOO_MUCH_FOR_GREETING = "it sends more than an engine's greeting has"
"""Why a connection ends whose `max_frames` or bytes are used up."""
_WINDOW_UPDATE_AFTER = 1 << 30
"""Bytes received before the connection's window is opened again."""

_SETTINGS = (
    settings_frame(
        (
            (SettingCode.ENABLE_PUSH, 0),
            (SettingCode.INITIAL_WINDOW_SIZE, MAX_WINDOW),
            (SettingCode.MAX_FRAME_SIZE, FRAME_SIZE),
        )
    ),
    window_update(0, MAX_WINDOW - INITIAL_WINDOW),
)


class StreamHandler(Protocol):
    """Receives the events of a connection's streams. The methods may raise Http2Error."""

    def headers_received(self, stream_id: int, block: bytes, end_stream: bool) -> None:
        """A field block arrived, possibly on a closed stream: it may change how later blocks are decoded."""

    def data_received(self, stream_id: int, data: bytes, end_stream: bool) -> None:
        """A part of the body of an open stream arrived."""

    def stream_reset(self, stream_id: int) -> None:
        """The peer has cancelled an open stream."""


class Connection:
    """The state of a connection: settings, flow-control windows, open streams, and the bytes to send.

    Args:
        handler: Receives the events.
        server: Whether this is the server's side.
    """

    def __init__(self, handler: StreamHandler, server: bool) -> None:
        self.out = bytearray(b"".join(_SETTINGS) if server else PREFACE + b"".join(_SETTINGS))
        """The bytes to send; the sender removes them."""
        self.max_backlog = MAX_BACKLOG
        """Bytes of `out` from which on what the peer asks for ends the connection."""
        self.frames = 0
        """How many frames have arrived; whoever limits them sets it back."""
        self.max_frames = MAX_WINDOW
        """More than so many end the connection, before any more of them are looked at."""
        self.windows: dict[int, int] = {}
        """Per open stream, how many bytes of DATA the peer accepts; negative after it has shrunk them."""
        self.goaway_stream: int | None = None
        """The last stream that the peer still processes, once it has sent GOAWAY (section 6.8)."""
        self._handler = handler
        self._server = server
        self._buffer = b""
        self._expects_preface = server
        self._expects_settings = True
        self._block: tuple[int, bytearray, bool] | None = None
        self._last_stream = 0
        self._received = 0
        # Flow control of what is sent (section 5.2).
        self._window = INITIAL_WINDOW
        self._initial_window = INITIAL_WINDOW
        self._max_frame_size = MIN_MAX_FRAME_SIZE
        self.blocked_stream = 0
        """The stream whose message waits for a window to open; 0 for none."""
        self._body = memoryview(b"")
        self._trailers: bytes | None = None

    # Streams -------------------------------------------------------------------------------------------

    def open_stream(self, stream_id: int) -> None:
        """Begin a stream."""
        self.windows[stream_id] = self._initial_window
        self._last_stream = stream_id

    def close_stream(self, stream_id: int) -> None:
        """End a stream: the rest of its message is dropped, and what still arrives for it is ignored."""
        self.windows.pop(stream_id, None)
        if stream_id == self.blocked_stream:
            self.blocked_stream, self._body = 0, memoryview(b"")

    # Sending -------------------------------------------------------------------------------------------

    def send(self, stream_id: int, headers: bytes, body: bytes, trailers: bytes | None) -> None:
        """Send headers, a body and trailers, which end our side of the stream.

        Args:
            stream_id: An open stream.
            headers: The field block.
            body: The message; what the windows do not allow yet follows as soon as they do.
            trailers: The field block; None ends our side with the body and leaves the stream open for the
                response.
        """
        size, length = len(body), len(headers)
        start = FRAME_HEADER.pack(length >> 8, length & 0xFF, HEADERS, END_HEADERS, stream_id) + headers
        if size > self._max_frame_size or size > self._window or size > self.windows[stream_id]:
            self.out += start
            self.blocked_stream, self._body, self._trailers = stream_id, memoryview(body), trailers
            self._continue_sending()
            return
        self._window -= size
        data_flags = END_STREAM if trailers is None else 0
        out = start + FRAME_HEADER.pack(size >> 8, size & 0xFF, DATA, data_flags, stream_id) + body
        if trailers is None:
            self.windows[stream_id] -= size
        else:
            length = len(trailers)
            flags = END_HEADERS | END_STREAM
            out += FRAME_HEADER.pack(length >> 8, length & 0xFF, HEADERS, flags, stream_id) + trailers
            del self.windows[stream_id]
        self.out += out

    def send_headers(self, stream_id: int, block: bytes) -> None:
        """Send headers that end our side of the stream.

        Raises:
            Http2Error: The peer does not read what it is sent.
        """
        self._send_answer(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block))

    def send_reset(self, stream_id: int, code: ErrorCode) -> None:
        """Cancel a stream. Raises Http2Error if the peer does not read what it is sent."""
        self._send_answer(rst_stream(stream_id, code))
        self.close_stream(stream_id)

    def send_goaway(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: str = "") -> None:
        """Announce that the connection is about to be closed."""
        self.out += goaway(self._last_stream if self._server else 0, code, reason)

    def _continue_sending(self) -> None:
        """Send as much of the blocked message as the windows allow now."""
        while (stream_id := self.blocked_stream) != 0:
            size = min(len(self._body), self._max_frame_size, self._window, self.windows[stream_id])
            if size <= 0 and len(self._body) > 0:
                return
            part, self._body = self._body[:size], self._body[size:]
            self._window -= size
            self.windows[stream_id] -= size
            last = len(self._body) == 0
            flags = END_STREAM if last and self._trailers is None else 0
            self.out += frame_header(size, DATA, flags, stream_id)
            self.out += part
            if last:
                self.blocked_stream = 0
                if self._trailers is not None:
                    self.out += frame(HEADERS, END_HEADERS | END_STREAM, stream_id, self._trailers)
                    del self.windows[stream_id]

    def _send_answer(self, data: bytes) -> None:
        """Send what costs the peer little to ask for: acknowledgements and refusals."""
        if len(self.out) > self.max_backlog:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "it asks, and does not read the answers")
        self.out += data

    # Receiving -----------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """Process bytes that have arrived.

        Raises:
            Http2Error: They are not HTTP/2, or break its rules; the connection is unusable then. The bytes to
                send end with a GOAWAY frame that states the reason.
        """
        if self._buffer:
            data = self._buffer + data
        offset, size, frames, most = 0, len(data), 0, self.max_frames - self.frames
        try:
            if self._expects_preface:
                offset = self._receive_preface(data)
            while size - offset >= HEADER_SIZE and not self._expects_preface:
                high, low, kind, flags, stream_id = FRAME_HEADER.unpack_from(data, offset)
                stop = offset + HEADER_SIZE + (high << 8 | low)
                if stop - offset - HEADER_SIZE > FRAME_SIZE:  # section 4.2
                    length = stop - offset - HEADER_SIZE
                    raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
                if stop > size:
                    break
                self._receive_frame(kind, flags, stream_id & MAX_STREAM_ID, data[offset + HEADER_SIZE : stop])
                offset = stop
                frames += 1
                if frames > most:
                    raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, TOO_MUCH_FOR_GREETING)
        except Http2Error as error:
            self.send_goaway(error.code, str(error))
            raise
        self._buffer = data[offset:]
        self.frames += frames

    def _receive_preface(self, data: bytes) -> int:
        """How many bytes of `data` the preface takes (section 3.4); 0 while it is incomplete."""
        if data[: len(PREFACE)] != PREFACE[: len(data)]:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"not HTTP/2; it begins with {data[:24]!r}")
        if len(data) < len(PREFACE):
            return 0
        self._expects_preface = False
        return len(PREFACE)

    def _receive_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._expects_settings:  # section 3.4
            if kind != SETTINGS or flags & ACK:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "it does not begin with settings")
            self._expects_settings = False
        if self._block is not None and (kind != CONTINUATION or stream_id != self._block[0]):  # section 6.10
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers are interrupted")
        if kind == DATA:
            self._receive_data_frame(flags, stream_id, payload)
        elif kind == HEADERS:
            if flags & (PADDED | PRIORITIZED):
                payload = strip_padding(payload, flags)
            self._receive_headers(flags, stream_id, payload)
        elif kind == CONTINUATION:
            self._receive_continuation(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._check_not_idle(stream_id)
            self._receive_window_update(stream_id, parse_uint32(payload, "WINDOW_UPDATE") & MAX_WINDOW)
        elif kind == RST_STREAM:
            self._receive_reset(stream_id, parse_uint32(payload, "RST_STREAM"))
        elif kind in (SETTINGS, PING, GOAWAY):
            if stream_id != 0:  # sections 6.5, 6.7, 6.8
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame of type {kind} in stream {stream_id}")
            self._receive_control(kind, flags, payload)
        elif kind == PUSH_PROMISE:  # section 6.6: we have disabled it
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a push promise, which was not allowed")
        elif kind == PRIORITY and stream_id == 0:  # section 6.3
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a priority of stream 0")

    def _receive_data_frame(self, flags: int, stream_id: int, payload: bytes) -> None:
        """Section 6.1."""
        if stream_id == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "data in stream 0")
        if stream_id > self._last_stream:
            self._check_not_idle(stream_id)
        self._received += len(payload)
        if self._received >= _WINDOW_UPDATE_AFTER:
            self.out += window_update(0, self._received)
            self._received = 0
        if flags & PADDED:
            payload = strip_padding(payload, PADDED)
        if stream_id in self.windows:
            self._handler.data_received(stream_id, payload, bool(flags & END_STREAM))

    def _receive_headers(self, flags: int, stream_id: int, block: bytes) -> None:
        """Section 6.2."""
        if stream_id > self._last_stream:
            if not self._server or stream_id % 2 == 0:  # section 5.1.1
                raise Http2Error(
                    ErrorCode.PROTOCOL_ERROR, f"headers of stream {stream_id}, which is not open"
                )
            self.windows[stream_id] = self._initial_window
            self._last_stream = stream_id
        elif stream_id == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers in stream 0")
        if flags & END_HEADERS:
            self._handler.headers_received(stream_id, block, bool(flags & END_STREAM))
        else:
            self._block = stream_id, bytearray(block), bool(flags & END_STREAM)

    def _receive_continuation(self, flags: int, payload: bytes) -> None:
        """Section 6.10."""
        if self._block is None:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a continuation of nothing")
        stream_id, block, end_stream = self._block
        block += payload
        # Empty frames would make a block that never ends and never grows.
        if len(block) > _MAX_HEADER_BLOCK or not (payload or flags & END_HEADERS):
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"headers of {len(block)} bytes and more")
        if flags & END_HEADERS:
            self._block = None
            self._handler.headers_received(stream_id, bytes(block), end_stream)

    def _receive_reset(self, stream_id: int, code: int) -> None:
        """Section 6.4."""
        if stream_id == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a reset of stream 0")
        self._check_not_idle(stream_id)
        # A server that has sent its whole response may reset with NO_ERROR (section 8.1); that is no failure.
        if stream_id in self.windows and (self._server or code != ErrorCode.NO_ERROR):
            self.close_stream(stream_id)
            self._handler.stream_reset(stream_id)

    def _receive_window_update(self, stream_id: int, increment: int) -> None:
        """Section 6.9."""
        if increment == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a window that grows by nothing")
        if stream_id == 0:
            self._window = _checked_window(self._window + increment)
        elif stream_id in self.windows:
            self.windows[stream_id] = _checked_window(self.windows[stream_id] + increment)
        self._continue_sending()

    def _receive_control(self, kind: int, flags: int, payload: bytes) -> None:
        """SETTINGS, PING and GOAWAY (sections 6.5, 6.7 and 6.8)."""
        if kind == PING:
            if len(payload) != 8:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a PING frame of {len(payload)} bytes")
            if not flags & ACK:
                self._send_answer(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            if len(payload) < 8:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a GOAWAY frame of {len(payload)} bytes")
            self.goaway_stream = parse_uint32(payload[:4], "GOAWAY") & MAX_STREAM_ID
        elif flags & ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement with settings in it")
        else:
            for identifier, value in parse_settings(payload):
                self._apply_setting(identifier, value)
            self._send_answer(frame(SETTINGS, ACK, 0))
            self._continue_sending()

    def _apply_setting(self, identifier: int, value: int) -> None:
        """Section 6.5.2."""
        if identifier == SettingCode.INITIAL_WINDOW_SIZE:
            change = _checked_window(value) - self._initial_window
            self._initial_window = value
            for stream_id in self.windows:  # section 6.9.2: also those that are open
                self.windows[stream_id] = _checked_window(self.windows[stream_id] + change)
        elif identifier == SettingCode.MAX_FRAME_SIZE:
            if not MIN_MAX_FRAME_SIZE <= value <= MAX_MAX_FRAME_SIZE:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frames of {value} bytes at most")
            self._max_frame_size = value
        elif identifier == SettingCode.ENABLE_PUSH and value > 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a setting ENABLE_PUSH of {value}")

    def _check_not_idle(self, stream_id: int) -> None:
        """Section 5.1: frames of idle streams are errors."""
        if stream_id > self._last_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame of stream {stream_id}, which has not begun")


def _checked_window(window: int) -> int:
    """Section 6.9.1."""
    if window > MAX_WINDOW:
        raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {window} bytes")
    return window
