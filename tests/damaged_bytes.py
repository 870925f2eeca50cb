"""Bytes with some changes, as damage or malice makes them."""

import struct
from collections.abc import Sequence
from random import Random

SIZES = (0, 1, 0x7F, 0x80, 0xFF)
LIMITS = (-1, 0, 2**31 - 1, -(2**31), 1 << 20)


def mutated(data: bytes, random: Random, words: Sequence[bytes] = ()) -> bytes:
    """The bytes with one to eight changes; words are what a parser of the format knows."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at = random.randrange(len(out) + 1)
        kind = random.randrange(8 if words else 6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = random.choice(SIZES)
        elif kind == 2:
            del out[at : at + random.choice((1, 2, 10, 1000))]
        elif kind == 3:
            out[at:at] = random.randbytes(random.choice((1, 2, 10)))
        elif kind == 4:
            out[at : at + 4] = struct.pack("<i", random.choice(LIMITS))
        elif kind == 5 and at < len(out):
            begin = random.randrange(len(out))
            piece = out[begin : begin + random.choice((4, 40))]
            out[at : at + len(piece)] = piece
        elif kind >= 6:
            out[at : at + random.choice((0, 0, 1, 4))] = random.choice(words)
    return bytes(out)
