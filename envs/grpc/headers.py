"""Field blocks as gRPC uses them: HPACK (RFC 7541) and gRPC's PROTOCOL-HTTP2."""

from collections.abc import Mapping
from urllib.parse import quote_from_bytes, unquote

from hpack import Decoder, HPACKError

from .frames import ErrorCode, Http2Error

UNITY_PATH = b"/communicator_objects.UnityToExternalProto/Exchange"
UNREAL_PATH = b"/communicator_objects.UnrealToExternalProto/Exchange"
PATHS = {UNITY_PATH: "Unity", UNREAL_PATH: "Unreal"}
"""The methods, each with the engine whose plug-in calls it."""

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
