"""Images as PNG files, as engines send them: three channels to a file, one file after another."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""The first bytes of every PNG file."""
_PLANES = 3
FAST = 1
"""Drawn images have large uniform parts: more effort costs more time than it saves bytes."""
STORED = 0
"""No compression: the fastest at both ends, for images that stay on this machine."""


def encode_images(images: NDArray[np.uint8], level: int = FAST) -> list[bytes]:
    """Images [n, channels, height, width] as one or several RGB PNG files each.

    `level`: zlib's compression level, 0 to 9.

    One channel becomes gray; planes of the last file without a channel are zero.
    """
    count, channels, height, width = images.shape
    files = -(-channels // _PLANES)
    if channels == 1:
        images = np.broadcast_to(images, (count, _PLANES, height, width))
    # Every row of pixels starts with the number of its filter, 0 for none.
    rows = np.zeros((count, files, height, 1 + width * _PLANES), np.uint8)
    pixels = rows[..., 1:].reshape(count, files, height, width, _PLANES)
    for channel in range(images.shape[1]):
        pixels[:, channel // _PLANES, :, :, channel % _PLANES] = images[:, channel]
    before = SIGNATURE + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    after = _chunk(b"IEND", b"")
    return [
        b"".join(before + _chunk(b"IDAT", zlib.compress(plane, level)) + after for plane in planes)
        for planes in rows
    ]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
