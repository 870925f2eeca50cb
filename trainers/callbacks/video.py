"""Films evaluations: a callback that writes a video of the best episode."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..utils.atomic_files import atomic_write_bytes
from ..utils.films import encode, gif, has_ffmpeg
from .base import Callback
from .events import EvaluationEnd

logger = logging.getLogger(__name__)

TAG = "Evaluation/Best Episode"
"""The video's name in TensorBoard."""


class WriteVideo(Callback):
    """Films evaluations; writes the best episode of each to `<run>/<behavior>/<folder>/<behavior>-<step>`.

    It is an MP4 if the package imageio-ffmpeg is installed, else a GIF; and a GIF in TensorBoard,
    which shows no other videos.
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
        """Choose what to film.

        Args:
            behavior: the behavior whose evaluations are filmed; None: all behaviors.
            every: which evaluations are filmed: 3 for every third.
            folder: the folder of the videos within the behavior's.
            frame_ms: how long a step is shown, in milliseconds.
            pictures: the most frames of a video; of a longer episode it shows the start. Training pauses
                while they are rendered.
            without: behaviors that are not filmed.

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
        self._evaluations: dict[str, int] = {}
        """How many evaluations of each behavior have ended."""
        self._warned = False

    def on_evaluation_end(self, event: EvaluationEnd) -> None:
        """Film the best episode and write the video; a full disk costs a warning."""
        filmed = self._films(event.behavior)
        self._evaluations[event.behavior] = self._evaluations.get(event.behavior, 0) + 1
        frames = event.film(self.pictures) if filmed else None
        if not frames:
            if frames is not None:
                self._warn_no_frames()
            return
        video, ending = gif(frames, self.frame_ms), "gif"
        event.show_video(TAG, video, frames[0].size)
        if has_ffmpeg():
            try:
                video, ending = encode(frames, self.frame_ms, ".mp4"), "mp4"
            except Exception as error:  # FFmpeg is a program of its own, and may lack the codec
                cause = f"{type(error).__name__}: {error}"
                logger.warning("The video is a GIF: no MP4 could be made (%s).", cause)
        path = event.folder / self.folder / f"{event.behavior}-{event.step}.{ending}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write_bytes(path, video)
        except OSError as error:
            logger.warning("The video %s could not be written (%s); training goes on.", path, error)

    def _films(self, behavior: str) -> bool:
        chosen = self.behavior in (None, behavior) and behavior not in self.without
        return chosen and self._evaluations.get(behavior, 0) % self.every == 0

    def _warn_no_frames(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "There will be no videos: the environment of the tests does not render itself. Scenes do, "
                "and environments of Gymnasium and PettingZoo with the render mode rgb_array."
            )

    def state_dict(self) -> dict[str, Any]:
        """How many evaluations there were."""
        return {"tests": self._evaluations}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue counting from a saved state."""
        self._evaluations = dict(state["tests"])
