"""Films: frames kept in memory, and written as GIF by Pillow, as MP4 or WebM by FFmpeg (extra `video`)."""

from __future__ import annotations

import io
import tempfile
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...envs.utils.installation import install_command

Image = NDArray[np.uint8]
"""[height, width, 3]: red, green, blue."""

_CODECS = {
    # The index before the pictures: a browser shows the film while it loads.
    ".mp4": ("libx264", ["-crf", "20", "-movflags", "+faststart"]),
    ".webm": ("libvpx-vp9", ["-crf", "32", "-b:v", "0", "-deadline", "good", "-cpu-used", "4"]),
}
ENDINGS = (".gif", *_CODECS)
PALETTE_FRAMES = 8
"""So many frames, evenly spread, give a GIF its colors."""


class FilmError(Exception):
    """A film that cannot be made; the message says why and what to do."""


class Frame:
    """A compressed image: one of a scene takes a hundredth of its pixels."""

    __slots__ = ("_data", "_shape")

    def __init__(self, pixels: Image) -> None:
        self._shape = pixels.shape
        self._data = zlib.compress(np.ascontiguousarray(pixels).tobytes(), 1)

    def pixels(self) -> Image:
        """[height, width, 3]."""
        return np.frombuffer(zlib.decompress(self._data), np.uint8).reshape(self._shape)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self._shape[1], self._shape[0]


def as_image(drawn: object) -> Image:
    """What an environment's `draw` or `render` has returned, as an image.

    Raises:
        ValueError: it is no image.
    """
    if drawn is None:
        raise ValueError("found None, expected an image of shape (height, width, 3)")
    image = np.asarray(drawn, dtype=np.uint8)
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"found an image of shape {image.shape}, expected (height, width, 3)")
    return image


def check_ending(path: Path) -> str:
    """The ending of a film's file, in lower case.

    Raises:
        FilmError: it stands for no format, or for one whose encoder is not installed.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise FilmError(
            f"{path}: expected a film's name to end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}."
        )
    if ending in _CODECS and not has_ffmpeg():
        raise FilmError(f"{path}: {ending} needs FFmpeg: {install_command('video')}. A .gif needs nothing.")
    return ending


def has_ffmpeg() -> bool:
    """Whether imageio-ffmpeg, which brings FFmpeg, is installed (extra `video`)."""
    return find_spec("imageio_ffmpeg") is not None


def encode(frames: Sequence[Frame], frame_ms: float, ending: str) -> bytes:
    """A film of at least one frame, all of one size, in the format of an ending of `ENDINGS`.

    Raises:
        Exception: of FFmpeg, such as OSError where it lacks the codec.
    """
    return gif(frames, frame_ms) if ending == ".gif" else _ffmpeg(frames, frame_ms, ending)


def gif(frames: Sequence[Frame], frame_ms: float) -> bytes:
    """A looping GIF of at least one frame, all of one size and in the same 256 colors: nothing flickers."""
    from PIL import Image

    chosen = frames[:: -(-len(frames) // PALETTE_FRAMES)]
    # Covering all colors keeps those of small objects; the means then smooth the large areas.
    palette = Image.fromarray(np.concatenate([frame.pixels() for frame in chosen])).quantize(
        256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE
    )
    # The first frame too: Pillow looks colors up coarsely here, and the first would differ from the rest.
    first, *rest = (
        Image.fromarray(frame.pixels()).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in frames
    )
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=rest, duration=frame_ms, loop=0, optimize=False)
    return file.getvalue()


def _ffmpeg(frames: Sequence[Frame], frame_ms: float, ending: str) -> bytes:
    import imageio_ffmpeg

    codec, parameters = _CODECS[ending]
    # The codecs take even sizes; cropping a row or column of pixels is better than resampling all others.
    width, height = (size // 2 * 2 for size in frames[0].size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"film{ending}"
        writer = imageio_ffmpeg.write_frames(
            str(path),
            (width, height),
            fps=1000 / frame_ms,
            codec=codec,
            quality=None,
            macro_block_size=1,
            ffmpeg_log_level="error",
            output_params=parameters,
        )
        writer.send(None)
        for frame in frames:
            writer.send(np.ascontiguousarray(frame.pixels()[:height, :width]))
        writer.close()
        return path.read_bytes()
