"""gRPC's unary calls over one HTTP/2 connection, without its socket (gRPC's PROTOCOL-HTTP2)."""

import struct
from collections.abc import Mapping

from .connection import Connection
from .frames import LARGEST_WINDOW, ErrorCode, ProtocolError
from .headers import (
    PATH,
    RESPONSE_HEADERS,
    TRAILERS_OK,
    HeaderBlocks,
    plain_status_headers,
    request_headers,
    status_headers,
    status_of,
)

_PREFIX = struct.Struct(">BI")  # compressed or not, length
_LARGEST_MESSAGE = LARGEST_WINDOW - _PREFIX.size
_LAST_STREAM = 2**31 - 1

OK, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL = 0, 8, 9, 12, 13
"""Statuses of gRPC."""


class StatusError(Exception):
    """A call is refused, or a message is none."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Message:
    """One message on its way in: five bytes of prefix, then the bytes."""

    def __init__(self) -> None:
        self._parts = b""
        self._more: bytearray | None = None

    def add(self, data: bytes) -> None:
        """Take in what has arrived. Raises StatusError as soon as it cannot be a message that we take."""
        if not self._parts:
            self._parts = data
        else:
            if self._more is None:
                self._more = bytearray(self._parts)
            self._more += data
        body = self._more or self._parts
        if len(body) < _PREFIX.size:
            return
        compressed, length = _PREFIX.unpack_from(body)
        if compressed:
            raise StatusError(UNIMPLEMENTED, "Compressed messages are not supported; send them as they are.")
        if length > _LARGEST_MESSAGE:
            raise StatusError(RESOURCE_EXHAUSTED, f"A message of {length} bytes is too long.")
        if len(body) > _PREFIX.size + length:
            raise StatusError(INTERNAL, "A call has one message, and this one has more.")

    def finish(self) -> bytes:
        """The message. Raises StatusError when it is not there as a whole."""
        body = self._more or self._parts
        if len(body) < _PREFIX.size or len(body) != _PREFIX.size + _PREFIX.unpack_from(body)[1]:
            raise StatusError(INTERNAL, "The message is cut short.")
        return bytes(memoryview(body)[_PREFIX.size :])


class UnaryServer:
    """The server's side of one connection. It knows one method, and serves one call at a time."""

    def __init__(self) -> None:
        self.connection = Connection(self, server=True)
        self.request: bytes | None = None
        """The message of a call that waits to be taken and answered; who takes it sets it to None."""
        self.cancelled = False
        """Whether the other side gave its last call up before it had an answer."""
        self._headers = HeaderBlocks()
        self._newest = 0
        self._call = 0
        self._message: _Message | None = None

    @property
    def waits(self) -> bool:
        """Whether a whole call has come, taken or not, and waits for its answer."""
        return self._call != 0 and self._message is None

    @property
    def worn_out(self) -> bool:
        """Whether the other side must soon go on over another connection: three quarters of the numbers that
        calls can have are used up (some stop there), or it has said goodbye.
        """
        return self._newest > _LAST_STREAM // 4 * 3 or self.connection.refused_after is not None

    def reply(self, message: bytes) -> None:
        """Answer the call."""
        call, self._call = self._call, 0
        self.connection.send(call, RESPONSE_HEADERS, _PREFIX.pack(0, len(message)) + message, TRAILERS_OK)

    def refuse(self, status: int, message: str) -> None:
        """Answer the call with an error."""
        call, self._call, self._message, self.request = self._call, 0, None, None
        self.connection.send_headers(call, status_headers(status, message))
        self.connection.close(call)

    def headers(self, stream: int, block: bytes, end: bool) -> None:
        """A call begins, or its message is followed by trailers."""
        headers = self._headers.read(block)
        if stream <= self._newest:
            self._trailers(stream, end)
            return
        self._newest = stream
        refusal = self._refusal(headers, end)
        if refusal is not None:
            self.connection.send_headers(stream, refusal)
            self._drop(stream, end)
            return
        self._call, self._message, self.cancelled = stream, _Message(), False

    def data(self, stream: int, payload: bytes, end: bool) -> None:
        """A part of a call's message."""
        if stream != self._call or self._message is None:
            raise ProtocolError(ErrorCode.STREAM_CLOSED, "data after the end of a call")
        try:
            self._message.add(payload)
        except StatusError as error:
            self._call, self._message = 0, None
            self.connection.send_headers(stream, status_headers(error.status, str(error)))
            self._drop(stream, end)
            return
        if end:
            self._finish(self._message)

    def reset(self, stream: int) -> None:
        """A call is given up."""
        if stream == self._call:
            self._call, self._message, self.request = 0, None, None
            self.cancelled = True

    def _trailers(self, stream: int, end: bool) -> None:
        if not self.connection.is_open(stream):
            return
        if stream != self._call or self._message is None:
            raise ProtocolError(ErrorCode.STREAM_CLOSED, "headers after the end of a call")
        if not end:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "trailers without an end")
        self._finish(self._message)

    def _finish(self, message: _Message) -> None:
        self._message = None
        try:
            self.request = message.finish()
        except StatusError as error:
            self.refuse(error.status, str(error))

    def _drop(self, stream: int, ended: bool) -> None:
        """Forget a call that was refused; what is still to come of it need not be sent."""
        if ended:
            self.connection.close(stream)
        else:
            self.connection.send_reset(stream, ErrorCode.NO_ERROR)

    def _refusal(self, headers: Mapping[bytes, bytes], ended: bool) -> bytes | None:
        if headers.get(b":method") != b"POST" or not headers.get(b"content-type", b"").startswith(
            b"application/grpc"
        ):
            return plain_status_headers(415)
        path = headers.get(b":path", b"")
        if path != PATH:
            return status_headers(UNIMPLEMENTED, f"There is no method {path.decode(errors='replace')}.")
        if self._call or self.connection.sending:
            return status_headers(FAILED_PRECONDITION, "The call before this one has not been answered yet.")
        if ended:
            return status_headers(INTERNAL, "A call has one message, and this one has none.")
        return None


class UnaryClient:
    """The client's side of one connection, which makes one call after the other.

    Args:
        authority: Whom it calls, as `host:port`.
    """

    def __init__(self, authority: str) -> None:
        self.connection = Connection(self, server=False)
        self.response: bytes | None = None
        """The answer to the last call, once it is there."""
        self._headers = HeaderBlocks()
        self._request = request_headers(authority)
        self._call = -1
        self._message = _Message()
        self._failure: StatusError | None = None

    @property
    def exhausted(self) -> bool:
        """Whether no further call can be made: the numbers have run out, or the server has said goodbye."""
        return self._call + 2 > _LAST_STREAM or self.connection.refused_after is not None

    def call(self, message: bytes) -> None:
        """Begin a call; the last one has ended."""
        self._call += 2
        self.response, self._failure, self._message = None, None, _Message()
        self.connection.open(self._call)
        self.connection.send(self._call, self._request, _PREFIX.pack(0, len(message)) + message, None)

    def feed(self, data: bytes) -> None:
        """Take in what has arrived.

        Raises:
            StatusError: The server has refused the call, or will not look at it.
            ProtocolError: The other side does not speak HTTP/2 as it should.
        """
        self.connection.feed(data)
        last = self.connection.refused_after
        if last is not None and last < self._call and self.connection.is_open(self._call):
            self._fail(FAILED_PRECONDITION, "it has said goodbye")
        if self._failure is not None:
            raise self._failure

    def headers(self, stream: int, block: bytes, end: bool) -> None:
        """The answer begins, or ends with trailers."""
        headers = self._headers.read(block)
        if stream != self._call or not self.connection.is_open(stream):
            return
        http = headers.get(b":status", b"200")
        if http != b"200":
            self._fail(INTERNAL, f"it answers with the HTTP status {http.decode(errors='replace')}")
        elif end:
            self._finish(*status_of(headers))

    def data(self, stream: int, payload: bytes, end: bool) -> None:
        """A part of the answer."""
        try:
            self._message.add(payload)
        except StatusError as error:
            self._fail(error.status, str(error))
            return
        if end:
            self._fail(INTERNAL, "its answer has no trailers")

    def reset(self, stream: int) -> None:
        """The server has given the call up."""
        self._fail(INTERNAL, "it has dropped the call")

    def _finish(self, status: int, text: str) -> None:
        if status != OK:
            self._fail(status, text or f"it answers with the gRPC status {status}")
            return
        try:
            self.response = self._message.finish()
        except StatusError as error:
            self._fail(error.status, str(error))
        self.connection.close(self._call)

    def _fail(self, status: int, message: str) -> None:
        """Remember why the call has failed: what else has arrived must be read all the same."""
        self.connection.close(self._call)
        self._failure = StatusError(status, message)
