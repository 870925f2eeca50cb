"""Pieces of protobuf's wire format, one at a time or a column at once."""

import numpy as np
from numpy.typing import NDArray

HEADER_OK = bytes.fromhex("0a0308c801")
"""UnityMessageProto's header, with status 200."""
HEADER_STOP = bytes.fromhex("0a03089003")
"""The same with status 400."""


def varint(value: int) -> bytes:
    """A number that is not negative."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def head(number: int, length: int) -> bytes:
    """What stands before the content of a field of bytes, text, a message or a packed list."""
    return varint(number << 3 | 2) + varint(length)


def delimited(number: int, content: bytes) -> bytes:
    """Such a field."""
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

    Small values are padded by bytes that add zeros, which every parser takes: so that all records of a list
    have the same layout.
    """
    if width == 1:
        return values.astype(np.uint8)[..., None]
    wide = values.astype(np.int64).view(np.uint64)[..., None]
    shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
    out = ((wide >> shifts) & np.uint64(0x7F)).astype(np.uint8)
    out[..., :-1] |= 0x80
    return out
