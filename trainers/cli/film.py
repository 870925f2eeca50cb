"""A GIF of what happens in an environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..animation import Palette, gif_of
from ..atomic import atomic_write_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

FRAME_MS = 60

Draw = Callable[[], NDArray[np.uint8]]
"""A picture of now, [height, width, 3]."""


class Film:
    """Takes one picture per step, up to `frames`, and writes them as an animation that loops."""

    def __init__(self, draw: Draw, frames: int) -> None:
        self.draw = draw
        self.frames = frames
        self._palette = Palette()
        self._pictures: list[Image] = []

    def take(self) -> None:
        """Take a picture of now. Raises NotImplementedError where a scene's world does not draw itself."""
        if len(self._pictures) < self.frames:
            self._pictures.append(self._palette.picture(self.draw()))

    def save(self, path: Path) -> None:
        """Write the animation. Raises OSError."""
        atomic_write_bytes(path, gif_of(self._pictures, FRAME_MS))
