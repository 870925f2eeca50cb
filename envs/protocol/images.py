"""PNG files: finding them, decoding them on a few threads, and the sensor channel each plane belongs to."""

from __future__ import annotations

import io
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ..base import processors
from ..errors import ObservationError
from .png_writer import SIGNATURE

_HEAD = 26
"""The number of bytes up to and including the bit depth and the color type."""
_PLAIN_MODES = ("L", "LA", "RGB", "RGBA")
_PLANES = {(0, 2): 1, (0, 4): 1, (0, 8): 1, (4, 8): 2, (4, 16): 4, (6, 8): 4, (6, 16): 4}
"""The number of planes that `read_png` returns, by (color type, bit depth); all others have three."""


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


Sources = tuple[tuple[int, ...], ...]
"""The planes of each channel, which is their mean; mostly one."""
Planes = NDArray[np.uint8]

_FULL = np.float32(255)
MOST_PIXELS = 1 << 24
"""The most pixels of one compressed observation, which may be sent in a thousandth as many bytes."""


class ChannelMismatchError(ValueError):
    """Planes that do not make up the expected channels."""


@lru_cache(256)
def sources(planes: tuple[int, ...], mapping: tuple[int, ...], channels: int) -> Sources:
    """The planes of which each channel of an image is the mean.

    Args:
        planes: How many planes each of the image's files has.
        mapping: For each plane of all files the channel that it counts towards, -1 for none. Without it the
            first planes are the channels, and a single channel is the mean of the first file's planes.
        channels: How many channels are expected.

    Raises:
        ChannelMismatchError: The planes do not make up so many.
    """
    found = sum(planes)
    if not mapping:
        if channels == 1:
            return (tuple(range(planes[0])),)
        if found < channels:
            raise ChannelMismatchError(f"the pictures have {found} channels, the shape needs {channels}")
        return tuple((plane,) for plane in range(channels))
    if len(mapping) != found:
        raise ChannelMismatchError(
            f"the pictures have {found} channels, but the channel mapping has {len(mapping)} entries"
        )
    if min(mapping) < -1 or {each for each in mapping if each >= 0} != set(range(channels)):
        raise ChannelMismatchError(
            f"the channel mapping {list(mapping)} does not say where each of {channels} channels comes from"
        )
    return tuple(
        tuple(plane for plane, each in enumerate(mapping) if each == channel) for channel in range(channels)
    )


def holds_bytes(data: bytes, mapping: Sequence[int], channels: int) -> bool:
    """Whether every channel of a compressed image is one plane, so that nothing is averaged."""
    planes = tuple(png_planes(png) for png in split_pngs(data) if png_size(png) is not None)
    try:
        return bool(planes) and all(len(each) == 1 for each in sources(planes, tuple(mapping), channels))
    except ChannelMismatchError:
        return False


class ImageCache:
    """Decoded files of the last two messages: stacked frames are repeated, and agents share views."""

    def __init__(self) -> None:
        self._now: dict[bytes, Planes] = {}
        self._before: dict[bytes, Planes] = {}

    def next_message(self) -> None:
        """Discard the files that the last message did not repeat."""
        if self._now:
            self._now, self._before = {}, self._now

    def read(self, png: bytes) -> Planes:
        """Like `read_png`, but cached: do not change the result. Several threads may read at a time."""
        planes = self._now.get(png)
        if planes is None:
            planes = self._before.get(png)
            self._now[png] = planes = read_png(png) if planes is None else planes
        return planes


@dataclass(frozen=True, slots=True)
class CompressedImage:
    """A compressed image to be decoded into its place in a batch."""

    data: bytes
    """The PNG files, back to back."""
    mapping: tuple[int, ...]
    """The channel that each plane counts towards, as for `sources`."""
    out: NDArray[np.float32 | np.uint8]
    """The array [channels, height, width] that receives the result: bytes, or bytes / 255."""
    label: str
    """The image's name in errors."""

    def decode(self, cache: ImageCache) -> None:
        """Decode the image into `out`.

        Raises:
            ObservationError: It is not an image, has another size, or does not fit its mapping.
        """
        pngs = list(islice(split_pngs(self.data), self._most_pictures()))
        if not pngs:
            raise ObservationError(f"{self.label}: no PNG in the {len(self.data)} bytes of compressed data")
        files = [self._read(png, cache) for png in pngs]
        try:
            found = sources(tuple(map(len, files)), self.mapping, len(self.out))
        except ChannelMismatchError as error:
            raise ObservationError(f"{self.label}: {error}") from error
        planes = files[0] if len(files) == 1 else np.concatenate(files)
        if self.out.dtype == np.uint8:
            self._keep(planes, found)
        else:
            self._scale(planes, found)

    def _most_pictures(self) -> int:
        """How many files to decode: every one has a plane, and thousands may be a few bytes each.

        Without a mapping, the files after those that the channels need are left out, as by ML-Agents.
        """
        if not self.mapping:
            return max(1, len(self.out))
        pixels: int = self.out[0].size if len(self.out) else 1
        return min(len(self.mapping) + 1, max(1, MOST_PIXELS // max(1, pixels)))

    def _scale(self, planes: Planes, found: Sources) -> None:
        if all(len(each) == 1 for each in found):
            chosen = planes[[plane for (plane,) in found]]
            np.divide(chosen, _FULL, out=self.out, dtype=np.float32)
            return
        scaled = np.divide(planes, _FULL, dtype=np.float32)
        for channel, each in enumerate(found):
            np.mean(scaled[list(each)], axis=0, out=self.out[channel])

    def _keep(self, planes: Planes, found: Sources) -> None:
        for channel, each in enumerate(found):
            if len(each) == 1:
                self.out[channel] = planes[each[0]]
                continue
            mean, rest = np.divmod(planes[list(each)].sum(axis=0, dtype=np.uint32), len(each))
            if rest.any():
                raise ObservationError(
                    f"{self.label}: its channel {channel} is the mean of {len(each)} channels and no whole "
                    "number, where those of the behavior's first agent were sent as they are. Let all "
                    "agents send gray pictures, or none."
                )
            self.out[channel] = mean

    def _read(self, png: bytes, cache: ImageCache) -> Planes:
        size = png_size(png)
        if size != self.out.shape[1:]:
            # This also prevents a few bytes from claiming gigabytes.
            raise ObservationError(
                f"{self.label}: a picture of size {size} where the shape is {self.out.shape}"
            )
        try:
            return cache.read(png)
        except Exception as error:  # of any type, depending on the damage
            raise ObservationError(f"{self.label}: the PNG cannot be decoded: {error}") from error


MOST_THREADS = 4
WORTH_A_THREAD = 1 << 14
"""The bytes of pixels that are worth a thread: waking one takes as long as decoding some thousand of them."""


class ImageDecodeJob:
    """Decodes the images of one message, on a few threads if they are large."""

    def __init__(
        self, images: Sequence[CompressedImage], cache: ImageCache, on_done: Callable[[], None] | None
    ) -> None:
        """Start the threads, unless the images are small: then `result` decodes them.

        Args:
            images: The images to decode, each into its own place.
            cache: Files that have been decoded before.
            on_done: Called once, from any thread, unless `result` decodes everything.
        """
        self._todo = deque(enumerate(images))
        self._cache = cache
        self._on_done = on_done
        self._left = len(images)
        self._errors: dict[int, Exception] = {}
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self.threaded = _threads() > 1 and sum(image.out.size for image in images) >= WORTH_A_THREAD
        if self.threaded:
            for _ in range(min(_threads(), len(images))):
                _pool().submit(self._work)

    @property
    def done(self) -> bool:
        """Whether `result` would not wait."""
        return not self.threaded or self._finished.is_set()

    def result(self) -> None:
        """Decode the images that no thread has started on, and wait for the rest.

        Raises:
            ObservationError: An image cannot be decoded; the error of the first one.
        """
        self._work()
        self._finished.wait()
        if self._errors:
            raise self._errors[min(self._errors)]

    def _work(self) -> None:
        while True:
            try:
                number, image = self._todo.popleft()
            except IndexError:
                return
            try:
                image.decode(self._cache)
            except Exception as error:  # raised by `result`, not in a thread of the pool
                self._errors[number] = error
            with self._lock:
                self._left -= 1
                last = self._left == 0
            if last:
                self._finished.set()
                if self.threaded and self._on_done is not None:
                    self._on_done()


def _threads() -> int:
    return min(MOST_THREADS, processors())


@cache
def _pool() -> ThreadPoolExecutor:
    """The pool of threads that all environments share."""
    return ThreadPoolExecutor(_threads(), thread_name_prefix="lanista-png")
