"""The other side of a connection, made of frames by hand and of hpack's own encoder, to hold ours against."""

import struct
from collections.abc import Iterable

from hpack import Decoder, Encoder
from lanista.envs.grpc import frames
from lanista.envs.grpc.frames import DATA, END_HEADERS, END_STREAM, HEADERS

PATH = "/communicator_objects.UnityToExternalProto/Exchange"
AS_UNITY_SENDS = (
    (":scheme", "http"),
    (":method", "POST"),
    (":authority", "localhost:5005"),
    (":path", PATH),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
    ("user-agent", "grpc-csharp/1.10.0 grpc-c/6.0.0 (windows; chttp2; glamorous)"),
    ("grpc-accept-encoding", "identity,deflate,gzip"),
    ("accept-encoding", "identity,gzip"),
)
HELLO = frames.PREFACE + frames.settings_frame(())


def prefixed(message: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, len(message)) + message


def data(stream: int, body: bytes, end: bool = True) -> bytes:
    return frames.frame(DATA, END_STREAM if end else 0, stream, body)


class Caller:
    """A client that codes headers with a dynamic table and Huffman's code, as gRPC's own does."""

    def __init__(self, headers: Iterable[tuple[str, str]] = AS_UNITY_SENDS) -> None:
        self.encoder = Encoder()
        self._headers = list(headers)

    def block(self, **changes: str) -> bytes:
        names = {name.lstrip(":").replace("-", "_"): name for name, _ in self._headers}
        changed = {names.get(key, key.replace("_", "-")): value for key, value in changes.items()}
        pairs = [(name, changed.pop(name, value)) for name, value in self._headers]
        return self.encoder.encode([*pairs, *changed.items()])

    def begin(self, stream: int, end: bool = False, **changes: str) -> bytes:
        flags = END_HEADERS | (END_STREAM if end else 0)
        return frames.frame(HEADERS, flags, stream, self.block(**changes))

    def call(self, stream: int, message: bytes, **changes: str) -> bytes:
        return self.begin(stream, **changes) + data(stream, prefixed(message))


class Reader:
    """Reads what ours has sent: plain frames, and the answers that they make up."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self.body: dict[int, bytes] = {}
        self.headers: dict[int, list[dict[str, str]]] = {}
        self.ended: set[int] = set()
        self.others: list[tuple[int, int, int, bytes]] = []

    def read(self, out: bytearray) -> "Reader":
        """Take all of `out`."""
        offset = 0
        while offset < len(out):
            length, kind, flags, stream = frames.parse_header(out, offset)
            payload = bytes(out[offset + 9 : offset + 9 + length])
            assert len(payload) == length, "whole frames only"
            offset += 9 + length
            if kind == HEADERS:
                assert flags & END_HEADERS
                block = dict(self._decoder.decode(payload))
                self.headers.setdefault(stream, []).append(block)
            elif kind == DATA:
                self.body[stream] = self.body.get(stream, b"") + payload
            else:
                self.others.append((kind, flags, stream, payload))
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                assert stream not in self.ended
                self.ended.add(stream)
        out.clear()
        return self

    def status(self, stream: int) -> tuple[int, str]:
        """gRPC's status of a call that has its whole answer."""
        assert stream in self.ended
        last = self.headers[stream][-1]
        return int(last["grpc-status"]), last.get("grpc-message", "")

    def message(self, stream: int) -> bytes:
        """The answer to a call."""
        assert self.status(stream) == (0, "")
        first = self.headers[stream][0]
        assert (first[":status"], first["content-type"]) == ("200", "application/grpc")
        body = self.body[stream]
        assert body[:5] == struct.pack(">BI", 0, len(body) - 5)
        return body[5:]
