"""Pictures as PNG files, as engines send them: three channels to a file, the files back to back."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""What every PNG file begins with."""
_PLANES = 3
FAST = 1
"""Pictures that are drawn have large even parts: more effort costs more time than bytes."""
STORED = 0
"""No compression: for pictures of any kind that stay on this machine, the least time at both ends."""


def encode_pictures(pictures: NDArray[np.uint8], level: int = FAST) -> list[bytes]:
    """Pictures [n, channels, height, width] as one or several PNG files each, red, green and blue.

    `level`: how much effort goes into making them small, 0 to 9.

    One channel becomes gray; where channels do not fill the last file, its other planes are zero.
    """
    count, channels, height, width = pictures.shape
    files = -(-channels // _PLANES)
    if channels == 1:
        pictures = np.broadcast_to(pictures, (count, _PLANES, height, width))
    # Every row of pixels begins with the number of its filter, 0 for none.
    rows = np.zeros((count, files, height, 1 + width * _PLANES), np.uint8)
    pixels = rows[..., 1:].reshape(count, files, height, width, _PLANES)
    for channel in range(pictures.shape[1]):
        pixels[:, channel // _PLANES, :, :, channel % _PLANES] = pictures[:, channel]
    before = SIGNATURE + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    after = _chunk(b"IEND", b"")
    return [
        b"".join(before + _chunk(b"IDAT", zlib.compress(plane, level)) + after for plane in planes)
        for planes in rows
    ]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
