"""Films what is played: draws the environment after every step, for whoever wants the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ...utils.atomic_files import atomic_write_bytes
from ...utils.errors import CommandError
from ...utils.films import FilmError, Frame, Image, as_image, check_ending, encode

FRAME_MS = 60


class Viewer(Protocol):
    """Takes the images of a `StepRenderer`."""

    @property
    def wants_more(self) -> bool:
        """Whether it takes another image."""

    def add(self, image: Image) -> None:
        """Take an image."""


class StepRenderer:
    """Draws an environment after every step, as long as a viewer wants the images."""

    def __init__(self, env: Any, name: str, viewers: Sequence[Viewer]) -> None:
        """`env`: a BaseEnv with `draw()`; `name`: the environment's, for messages."""
        self._env = env
        self._name = name
        self._viewers = viewers

    def step(self) -> None:
        """The environment has taken a step.

        Raises:
            CommandError: it cannot draw itself.
        """
        viewers = [viewer for viewer in self._viewers if viewer.wants_more]
        if not viewers:
            return
        try:
            image = as_image(self._env.draw())
        except Exception as error:  # of any renderer: a package may be missing
            raise CommandError(f"{self._name} cannot draw itself: {type(error).__name__}: {error}") from error
        for viewer in viewers:
            viewer.add(image)


class Film:
    """The first images of what is played, as a GIF, an MP4 or a WebM by the ending of its file."""

    def __init__(self, path: Path, most: int) -> None:
        """`most`: frames.

        Raises:
            FilmError: the file's ending stands for no format, or for one whose encoder is not installed; or
                there is no such folder.
        """
        self.path = path
        self._ending = check_ending(path)
        if not path.parent.is_dir():
            raise FilmError(f"The film cannot be written to {path}: there is no folder {path.parent}.")
        self._most = most
        self._frames: list[Frame] = []

    @property
    def wants_more(self) -> bool:
        """Whether there is room for another frame."""
        return len(self._frames) < self._most

    def add(self, image: Image) -> None:
        """Record a frame.

        Raises:
            CommandError: it has another size than those before it.
        """
        frame = Frame(image)
        if self._frames and frame.size != self._frames[0].size:
            raise CommandError(
                f"The images of a film must have one size: found {frame.size} after {self._frames[0].size}."
            )
        self._frames.append(frame)

    def save(self) -> bool:
        """Write the film, if there is a frame; whether there is one.

        Raises:
            CommandError: it cannot be encoded or written.
        """
        if not self._frames:
            return False
        try:
            atomic_write_bytes(self.path, encode(self._frames, FRAME_MS, self._ending))
        except Exception as error:  # FFmpeg is a program of its own, and may lack the codec
            raise CommandError(f"The film could not be written to {self.path}: {error}.") from error
        return True
