"""Writes a video of the best episode of tests."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..animation import Frame, gif, makes_mp4, mp4
from ..atomic import atomic_write_bytes
from .callback import Callback
from .events import EvaluationEnd, EvaluationStep
from .footage import Footage

logger = logging.getLogger(__name__)

TAG = "Evaluation/Best Episode"
"""What TensorBoard calls the video."""


class WriteVideo(Callback):
    """Films tests, and writes the best episode of each to `<run>/<behavior>/<folder>/<behavior>-<step>`.

    As MP4 where the packages imageio and imageio-ffmpeg are installed, else as GIF; and as a GIF to
    TensorBoard, which shows no other films.
    """

    wants_pictures = True

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
        self._footage: dict[str, Footage] = {}
        self._blind = False

    def on_evaluation_step(self, event: EvaluationStep) -> None:
        """Take a picture."""
        if event.number == 0:
            self._footage = {name: Footage(name, self.pictures) for name in event.steps if self._films(name)}
        if not self._footage:
            return
        frame = None
        if event.number - event.newest < self.pictures or event.ended:
            pixels = event.picture()
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
