"""Writes a video of the best episode of tests.

Pictures of a test, as many as the best episode so far and those that still go on need.

Pictures one after another: as a GIF, or as an MP4 where a package for it is installed.
"""

from __future__ import annotations

import io
import logging
import zlib
from collections import deque
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..utils.atomic_files import atomic_write_bytes
from .base import Callback
from .events import EpisodeScore, EvaluationEnd, EvaluationStep

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


logger = logging.getLogger(__name__)

TAG = "Evaluation/Best Episode"
"""What TensorBoard calls the video."""


class WriteVideo(Callback):
    """Films tests, and writes the best episode of each to `<run>/<behavior>/<folder>/<behavior>-<step>`.

    As MP4 where the packages imageio and imageio-ffmpeg are installed, else as GIF; and as a GIF to
    TensorBoard, which shows no other films.
    """

    wants_frames = True

    def __init__(
        self,
        behavior: str | None = None,
        every: int = 1,
        folder: str = "videos",
        frame_ms: int = 60,
        pictures: int = 300,
        without: Sequence[str] = (),
    ) -> None:
        """Say of what.

        Args:
            behavior: whose tests; None: of all behaviours.
            every: which tests: 3 for each third.
            folder: within the behaviour's.
            frame_ms: how long a step is shown, in milliseconds.
            pictures: how many a video has at most; of a longer episode it shows the beginning. The training
                waits while they are drawn.
            without: behaviours that are not filmed.

        Raises:
            ValueError: one of the numbers is not at least 1.
        """
        if min(every, frame_ms, pictures) < 1:
            raise ValueError(
                f"found every {every}, frame_ms {frame_ms}, pictures {pictures}; expected at least 1 of each"
            )
        self.behavior = behavior
        self.every = every
        self.folder = folder
        self.frame_ms = frame_ms
        self.pictures = pictures
        self.without = frozenset(without)
        self._tests: dict[str, int] = {}
        """How many tests of each behaviour have ended."""
        self._footage: dict[str, FrameRecorder] = {}
        self._blind = False

    def on_evaluation_step(self, event: EvaluationStep) -> None:
        """Render a frame."""
        if event.number == 0:
            self._footage = {
                name: FrameRecorder(name, self.pictures) for name in event.steps if self._films(name)
            }
        if not self._footage:
            return
        frame = None
        if event.number - event.newest < self.pictures or event.ended:
            pixels = event.render()
            if pixels is None:
                self._say_blind()
                self._footage = {}
                return
            frame = Frame(pixels)
        for footage in self._footage.values():
            footage.take(event, frame)

    def on_evaluation_end(self, event: EvaluationEnd) -> None:
        """Write the video; a full disk is warned of."""
        self._tests[event.behavior] = self._tests.get(event.behavior, 0) + 1
        footage = self._footage.pop(event.behavior, None)
        if footage is None or not footage.frames:
            return
        animation = gif(footage.frames, self.frame_ms)
        event.show_video(TAG, animation, footage.frames[0].size)
        film, ending = self._film(footage.frames) or (animation, "gif")
        path = event.folder / self.folder / f"{event.behavior}-{event.step}.{ending}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(path, film)
        except OSError as error:
            logger.warning("The video %s could not be written (%s); training goes on.", path, error)

    def _film(self, frames: Sequence[Frame]) -> tuple[bytes, str] | None:
        """The MP4 and its ending; None where no program makes one, or it fails, which is warned of."""
        if not makes_mp4():
            return None
        try:
            return mp4(frames, self.frame_ms), "mp4"
        except Exception as error:  # FFmpeg is a program of its own, and may lack the codec
            logger.warning("The video is a GIF: no MP4 could be made (%s: %s).", type(error).__name__, error)
            return None

    def _films(self, behavior: str) -> bool:
        wanted = self.behavior is None or behavior == self.behavior
        return wanted and behavior not in self.without and self._tests.get(behavior, 0) % self.every == 0

    def _say_blind(self) -> None:
        if not self._blind:
            self._blind = True
            logger.warning(
                "There will be no videos: the environment of the tests does not draw itself. Scenes do, and "
                "environments of Gymnasium and PettingZoo with the render mode rgb_array."
            )

    def state_dict(self) -> dict[str, Any]:
        """How many tests there were."""
        return {"tests": self._tests}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Count on from there."""
        self._tests = dict(state["tests"])


class FrameRecorder:
    """The first pictures of the best counted episode of one behaviour."""

    def __init__(self, behavior: str, most: int) -> None:
        """`most`: pictures."""
        self.behavior = behavior
        self.most = most
        self.best: EpisodeScore | None = None
        self.frames: list[Frame] = []
        """Of the best episode."""
        self._recent: deque[tuple[int, Frame]] = deque()
        """By the numbers of their steps."""

    def take(self, event: EvaluationStep, frame: Frame | None) -> None:
        """Take in a step of the test and its picture, if anybody needs it."""
        if frame is not None:
            self._recent.append((event.number, frame))
        for episode in event.ended:
            better = self.best is None or episode.reward > self.best.reward
            if episode.behavior == self.behavior and better:
                self.best = episode
                shown = [frame for number, frame in self._recent if number >= episode.first]
                self.frames = shown[: self.most]
        while self._recent and self._recent[0][0] < event.oldest:
            self._recent.popleft()
