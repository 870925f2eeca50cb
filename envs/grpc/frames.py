"""HTTP/2 frames, and the field blocks in them as gRPC uses them.

A frame is a header of nine bytes, then a payload (RFC 9113, sections 4 to 7). Field blocks are coded by HPACK
(RFC 7541); which fields there are says gRPC's PROTOCOL-HTTP2.
"""

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from urllib.parse import quote_from_bytes, unquote

from hpack import Decoder, HPACKError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of a client's connection (section 3.4)."""
FRAME_HEADER = struct.Struct(">HBBBI")
"""Length (24 bits: 16 and 8), type, flags, stream identifier (section 4.1)."""
HEADER_SIZE = FRAME_HEADER.size
MAX_WINDOW = 2**31 - 1  # section 6.9.1
INITIAL_WINDOW = 65_535  # section 6.9.2
MIN_MAX_FRAME_SIZE = 16_384  # section 4.2: what every endpoint accepts
MAX_MAX_FRAME_SIZE = 2**24 - 1  # section 6.5.2
MAX_STREAM_ID = 2**31 - 1  # section 5.1.1; also the mask for the reserved bit in front of stream identifiers

# Frame types (section 6). Plain integers: looking up members of an IntEnum is slow on the hot path.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9

# Flags (section 6); `PRIORITIZED` is the PRIORITY flag of a HEADERS frame.
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20

_SETTING = struct.Struct(">HI")
_UINT32 = struct.Struct(">I")
_TWO_UINT32 = struct.Struct(">II")


class SettingCode(IntEnum):
    """The defined settings (section 6.5.2)."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11


class Http2Error(Exception):
    """A connection error (section 5.4.1): the peer violates the protocol."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return frame_header(len(payload), kind, flags, stream_id) + payload


def frame_header(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    """The header of a frame whose payload has `length` bytes."""
    return FRAME_HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream_id)


def parse_header(data: "bytes | bytearray | memoryview", offset: int) -> tuple[int, int, int, int]:
    """Payload length, type, flags and stream identifier of the frame that begins at `offset`."""
    high, low, kind, flags, stream_id = FRAME_HEADER.unpack_from(data, offset)
    return high << 8 | low, kind, flags, stream_id & MAX_STREAM_ID


def settings_frame(values: Iterable[tuple[SettingCode, int]]) -> bytes:
    """A SETTINGS frame (section 6.5)."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values))


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """The (identifier, value) pairs of a SETTINGS frame, unknown settings included.

    Raises:
        Http2Error: The payload does not consist of such pairs.
    """
    if len(payload) % _SETTING.size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a SETTINGS frame of {len(payload)} bytes")
    return list(_SETTING.iter_unpack(payload))


def window_update(stream_id: int, increment: int) -> bytes:
    """A WINDOW_UPDATE frame: the peer may send `increment` more bytes (section 6.9)."""
    return frame(WINDOW_UPDATE, 0, stream_id, _UINT32.pack(increment))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """A RST_STREAM frame, which ends one stream immediately (section 6.4)."""
    return frame(RST_STREAM, 0, stream_id, _UINT32.pack(code))


def goaway(last_stream_id: int, code: ErrorCode, reason: str = "") -> bytes:
    """A GOAWAY frame, which announces that the connection is shut down (section 6.8).

    Args:
        last_stream_id: The last stream that was or might be processed.
        code: Why.
        reason: Additional debug data, for people.
    """
    return frame(GOAWAY, 0, 0, _TWO_UINT32.pack(last_stream_id, code) + reason.encode())


def parse_uint32(payload: bytes, what: str) -> int:
    """The single 32-bit number that makes up a frame's payload.

    Raises:
        Http2Error: The payload does not have four bytes.
    """
    if len(payload) != _UINT32.size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a {what} frame of {len(payload)} bytes")
    (number,) = _UINT32.unpack(payload)
    return int(number)


def strip_padding(payload: bytes, flags: int) -> bytes:
    """The content of a DATA or HEADERS frame, without padding and priority (sections 6.1 and 6.2).

    Raises:
        Http2Error: There is more padding than payload.
    """
    start, padding = 0, 0
    if flags & PADDED:
        padding, start = (payload[0] if payload else 1 << 16), 1
    if flags & PRIORITIZED:
        start += 5
    if start + padding > len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a frame with more padding than payload")
    return payload[start : len(payload) - padding]


def last_goaway_reason(tail: bytes) -> str:
    """The debug data of the last GOAWAY frame of a connection; "" without one.

    Args:
        tail: The last bytes that were sent, starting anywhere; they end with a whole frame.
    """
    for start in range(len(tail) - HEADER_SIZE - _TWO_UINT32.size, -1, -1):
        length, kind, flags, stream_id = parse_header(tail, start)
        body = start + HEADER_SIZE
        if (kind, flags, stream_id) == (GOAWAY, 0, 0) and _are_frames(tail, body + length):
            reason = tail[body + _TWO_UINT32.size : body + length].decode("utf-8", "replace")
            return "".join(letter for letter in reason if letter.isprintable())
    return ""


def _are_frames(data: bytes, start: int) -> bool:
    """Whether data[start:] consists of whole frames, or is empty."""
    while start + HEADER_SIZE <= len(data):
        start += HEADER_SIZE + parse_header(data, start)[0]
    return start == len(data)


_MAX_HEADER_LIST = 1 << 16
_MAX_CACHED = 16

_STATUS_200 = 0x88  # indexed fields of HPACK's static table (RFC 7541, section 6.1 and appendix A)
_POST, _HTTP = 0x83, 0x86
_AUTHORITY, _PATH, _CONTENT_TYPE = 1, 4, 31  # indices of names in the static table
_STATUS = 8


def _integer(value: int, prefix: int, first: int) -> bytes:
    """An integer whose first byte has `prefix` bits of room and the other bits `first` (RFC 7541, 5.1)."""
    limit = (1 << prefix) - 1
    if value < limit:
        return bytes((first | value,))
    coded = bytearray((first | limit,))
    value -= limit
    while value >= 128:
        coded.append(value & 127 | 128)
        value >>= 7
    coded.append(value)
    return bytes(coded)


def _indexed_name(name: int, value: bytes) -> bytes:
    """A literal field without indexing, whose name is in the static table (RFC 7541, 6.2.2)."""
    return _integer(name, 4, 0) + _integer(len(value), 7, 0) + value


def _literal(name: bytes, value: bytes) -> bytes:
    """A literal field without indexing, with its name (RFC 7541, 6.2.2)."""
    return b"\0" + _integer(len(name), 7, 0) + name + _integer(len(value), 7, 0) + value


RESPONSE_HEADERS = bytes((_STATUS_200,)) + _indexed_name(_CONTENT_TYPE, b"application/grpc")
"""The field block with which a response begins."""
TRAILERS_OK = _literal(b"grpc-status", b"0")
"""The trailers of a successful response."""


class HeaderDecoder:
    """Decodes the peer's field blocks.

    What a block means depends on the blocks before it. Blocks that leave the dynamic table as it is are
    cached, since a client sends the same few bytes with every call.
    """

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=_MAX_HEADER_LIST)
        self.cache: dict[bytes, Mapping[bytes, bytes]] = {}
        """The headers of blocks that leave the dynamic table as it is."""

    def decode(self, block: bytes) -> Mapping[bytes, bytes]:
        """The headers; of several with the same name, the last. Look into `cache` first.

        Raises:
            Http2Error: The block cannot be decoded.
        """
        table = self._decoder.header_table
        before = tuple(table.dynamic_entries), table.maxsize
        try:
            headers = {bytes(name): bytes(value) for name, value in self._decoder.decode(block, raw=True)}
        except HPACKError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"headers: {error}") from error
        if (tuple(table.dynamic_entries), table.maxsize) != before:
            self.cache.clear()
        elif len(self.cache) < _MAX_CACHED:
            self.cache[block] = headers
        return headers


def request_headers(authority: str, path: bytes) -> bytes:
    """The field block of a request to this method; it leaves the dynamic table as it is."""
    return (
        bytes((_POST, _HTTP))
        + _indexed_name(_PATH, path)
        + _indexed_name(_AUTHORITY, authority.encode())
        + _literal(b"te", b"trailers")
        + _indexed_name(_CONTENT_TYPE, b"application/grpc")
        + _literal(b"user-agent", b"grpc-python-lanista")
    )


def status_headers(status: int, message: str) -> bytes:
    """The field block of a "Trailers-Only" response, which rejects a call."""
    text = quote_from_bytes(message.encode(), safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~").encode()
    return RESPONSE_HEADERS + _literal(b"grpc-status", b"%d" % status) + _literal(b"grpc-message", text)


def http_status_headers(status: int) -> bytes:
    """The field block that rejects what is not a gRPC request, with an HTTP status."""
    return _indexed_name(_STATUS, b"%d" % status)


def grpc_status(headers: Mapping[bytes, bytes]) -> tuple[int, str]:
    """The gRPC status and message in trailers; a missing or malformed status is 2 (UNKNOWN)."""
    message = unquote(headers.get(b"grpc-message", b"").decode("latin-1"))
    try:
        return int(headers.get(b"grpc-status", b"2")), message
    except ValueError:
        return 2, message
