"""The camera above the grids: the images of all areas at once.

As in Unity, the camera looks straight down and its image is as high as the grid; what is wider shows the
walls. No pixel belongs to two cells, so each kind of content is drawn once, in all cells, and an image is
put together from these.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...physics2d import Indices

EMPTY, PLUS, EX, AGENT = range(4)
"""What a cell can hold."""

_FLOOR, _LINE, _WALL = (201, 208, 222), (178, 187, 205), (94, 103, 126)
_BODY, _FACE = (52, 104, 224), (120, 162, 250)
_GREEN, _RED = (46, 168, 74), (222, 58, 52)
_FINE = 4
"""Points per pixel and direction, of which a pixel is the mean."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A grid of some number of cells along each edge, drawn with every content."""

    images: Pixels
    """[4, height, width, 3], each with the same content in all cells."""
    rows: Indices
    """[cells, tall], the pixel rows of the cells by z, the last one repeated where a cell has fewer."""
    columns: Indices
    """[cells, wide], by x."""


class GridCamera:
    """A camera with images of one size."""

    def __init__(self, height: int, width: int) -> None:
        """`height`, `width`: of the images, in pixels."""
        self.height, self.width = height, width

    def observe(self, cells: int, where: Indices, what: NDArray[np.int8]) -> Pixels:
        """The images [k, height, width, 3] of k grids of `cells` x `cells`.

        Args:
            cells: Along each edge.
            where: [k, things, 2], the cells (x, z) in which something is; of two in one the last is seen.
            what: [k, things], `PLUS`, `EX`, `AGENT`, or `EMPTY` for nothing.
        """
        drawn = _draw(cells, self.height, self.width)
        images = np.repeat(drawn.images[EMPTY][None], len(where), axis=0)
        area = np.arange(len(where))[:, None, None]
        for thing in range(where.shape[1]):
            rows = drawn.rows[where[:, thing, 1]][:, :, None]
            columns = drawn.columns[where[:, thing, 0]][:, None, :]
            kind = what[:, thing, None, None].astype(np.intp)
            images[area, rows, columns] = drawn.images[kind, rows, columns]
        return images


@lru_cache(maxsize=16)
def _draw(cells: int, height: int, width: int) -> _Drawn:
    # Where points lie, in cells from the center of the first one; z grows upwards.
    pitch = height / cells
    z = (cells - 1) / 2 - (np.arange(height * _FINE) + 0.5 - height * _FINE / 2) / (_FINE * pitch)
    x = (cells - 1) / 2 + (np.arange(width * _FINE) + 0.5 - width * _FINE / 2) / (_FINE * pitch)
    cell_x, cell_z = _cell_of(x, cells), _cell_of(z, cells)
    inside = (cell_x >= 0) & (cell_z >= 0)[:, None]
    u, v = np.broadcast_arrays(x - np.rint(x), (z - np.rint(z))[:, None])
    images = np.stack([_paint(kind, inside, u, v) for kind in (EMPTY, PLUS, EX, AGENT)])
    fine = images.reshape(4, height, _FINE, width, _FINE, 3)
    return _Drawn(
        np.rint(fine.mean(axis=(2, 4))).astype(np.uint8),
        _pixels_of(cells, height, pitch, upwards=True),
        _pixels_of(cells, width, pitch, upwards=False),
    )


def _cell_of(place: NDArray[np.floating[Any]], cells: int) -> Indices:
    """The cell along one direction, -1 for a wall."""
    cell = np.rint(place).astype(np.intp)
    return np.where((cell >= 0) & (cell < cells), cell, -1)


def _pixels_of(cells: int, size: int, pitch: float, upwards: bool) -> Indices:
    """The pixels [cells, most] of the cells along one direction: those whose centers lie in the cell."""
    place = (np.arange(size) + 0.5 - size / 2) / pitch * (-1 if upwards else 1) + (cells - 1) / 2
    cell = _cell_of(place, cells)
    own = [np.flatnonzero(cell == k) for k in range(cells)]
    most = max(map(len, own))
    return np.array([np.pad(pixels, (0, most - len(pixels)), mode="edge") for pixels in own])


def _paint(
    kind: int, inside: NDArray[np.bool_], u: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The image with `kind` in all cells; `u`, `v`: within the cell, -0.5 to 0.5."""
    image = np.empty((*inside.shape, 3))
    image[:] = _WALL
    image[inside] = _FLOOR
    image[inside & (np.maximum(np.abs(u), np.abs(v)) > 0.46)] = _LINE
    near = np.maximum(np.abs(u), np.abs(v)) < 0.38
    if kind == AGENT:
        image[inside & (np.maximum(np.abs(u), np.abs(v)) < 0.4)] = _BODY
        image[inside & (np.maximum(np.abs(u), np.abs(v)) < 0.2)] = _FACE
    elif kind == PLUS:
        image[inside & near & (np.minimum(np.abs(u), np.abs(v)) < 0.13)] = _GREEN
    elif kind == EX:
        image[inside & near & (np.abs(np.abs(u) - np.abs(v)) < 0.17)] = _RED
    return image
