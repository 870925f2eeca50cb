"""Pictures one after another: as a GIF, or as an MP4 where a package for it is installed."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]
"""[height, width, 3], red, green and blue."""


class Palette:
    """256 colours: the first picture's, so that what stands still is stored but once."""

    def __init__(self) -> None:
        self._first: Image | None = None

    def picture(self, pixels: Pixels) -> Image:
        """The pixels in these colours."""
        from PIL import Image

        picture = Image.fromarray(pixels)
        if self._first is None:
            # Covering all colours keeps those of small things; the means then smooth what is large.
            self._first = picture.quantize(
                256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE
            )
        # The first one too: Pillow looks colours up coarsely here, and the first would differ from the rest.
        return picture.quantize(palette=self._first, dither=Image.Dither.NONE)


class Frame:
    """A picture, compressed: a scene's takes a hundredth of its pixels."""

    __slots__ = ("_data", "_shape")

    def __init__(self, pixels: Pixels) -> None:
        self._shape = pixels.shape
        self._data = zlib.compress(np.ascontiguousarray(pixels).tobytes(), 1)

    def pixels(self) -> Pixels:
        """[height, width, 3]."""
        return np.frombuffer(zlib.decompress(self._data), np.uint8).reshape(self._shape)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self._shape[1], self._shape[0]


def gif(frames: Sequence[Frame], frame_ms: int) -> bytes:
    """An animation that loops, of at least one frame."""
    palette = Palette()
    return gif_of([palette.picture(frame.pixels()) for frame in frames], frame_ms)


def gif_of(pictures: Sequence[Image], frame_ms: int) -> bytes:
    """The same of pictures that have one palette."""
    first, *rest = pictures
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=rest, duration=frame_ms, loop=0, optimize=False)
    return file.getvalue()


def makes_mp4() -> bool:
    """Whether imageio and its FFmpeg are installed."""
    return find_spec("imageio") is not None and find_spec("imageio_ffmpeg") is not None


def mp4(frames: Sequence[Frame], frame_ms: int) -> bytes:
    """A film in H.264. Raises ImportError where `makes_mp4` says no."""
    import imageio.v2 as imageio

    file = io.BytesIO()
    # FFmpeg wants even sizes; a row or column of pixels less is better than stretching all others.
    writer: Any = imageio.get_writer(
        file, format="mp4", fps=1000 / frame_ms, codec="libx264", macro_block_size=1
    )
    with writer:
        for frame in frames:
            pixels = frame.pixels()
            writer.append_data(pixels[: len(pixels) // 2 * 2, : pixels.shape[1] // 2 * 2])
    return file.getvalue()
