"""The headers of HTTP/2, as gRPC uses them (RFC 7541; gRPC's PROTOCOL-HTTP2)."""

from collections.abc import Mapping
from urllib.parse import quote_from_bytes, unquote

from hpack import Decoder, HPACKError

from .frames import ErrorCode, ProtocolError

PATH = b"/communicator_objects.UnityToExternalProto/Exchange"
"""The one method there is."""

_LARGEST_LIST = 1 << 16
_REMEMBERED = 16

_STATUS_200 = 0x88  # indices of HPACK's static table, as whole entries
_POST, _HTTP = 0x83, 0x86
_AUTHORITY, _PATH, _CONTENT_TYPE = 1, 4, 31  # names of the static table
_STATUS = 8


def _number(value: int, prefix: int, first: int) -> bytes:
    """A number whose first byte has `prefix` bits of room; `first` are the other bits of that byte."""
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


def _named(name: int, value: bytes) -> bytes:
    """A header that is not to be indexed, whose name is in the static table."""
    return _number(name, 4, 0) + _number(len(value), 7, 0) + value


def _literal(name: bytes, value: bytes) -> bytes:
    """A header that is not to be indexed, with its name."""
    return b"\0" + _number(len(name), 7, 0) + name + _number(len(value), 7, 0) + value


RESPONSE_HEADERS = bytes((_STATUS_200,)) + _named(_CONTENT_TYPE, b"application/grpc")
"""The coded headers of an answer."""
TRAILERS_OK = _literal(b"grpc-status", b"0")
"""The coded trailers of an answer that is one."""


class HeaderBlocks:
    """Reads the coded headers of one connection's other side.

    What a block means depends on the blocks before it. Blocks that have changed nothing about that are
    remembered, since a client sends the same few bytes with every call.
    """

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=_LARGEST_LIST)
        self._known: dict[bytes, Mapping[bytes, bytes]] = {}

    def read(self, block: bytes) -> Mapping[bytes, bytes]:
        """The headers; of several with one name the last.

        Raises:
            ProtocolError: The block cannot be decoded.
        """
        known = self._known.get(block)
        if known is not None:
            return known
        table = self._decoder.header_table
        before = tuple(table.dynamic_entries), table.maxsize
        try:
            headers = {bytes(name): bytes(value) for name, value in self._decoder.decode(block, raw=True)}
        except HPACKError as error:
            raise ProtocolError(ErrorCode.COMPRESSION_ERROR, f"headers: {error}") from error
        if (tuple(table.dynamic_entries), table.maxsize) != before:
            self._known.clear()
        elif len(self._known) < _REMEMBERED:
            self._known[block] = headers
        return headers


def request_headers(authority: str) -> bytes:
    """The coded headers of a call; they change nothing about how later ones are read."""
    return (
        bytes((_POST, _HTTP))
        + _named(_PATH, PATH)
        + _named(_AUTHORITY, authority.encode())
        + _literal(b"te", b"trailers")
        + _named(_CONTENT_TYPE, b"application/grpc")
        + _literal(b"user-agent", b"grpc-python-lanista")
    )


def status_headers(status: int, message: str) -> bytes:
    """The coded headers that refuse a call: they are its whole answer."""
    text = quote_from_bytes(message.encode(), safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~").encode()
    return RESPONSE_HEADERS + _literal(b"grpc-status", b"%d" % status) + _literal(b"grpc-message", text)


def plain_status_headers(status: int) -> bytes:
    """The coded headers that refuse what is no call of gRPC at all, by a status of HTTP."""
    return _named(_STATUS, b"%d" % status)


def status_of(headers: Mapping[bytes, bytes]) -> tuple[int, str]:
    """Status and message of gRPC in trailers; a missing or unreadable status is 2 (unknown)."""
    message = unquote(headers.get(b"grpc-message", b"").decode("latin-1"))
    try:
        return int(headers.get(b"grpc-status", b"2")), message
    except ValueError:
        return 2, message
