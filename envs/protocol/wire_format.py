"""Reads and writes protobuf's wire format without building messages.

Only what the hot path needs is understood. Anything else that is allowed but that no engine writes (a
field given twice, a list that is not packed, a group) raises `UnknownLayout`, and protobuf itself reads it.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_REPEATED_FIRST = 1 << 3 | BYTES  # the tag of a repeated message that is field 1
_WORTH_A_RUN = 16


Place = tuple[int, int]
"""Where something starts and stops in a message."""
NOWHERE: Place = (0, 0)


class Malformed(Exception):  # noqa: N818  (a condition inside this package; users see WireError)
    """These bytes are not a protobuf message."""

    def __init__(self, at: int, found: str) -> None:
        super().__init__(f"byte {at}: {found}")
        self.at = at
        self.found = found


class UnknownLayout(Exception):  # noqa: N818
    """Valid, perhaps, but not as engines write it: a job for protobuf's own parser."""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The unsigned varint at `at`, and where it stops. Raises Malformed when that is not before `end`."""
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if at - start == _LONGEST_VARINT:
            raise Malformed(start, "a number of more than ten bytes")
    raise Malformed(start, "the message ends within a number")


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the message in data[at:end].

    Yields:
        Number, wire type, and where the field's value starts and stops; of a BYTES field its content.

    Raises:
        Malformed: A field does not fit into the message.
        UnknownLayout: A group.
    """
    while at < end:
        tag = data[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = varint(data, at, end)
        wire, number = tag & 7, tag >> 3
        start = at
        if wire == BYTES:
            if at < end and data[at] < 0x80:
                start, stop = at + 1, at + 1 + data[at]
            else:
                length, start = varint(data, at, end)
                stop = start + length
        elif wire == VARINT:
            _, stop = varint(data, at, end)
        elif wire in (FIXED32, FIXED64):
            stop = at + (4 if wire == FIXED32 else 8)
        else:
            raise UnknownLayout
        if stop > end:
            raise Malformed(start, f"field {number} is longer than the message that holds it")
        if not 0 < number < 1 << 29:
            raise Malformed(start, f"a field of number {number}")
        yield number, wire, start, stop
        at = stop


def parts(data: bytes, place: Place, wanted: Mapping[int, int]) -> dict[int, Place]:
    """Where the fields {number: wire type} of the message at `place` are; others are passed over.

    Raises:
        UnknownLayout: One is there twice (protobuf would merge the two).
        Malformed: As `fields`.
    """
    found: dict[int, Place] = {}
    for number, wire, start, stop in fields(data, *place):
        if wanted.get(number) == wire:
            if number in found:
                raise UnknownLayout
            found[number] = (start, stop)
    return found


def text(data: bytes, place: Place) -> str:
    """A string field's content. Raises Malformed when it is not UTF-8."""
    try:
        return data[slice(*place)].decode()
    except UnicodeDecodeError as error:
        raise Malformed(place[0], "a text that is not UTF-8") from error


def packed_ints(data: bytes, at: int, end: int) -> tuple[int, ...]:
    """A packed list of int32."""
    values = []
    while at < end:
        value, at = varint(data, at, end)
        low = value & 0xFFFF_FFFF
        values.append(low - (1 << 32) if low >> 31 else low)
    return tuple(values)


def records(data: bytes, at: int, end: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the messages of a list message `{ repeated X value = 1; }` in data[at:end] are.

    A record can only be found from the one before it. Yet where records of one length follow each other,
    as agents of one behavior mostly do, the whole run is tested at once: if the bytes at equal distances
    all are the same tag and length, they are the records' heads.

    Returns:
        Start and length of each record's content.
    """
    starts: list[int] = []
    lengths: list[int] = []
    pieces: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    equal, patience, last = 0, 3, -1
    while at < end:
        head = at
        if data[at] != _REPEATED_FIRST:
            raise UnknownLayout
        length, at = (
            (data[at + 1], at + 2) if at + 1 < end and data[at + 1] < 0x80 else varint(data, at + 1, end)
        )
        if at + length > end:
            raise Malformed(at, "an agent is longer than the list that holds it")
        equal = equal + 1 if length == last else 0
        last = length
        if equal >= patience:
            run = _run(data, head, at, length, end)
            if run >= _WORTH_A_RUN:
                pieces.append((np.array(starts, np.intp), np.array(lengths, np.intp)))
                step = at - head + length
                pieces.append((np.arange(at, at + run * step, step), np.full(run, length)))
                starts, lengths, equal = [], [], 0
                at = head + run * step
                continue
            patience, equal = patience * 2, 0
        starts.append(at)
        lengths.append(length)
        at += length
    pieces.append((np.array(starts, np.intp), np.array(lengths, np.intp)))
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([piece[0] for piece in pieces]), np.concatenate([piece[1] for piece in pieces])


def _run(data: bytes, head: int, content: int, length: int, end: int) -> int:
    """How many records with the same head follow each other without a gap, from the one at `head` on."""
    step = content - head + length
    count = (end - head) // step
    if count < _WORTH_A_RUN:
        return 0
    heads: NDArray[np.uint8] = np.ndarray((count, content - head), np.uint8, data, head, (step, 1))
    same = (heads == heads[0]).all(axis=1)
    return count if same.all() else int(same.argmin())


HEADER_OK = bytes.fromhex("0a0308c801")
"""UnityMessageProto's header, with status 200."""
HEADER_STOP = bytes.fromhex("0a03089003")
"""The same with status 400."""


def encode_varint(value: int) -> bytes:
    """A number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    """The tag of a field of this wire type."""
    return encode_varint(number << 3 | wire)


def head(number: int, length: int) -> bytes:
    """The tag and length of a field of bytes, text, a message or a packed list."""
    return encode_varint(number << 3 | BYTES) + encode_varint(length)


def delimited(number: int, content: bytes) -> bytes:
    """A field of bytes, text, a message or a packed list."""
    return head(number, len(content)) + content


def width(values: NDArray[np.int32]) -> int:
    """How many bytes the longest varint among the values takes; 10 when one is negative."""
    if values.size == 0:
        return 1
    if values.min() < 0:
        return 10
    return max(1, -(-int(values.max()).bit_length() // 7))


def varints(values: NDArray[np.int32], width: int) -> NDArray[np.uint8]:
    """Values of shape [...] as varints of `width` bytes each, [..., width].

    Small values are padded by bytes that add zeros, which every parser accepts, so that all records of a
    list have the same layout.
    """
    if width == 1:
        return values.astype(np.uint8)[..., None]
    wide = values.astype(np.int64).view(np.uint64)[..., None]
    shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
    out = ((wide >> shifts) & np.uint64(0x7F)).astype(np.uint8)
    out[..., :-1] |= 0x80
    return out
