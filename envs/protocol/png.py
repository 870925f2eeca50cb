"""PNG files: finding them among bytes, reading their headers, decoding them."""

import io
import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from .png_writer import SIGNATURE

_HEAD = 26
"""Bytes up to and including the bit depth and the color type."""
_PLAIN_MODES = ("L", "LA", "RGB", "RGBA")
_PLANES = {(0, 2): 1, (0, 4): 1, (0, 8): 1, (4, 8): 2, (4, 16): 4, (6, 8): 4, (6, 16): 4}
"""(color type, bit depth) to the planes that `read_png` returns; all others have three."""


def png_size(data: bytes) -> tuple[int, int] | None:
    """Height and width of the PNG file that `data` starts with; None if it starts with none."""
    if len(data) < _HEAD or not data.startswith(SIGNATURE) or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return height, width


def png_planes(data: bytes) -> int:
    """How many planes `read_png` returns of the PNG file that `data` must start with."""
    return _PLANES.get((data[25], data[24]), 3)


def count_channels(data: bytes) -> int:
    """The most channels that the PNG files in `data` can have."""
    return 4 * data.count(SIGNATURE)


def split_pngs(data: bytes) -> Iterator[bytes]:
    """The PNG files that `data` contains one after another; bytes between and after them are skipped."""
    start = data.find(SIGNATURE)
    while start >= 0:
        stop = _end_of_png(data, start)
        yield data[start:stop]
        start = data.find(SIGNATURE, stop)


def _end_of_png(data: bytes, start: int) -> int:
    at = start + len(SIGNATURE)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        at += 12 + length
        if kind == b"IEND":
            break
    return min(at, len(data))


def read_png(png: bytes) -> NDArray[np.uint8]:
    """The pixels of one PNG file, [planes, height, width]: gray, red green blue, or these and alpha.

    Raises:
        Exception: The file is damaged; the type depends on the damage.
    """
    try:
        image = Image.open(io.BytesIO(png), formats=["PNG"])
    except UnidentifiedImageError:  # which names an object in memory
        raise ValueError("its first parts are damaged") from None
    with image:
        if (image.height, image.width) != png_size(png):  # nothing is inflated yet
            raise ValueError(f"a second header says {image.width} x {image.height} pixels")
        if image.mode.startswith("I;16"):  # gray, of which Pillow's conversion keeps the lowest 255 values
            return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[None], 3, axis=0)
        plain = image if image.mode in _PLAIN_MODES else image.convert("RGB")
        pixels: NDArray[np.uint8] = np.asarray(plain)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
