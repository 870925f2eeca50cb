"""gRPC's unary calls over one HTTP/2 connection, without I/O (gRPC's PROTOCOL-HTTP2)."""

import struct
from collections.abc import Mapping

from ..protocol.handshake import OLD_UNITY, OLD_UNITY_PATH, PATHS
from .connection import Connection
from .frames import (
    MAX_STREAM_ID,
    MAX_WINDOW,
    RESPONSE_HEADERS,
    TRAILERS_OK,
    ErrorCode,
    HeaderDecoder,
    Http2Error,
    grpc_status,
    http_status_headers,
    request_headers,
    status_headers,
)

_PREFIX = struct.Struct(">BI")  # compressed flag, length
_MAX_MESSAGE = MAX_WINDOW - _PREFIX.size
_MAX_ECHO = 100
"""Bytes of a method's name that a refusal repeats."""

OK, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL = 0, 8, 9, 12, 13
"""gRPC status codes."""


class StatusError(Exception):
    """A call is rejected, or its message is invalid."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def parse_message(body: bytes | bytearray, complete: bool) -> bytes:
    """The one message of a request's or response's body: a prefix of five bytes, then the message.

    Args:
        body: What has arrived so far.
        complete: Whether that is all; else it is only checked, and the result means nothing.

    Raises:
        StatusError: It is not, or cannot become, a message that we accept.
    """
    if len(body) >= _PREFIX.size:
        compressed, length = _PREFIX.unpack_from(body)
        if compressed:
            raise StatusError(UNIMPLEMENTED, "Compressed messages are not supported; send them as they are.")
        if length > _MAX_MESSAGE:
            raise StatusError(RESOURCE_EXHAUSTED, f"A message of {length} bytes is too long.")
        if len(body) > _PREFIX.size + length:
            raise StatusError(INTERNAL, "A call has one message, and this one has more.")
        if not complete:
            return b""
        if len(body) == _PREFIX.size + length:
            return bytes(memoryview(body)[_PREFIX.size :])
    elif not complete:
        return b""
    raise StatusError(INTERNAL, "The message is cut short.")


def _appended(body: bytes | bytearray, data: bytes) -> bytes | bytearray:
    """The body with more data; its first part is not copied, for mostly it is the only one."""
    if not body:
        return data
    grown = body if isinstance(body, bytearray) else bytearray(body)
    grown += data
    return grown


class UnaryServer:
    """The server's side of one connection. It knows the engines' methods and serves one call at a time."""

    def __init__(self) -> None:
        self.connection = Connection(self, server=True)
        self.request: bytes | None = None
        """The message of a call that waits for its response; the caller takes it by setting it to None."""
        self.has_pending_call = False
        """Whether a whole request has arrived, taken or not, and waits for its response."""
        self.cancelled = False
        """Whether the client cancelled its last call before the response."""
        self.path = b""
        """The method that the client calls."""
        self.outdated = ""
        """Why the client can never be served, if it is an engine of an older protocol."""
        self._headers = HeaderDecoder()
        self._accepted: Mapping[bytes, bytes] | None = None
        self._last_stream = 0
        self._call = 0
        self._body: bytes | bytearray = b""

    @property
    def stream_ids_exhausted(self) -> bool:
        """Whether the client must soon continue on another connection.

        Three quarters of the stream identifiers are used up (some clients stop there), or it has sent GOAWAY.
        """
        return self._last_stream > MAX_STREAM_ID // 4 * 3 or self.connection.goaway_stream is not None

    def reply(self, message: bytes) -> None:
        """Respond to the call."""
        call, self._call, self.has_pending_call = self._call, 0, False
        self.connection.send(call, RESPONSE_HEADERS, _PREFIX.pack(0, len(message)) + message, TRAILERS_OK)

    def reject(self, status: int, message: str) -> None:
        """Respond to the call with an error."""
        call = self._call
        self._end_call()
        self.connection.send_headers(call, status_headers(status, message))
        self.connection.close_stream(call)

    def headers_received(self, stream_id: int, block: bytes, end_stream: bool) -> None:
        """A request begins, or its message is followed by trailers."""
        headers = self._headers.cache.get(block) or self._headers.decode(block)
        if stream_id <= self._last_stream:
            self._receive_trailers(stream_id, end_stream)
            return
        self._last_stream = stream_id
        if headers is not self._accepted or self._call or self.connection.blocked_stream or end_stream:
            rejection = self._rejection(headers, end_stream)
            if rejection is not None:
                self.connection.send_headers(stream_id, rejection)
                self._drop_stream(stream_id, end_stream)
                return
            self._accepted, self.path = headers, headers[b":path"]
        self._call, self._body, self.cancelled = stream_id, b"", False

    def data_received(self, stream_id: int, data: bytes, end_stream: bool) -> None:
        """A part of a request's message."""
        if stream_id != self._call or self.has_pending_call:
            raise Http2Error(ErrorCode.STREAM_CLOSED, "data after the end of a call")
        body = self._body = _appended(self._body, data) if self._body else data
        try:
            message = parse_message(body, end_stream)
        except StatusError as error:
            self._end_call()
            self.connection.send_headers(stream_id, status_headers(error.status, str(error)))
            self._drop_stream(stream_id, end_stream)
            return
        if end_stream:
            self.request, self._body, self.has_pending_call = message, b"", True

    def stream_reset(self, stream_id: int) -> None:
        """The client has cancelled a call."""
        if stream_id == self._call:
            self._end_call()
            self.cancelled = True

    def _receive_trailers(self, stream_id: int, end_stream: bool) -> None:
        if stream_id not in self.connection.windows:
            return
        if stream_id != self._call or self.has_pending_call:
            raise Http2Error(ErrorCode.STREAM_CLOSED, "headers after the end of a call")
        if not end_stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "trailers without an end")
        try:
            self.request = parse_message(self._body, complete=True)
        except StatusError as error:
            self.reject(error.status, str(error))
        else:
            self._body, self.has_pending_call = b"", True

    def _end_call(self) -> None:
        self._call, self._body, self.has_pending_call, self.request = 0, b"", False, None

    def _drop_stream(self, stream_id: int, ended: bool) -> None:
        """Close the stream of a rejected call; the client need not send the rest of it."""
        if ended:
            self.connection.close_stream(stream_id)
        else:
            self.connection.send_reset(stream_id, ErrorCode.NO_ERROR)

    def _rejection(self, headers: Mapping[bytes, bytes], ended: bool) -> bytes | None:
        """The field block that rejects a request; None for one that is accepted."""
        if headers.get(b":method") != b"POST" or not headers.get(b"content-type", b"").startswith(
            b"application/grpc"
        ):
            return http_status_headers(415)
        path = headers.get(b":path", b"")
        if path == OLD_UNITY_PATH:
            self.outdated = OLD_UNITY
            return status_headers(UNIMPLEMENTED, OLD_UNITY)
        if path not in PATHS:
            name = path[:_MAX_ECHO].decode(errors="replace") + ("..." if len(path) > _MAX_ECHO else "")
            return status_headers(UNIMPLEMENTED, f"There is no method {name}.")
        if self._call or self.connection.blocked_stream:
            return status_headers(FAILED_PRECONDITION, "The call before this one has not been answered yet.")
        if ended:
            return status_headers(INTERNAL, "A call has one message, and this one has none.")
        return None


class UnaryClient:
    """The client's side of one connection, which makes one call after the other.

    Args:
        authority: The server, as `host:port`.
        path: The method.
    """

    def __init__(self, authority: str, path: bytes) -> None:
        self.connection = Connection(self, server=False)
        self.response: bytes | None = None
        """The response to the last call, once it has arrived."""
        self._headers = HeaderDecoder()
        self._request = request_headers(authority, path)
        self._call = -1
        self._body: bytes | bytearray = b""
        self._failure: StatusError | None = None

    @property
    def exhausted(self) -> bool:
        """Whether no further call can be made: stream identifiers ran out, or the server has sent GOAWAY."""
        return self._call + 2 > MAX_STREAM_ID or self.connection.goaway_stream is not None

    def call(self, message: bytes) -> None:
        """Begin a call; the last one has ended."""
        self._call += 2
        self.response, self._failure, self._body = None, None, b""
        self.connection.open_stream(self._call)
        self.connection.send(self._call, self._request, _PREFIX.pack(0, len(message)) + message, None)

    def receive_data(self, data: bytes) -> None:
        """Process bytes that have arrived.

        Raises:
            StatusError: The server has rejected the call, or will not process it.
            Http2Error: The peer violates HTTP/2.
        """
        self.connection.receive_data(data)
        last = self.connection.goaway_stream
        if last is not None and last < self._call and self._call in self.connection.windows:
            self._fail(FAILED_PRECONDITION, "it has said goodbye")
        if self._failure is not None:
            raise self._failure

    def headers_received(self, stream_id: int, block: bytes, end_stream: bool) -> None:
        """The response begins, or ends with trailers."""
        headers = self._headers.cache.get(block) or self._headers.decode(block)
        if stream_id != self._call or stream_id not in self.connection.windows:
            return
        http = headers.get(b":status", b"200")
        if http != b"200":
            self._fail(INTERNAL, f"it answers with the HTTP status {http.decode(errors='replace')}")
        elif end_stream:
            self._finish(*grpc_status(headers))

    def data_received(self, stream_id: int, data: bytes, end_stream: bool) -> None:
        """A part of the response."""
        self._body = _appended(self._body, data)
        try:
            parse_message(self._body, complete=False)
        except StatusError as error:
            self._fail(error.status, str(error))
            return
        if end_stream:
            self._fail(INTERNAL, "its answer has no trailers")

    def stream_reset(self, stream_id: int) -> None:
        """The server has cancelled the call."""
        self._fail(INTERNAL, "it has dropped the call")

    def _finish(self, status: int, text: str) -> None:
        if status != OK:
            self._fail(status, text or f"it answers with the gRPC status {status}")
            return
        try:
            self.response = parse_message(self._body, complete=True)
        except StatusError as error:
            self._fail(error.status, str(error))
        self.connection.close_stream(self._call)

    def _fail(self, status: int, message: str) -> None:
        """Record why the call has failed: what else has arrived must be processed all the same."""
        self.connection.close_stream(self._call)
        self._failure = StatusError(status, message)
