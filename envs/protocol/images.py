"""Compressed images: PNG files decoded on a few threads, and the sensor channel each plane belongs to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from ..base import processors
from ..errors import ObservationError
from .png import png_planes, png_size, read_png, split_pngs

Sources = tuple[tuple[int, ...], ...]
"""For each channel the planes whose mean it is; mostly one."""
Planes = NDArray[np.uint8]

_FULL = np.float32(255)


class MisfitError(ValueError):
    """Planes that do not make up the channels that are expected."""


@lru_cache(256)
def sources(planes: tuple[int, ...], mapping: tuple[int, ...], channels: int) -> Sources:
    """Where the channels of a picture come from.

    Args:
        planes: Of each of its files.
        mapping: For each plane of all files the channel that it counts towards, -1 for none; empty: the first
            ones are taken, and a single channel is the mean of the first file's.
        channels: How many there are to be.

    Raises:
        MisfitError: There are not so many.
    """
    found = sum(planes)
    if not mapping:
        if channels == 1:
            return (tuple(range(planes[0])),)
        if found < channels:
            raise MisfitError(f"the pictures have {found} channels, the shape needs {channels}")
        return tuple((plane,) for plane in range(channels))
    if len(mapping) != found:
        raise MisfitError(
            f"the pictures have {found} channels, but the channel mapping has {len(mapping)} entries"
        )
    if min(mapping) < -1 or {each for each in mapping if each >= 0} != set(range(channels)):
        raise MisfitError(
            f"the channel mapping {list(mapping)} does not say where each of {channels} channels comes from"
        )
    return tuple(
        tuple(plane for plane, each in enumerate(mapping) if each == channel) for channel in range(channels)
    )


def holds_bytes(data: bytes, mapping: Sequence[int], channels: int) -> bool:
    """Whether every channel of a compressed picture is a plane as it is, so that nothing is averaged."""
    planes = tuple(png_planes(png) for png in split_pngs(data) if png_size(png) is not None)
    try:
        return bool(planes) and all(len(each) == 1 for each in sources(planes, tuple(mapping), channels))
    except MisfitError:
        return False


class ImageCache:
    """The files of the last two messages, decoded. Stacked frames come again, and what several agents see."""

    def __init__(self) -> None:
        self._now: dict[bytes, Planes] = {}
        self._before: dict[bytes, Planes] = {}

    def next_message(self) -> None:
        """Forget what has not come again since the last message."""
        if self._now:
            self._now, self._before = {}, self._now

    def read(self, png: bytes) -> Planes:
        """As `read_png`, which must not be changed. Threads may read side by side."""
        planes = self._now.get(png)
        if planes is None:
            planes = self._before.get(png)
            self._now[png] = planes = read_png(png) if planes is None else planes
        return planes


@dataclass(frozen=True, slots=True)
class CompressedImage:
    """A compressed picture to be decoded into its place in a batch."""

    data: bytes
    """PNG files, back to back."""
    mapping: tuple[int, ...]
    """As of `sources`."""
    out: NDArray[np.float32 | np.uint8]
    """[channels, height, width], where the result goes: bytes, or these / 255."""
    label: str
    """What errors call it."""

    def decode(self, cache: ImageCache) -> None:
        """Decodes it.

        Raises:
            ObservationError: It is no picture, or of another size, or does not fit its mapping.
        """
        files = [self._read(png, cache) for png in split_pngs(self.data)]
        if not files:
            raise ObservationError(f"{self.label}: no PNG in the {len(self.data)} bytes of compressed data")
        try:
            found = sources(tuple(map(len, files)), self.mapping, len(self.out))
        except MisfitError as error:
            raise ObservationError(f"{self.label}: {error}") from error
        planes = files[0] if len(files) == 1 else np.concatenate(files)
        if self.out.dtype == np.uint8:
            self._keep(planes, found)
        else:
            self._scale(planes, found)

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
            # Also keeps a few bytes from claiming gigabytes.
            raise ObservationError(
                f"{self.label}: a picture of size {size} where the shape is {self.out.shape}"
            )
        try:
            return cache.read(png)
        except Exception as error:  # Pillow raises what the damage happens to lead to
            raise ObservationError(f"{self.label}: the PNG cannot be decoded: {error}") from error


MOST_THREADS = 4
WORTH_A_THREAD = 1 << 14
"""Bytes of pixels. Waking a thread takes as long as decoding some thousand of them."""


class ImageDecodeJob:
    """The pictures of one message, on their way."""

    def __init__(
        self, pictures: Sequence[CompressedImage], cache: ImageCache, on_done: Callable[[], None] | None
    ) -> None:
        """Begin, unless there is too little of it: then `result` does it.

        Args:
            pictures: To decode, each into its own place.
            cache: What has been decoded before.
            on_done: Called once, from any thread, if this is not done at once.
        """
        self._todo = deque(enumerate(pictures))
        self._cache = cache
        self._on_done = on_done
        self._left = len(pictures)
        self._errors: dict[int, Exception] = {}
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self.apart = _threads() > 1 and sum(picture.out.size for picture in pictures) >= WORTH_A_THREAD
        """Threads are at it."""
        if self.apart:
            for _ in range(min(_threads(), len(pictures))):
                _pool().submit(self._work)

    @property
    def done(self) -> bool:
        """Whether `result` would not wait."""
        return not self.apart or self._finished.is_set()

    def result(self) -> None:
        """Decode the images that no thread has begun with, and wait for the rest.

        Raises:
            ObservationError: A picture cannot be decoded; the first one of those.
        """
        self._work()
        self._finished.wait()
        if self._errors:
            raise self._errors[min(self._errors)]

    def _work(self) -> None:
        while True:
            try:
                number, picture = self._todo.popleft()
            except IndexError:
                return
            try:
                picture.decode(self._cache)
            except Exception as error:  # for the thread that waits, not for one of the pool
                self._errors[number] = error
            with self._lock:
                self._left -= 1
                last = self._left == 0
            if last:
                self._finished.set()
                if self.apart and self._on_done is not None:
                    self._on_done()


def _threads() -> int:
    return min(MOST_THREADS, processors())


@cache
def _pool() -> ThreadPoolExecutor:
    """Shared by all environments."""
    return ThreadPoolExecutor(_threads(), thread_name_prefix="lanista-png")
