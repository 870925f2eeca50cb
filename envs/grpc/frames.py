"""HTTP/2's frames: nine bytes of header, then a payload (RFC 9113, sections 4 to 7)."""

import struct
from collections.abc import Iterable
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client's connection begins with."""
HEADER_SIZE = 9
LARGEST_WINDOW = 2**31 - 1
DEFAULT_WINDOW = 65_535
DEFAULT_FRAME_SIZE = 16_384
LARGEST_FRAME_SIZE = 2**24 - 1

# Types. Plain numbers, since an IntEnum's members cost a look-up each on the hot path.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9

# Flags.
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20

_HEADER = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")
_NUMBER = struct.Struct(">I")
_TWO_NUMBERS = struct.Struct(">II")


class Setting(IntEnum):
    """The settings of which a side tells the other, as far as this program minds them."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

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


class ProtocolError(Exception):
    """The other side does not speak HTTP/2 as it should; the connection cannot go on."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A whole frame."""
    return frame_header(len(payload), kind, flags, stream) + payload


def frame_header(length: int, kind: int, flags: int, stream: int) -> bytes:
    """The first nine bytes of a frame whose payload has `length` bytes."""
    return _HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream)


def parse_header(data: "bytes | bytearray | memoryview", offset: int) -> tuple[int, int, int, int]:
    """Length of the payload, type, flags and stream of the frame that begins at `offset`."""
    high, low, kind, flags, stream = _HEADER.unpack_from(data, offset)
    return high << 8 | low, kind, flags, stream & 0x7FFFFFFF


def settings(values: Iterable[tuple[Setting, int]]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values))


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """The pairs of number and value in a SETTINGS frame, of known and unknown settings.

    Raises:
        ProtocolError: The payload is not made of pairs.
    """
    if len(payload) % _SETTING.size:
        raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a SETTINGS frame of {len(payload)} bytes")
    return list(_SETTING.iter_unpack(payload))


def window_update(stream: int, increment: int) -> bytes:
    """A frame that lets the other side send `increment` bytes more."""
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(increment))


def reset(stream: int, code: ErrorCode) -> bytes:
    """A frame that ends one stream at once."""
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last_stream: int, code: ErrorCode, reason: str = "") -> bytes:
    """A frame that announces the end of the connection; `last_stream` was the last one looked at."""
    return frame(GOAWAY, 0, 0, _TWO_NUMBERS.pack(last_stream, code) + reason.encode())


def parse_number(payload: bytes, what: str) -> int:
    """The one number that a frame consists of.

    Raises:
        ProtocolError: The payload does not have four bytes.
    """
    if len(payload) != _NUMBER.size:
        raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a {what} frame of {len(payload)} bytes")
    (number,) = _NUMBER.unpack(payload)
    return int(number)


def unpadded(payload: bytes, flags: int) -> bytes:
    """What a DATA or HEADERS frame carries, without padding and priority.

    Raises:
        ProtocolError: There is more padding than payload.
    """
    start, padding = 0, 0
    if flags & PADDED:
        padding, start = (payload[0] if payload else 1 << 16), 1
    if flags & PRIORITIZED:
        start += 5
    if start + padding > len(payload):
        raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a frame with more padding than payload")
    return payload[start : len(payload) - padding]


def last_goodbye(tail: bytes) -> str:
    """The reason in the last GOAWAY frame of a connection; "" without one.

    Args:
        tail: The last bytes that were sent, from anywhere on; they end with a whole frame.
    """
    for start in range(len(tail) - HEADER_SIZE - _TWO_NUMBERS.size, -1, -1):
        length, kind, flags, stream = parse_header(tail, start)
        body = start + HEADER_SIZE
        if (kind, flags, stream) == (GOAWAY, 0, 0) and _are_frames(tail, body + length):
            words = tail[body + _TWO_NUMBERS.size : body + length].decode("utf-8", "replace")
            return "".join(letter for letter in words if letter.isprintable())
    return ""


def _are_frames(data: bytes, start: int) -> bool:
    """Whether whole frames, or none, are between here and the end."""
    while start + HEADER_SIZE <= len(data):
        start += HEADER_SIZE + parse_header(data, start)[0]
    return start == len(data)
