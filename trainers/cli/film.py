"""A GIF of what happens in an environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..atomic import atomic_write

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
        self._pictures: list[Image] = []

    def take(self) -> None:
        """Take a picture of now. Raises NotImplementedError where a scene's world does not draw itself."""
        from PIL import Image

        if len(self._pictures) < self.frames:
            picture = Image.fromarray(self.draw())
            self._pictures.append(self._with_few_colours(picture))

    def _with_few_colours(self, picture: Image) -> Image:
        """The picture in 256 colours: the first one's, so that what stands still is stored but once."""
        from PIL import Image

        if self._pictures:
            return picture.quantize(palette=self._pictures[0], dither=Image.Dither.NONE)
        # Covering all colours keeps those of small things; the means then smooth what is large.
        return picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)

    def save(self, path: Path) -> None:
        """Write the animation. Raises OSError."""
        first, *rest = self._pictures
        atomic_write(
            path,
            lambda file: first.save(
                file, "GIF", save_all=True, append_images=rest, duration=FRAME_MS, loop=0, optimize=False
            ),
        )
