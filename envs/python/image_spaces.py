"""Which of Gymnasium's Boxes are images, and how their values become channels first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_COLOURS = (1, 3, 4)
"""Channels of a picture: grey, red-green-blue, the same with opacity."""

MOST_FRAMES = 32
"""An axis in front of larger ones, and not longer than this, holds frames or channels."""

Arrange = Callable[[Any], Any]
"""From an image as the environment gives it to [channels, height, width]."""


class Image(NamedTuple):
    """How the values of a Box become an image."""

    shape: tuple[int, int, int]
    """Channels, height, width."""
    arrange: Arrange


def channels_first(space: Any) -> Image | None:
    """How a Box of uint8 is an image, if it is one.

    Height x width x 1, 3 or 4 is one. So are, if they reach from 0 to 255: height x width (grey); frames or
    channels x height x width, both larger; frames x height x width x 1, 3 or 4.
    """
    if space.dtype != np.uint8:
        return None
    shape = tuple(int(n) for n in space.shape)
    if len(shape) == 3 and shape[2] in _COLOURS:
        return Image((shape[2], shape[0], shape[1]), _from_last)
    if (space.low != 0).any() or (space.high != 255).any():
        return None
    if len(shape) == 2:
        return Image((1, *shape), _grey)
    if len(shape) == 3 and shape[0] <= MOST_FRAMES and shape[0] < min(shape[1:]):
        return Image((shape[0], shape[1], shape[2]), np.asarray)
    if len(shape) == 4 and shape[3] in _COLOURS and shape[0] <= MOST_FRAMES:
        return Image((shape[0] * shape[3], shape[1], shape[2]), _frames)
    return None


def planes_first(space: Any) -> Image | None:
    """How a Box of rows x columns x planes, of whatever numbers but those of pictures, is an image."""
    if len(space.shape) != 3 or (space.dtype == np.uint8 and (space.high == 255).all()):
        return None
    rows, columns, planes = (int(n) for n in space.shape)
    return Image((planes, rows, columns), _from_last)


def float_pixels(arrange: Arrange, image: Any) -> Any:
    """The image in 0 to 1. Raises ValueError as `byte_pixels`."""
    return byte_pixels(arrange, image) / np.float32(255)


def byte_pixels(arrange: Arrange, image: Any) -> NDArray[np.uint8]:
    """The image's bytes.

    Raises:
        ValueError: It holds numbers that are none.
    """
    values = np.asarray(image)
    pixels = values.astype(np.uint8, copy=False)
    if pixels is not values and (pixels != values).any():
        raise ValueError(f"holds numbers of {values.dtype} that are no uint8, which its space says they are")
    arranged: NDArray[np.uint8] = arrange(pixels)
    return arranged


def _from_last(image: Any) -> Any:
    return np.moveaxis(image, 2, 0)


def _grey(image: Any) -> Any:
    return np.asarray(image)[None]


def _frames(frames: Any) -> Any:
    """[frames, height, width, colours] to [frames * colours, height, width]."""
    ordered = np.moveaxis(frames, 3, 1)
    return ordered.reshape(-1, *ordered.shape[2:])
