"""A GIF of what happens in a scene."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..atomic import atomic_write

if TYPE_CHECKING:
    from PIL.Image import Image

    from ...envs.scenes.world import World

FRAME_MS = 60
SIZE = (640, 400)


class Film:
    """Takes one picture of the world per step, up to `frames`, and writes them as an animation that loops."""

    def __init__(self, world: World, frames: int) -> None:
        self.world = world
        self.frames = frames
        self._pictures: list[Image] = []

    def take(self) -> None:
        """Take a picture of now. Raises NotImplementedError where the world does not draw itself."""
        from PIL import Image

        if len(self._pictures) < self.frames:
            picture = Image.fromarray(self.world.draw(SIZE))
            self._pictures.append(picture.quantize(128, dither=Image.Dither.NONE))

    def save(self, path: Path) -> None:
        """Write the animation. Raises OSError."""
        first, *rest = self._pictures
        atomic_write(
            path,
            lambda file: first.save(
                file, "GIF", save_all=True, append_images=rest, duration=FRAME_MS, loop=0, optimize=False
            ),
        )
