"""Pictures: one or several PNG files to channels-first float32."""

import io
import os
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .errors import ObservationError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PLAIN_MODES = ("L", "RGB", "RGBA")
_FULL = np.float32(255)


def png_size(data: bytes) -> tuple[int, int] | None:
    """Height and width of the PNG file that `data` starts with; None when it is none."""
    if len(data) < 24 or not data.startswith(_SIGNATURE):
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return height, width


def count_channels(data: bytes) -> int:
    """The most channels that the PNG files in `data` can have."""
    return 4 * data.count(_SIGNATURE)


def split_pngs(data: bytes) -> Iterator[bytes]:
    """The PNG files that lie back to back in `data`; what is between and behind them is passed over."""
    start = data.find(_SIGNATURE)
    while start >= 0:
        stop = _end_of_png(data, start)
        yield data[start:stop]
        start = data.find(_SIGNATURE, stop)


def _end_of_png(data: bytes, start: int) -> int:
    at = start + len(_SIGNATURE)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        at += 12 + length
        if kind == b"IEND":
            break
    return min(at, len(data))


@dataclass(frozen=True, slots=True)
class Picture:
    """A compressed picture to be decoded into its place in a batch."""

    data: bytes
    """PNG files, back to back."""
    mapping: Sequence[int]
    """For each decoded channel the one it counts towards, -1 for none; empty: the first ones are taken."""
    out: NDArray[np.float32]
    """[channels, height, width], where the result goes."""
    label: str
    """What errors call it."""

    def decode(self) -> None:
        """Decodes, with values / 255.

        Raises:
            ObservationError: It is no picture, or of another size, or does not fit its mapping.
        """
        planes = [self._planes(png) for png in split_pngs(self.data)]
        if not planes:
            raise ObservationError(f"{self.label}: no PNG in the {len(self.data)} bytes of compressed data")
        channels = len(self.out)
        if not self.mapping:
            if channels == 1:
                np.mean(planes[0], axis=0, out=self.out[0])
                return
            found = sum(map(len, planes))
            if found < channels:
                raise ObservationError(
                    f"{self.label}: the pictures have {found} channels, {self.out.shape} needs {channels}"
                )
            self.out[:] = np.concatenate(planes)[:channels]
        else:
            self._mapped(np.concatenate(planes))

    def _mapped(self, planes: NDArray[np.float32]) -> None:
        """Each channel is the mean of the decoded ones that count towards it."""
        mapping, channels = np.array(self.mapping), len(self.out)
        if len(mapping) != len(planes):
            raise ObservationError(
                f"{self.label}: the pictures have {len(planes)} channels, but the channel mapping has "
                f"{len(mapping)} entries"
            )
        if mapping.min() < -1 or set(mapping[mapping >= 0].tolist()) != set(range(channels)):
            raise ObservationError(
                f"{self.label}: the channel mapping {list(self.mapping)} does not say where each of "
                f"{channels} channels comes from"
            )
        for channel in range(channels):
            np.mean(planes[mapping == channel], axis=0, out=self.out[channel])

    def _planes(self, png: bytes) -> NDArray[np.float32]:
        """One PNG file as [channels, height, width] in 0..1."""
        size = png_size(png)
        if size != self.out.shape[1:]:
            # Also keeps a few bytes from claiming gigabytes.
            raise ObservationError(
                f"{self.label}: a picture of size {size} where the shape is {self.out.shape}"
            )
        try:
            with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
                plain = image if image.mode in _PLAIN_MODES else image.convert("RGB")
                pixels = np.asarray(plain)
        except Exception as error:  # Pillow raises what the damage happens to lead to
            raise ObservationError(f"{self.label}: the PNG cannot be decoded: {error}") from error
        planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        scaled: NDArray[np.float32] = np.divide(planes, _FULL, dtype=np.float32)
        return scaled


def decode_all(pictures: Sequence[Picture]) -> None:
    """Decodes every picture, side by side where the machine has the cores. Raises ObservationError."""
    workers = _workers()
    if len(pictures) < 2 or workers < 2:
        for picture in pictures:
            picture.decode()
        return
    share = -(-len(pictures) // workers)
    parts = [pictures[at : at + share] for at in range(0, len(pictures), share)]
    others = [_pool().submit(_decode, part) for part in parts[1:]]
    try:
        _decode(parts[0])
    finally:
        wait(others)  # they write into the caller's arrays, also when this part failed
    for other in others:
        other.result()


def _decode(pictures: Sequence[Picture]) -> None:
    for picture in pictures:
        picture.decode()


def _workers() -> int:
    return min(4, os.cpu_count() or 1)


@cache
def _pool() -> ThreadPoolExecutor:
    """Shared by all environments: their messages are decoded one after the other."""
    return ThreadPoolExecutor(_workers() - 1, thread_name_prefix="lanista-png")
