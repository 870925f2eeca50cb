"""Gymnasium's observation spaces as specifications of behaviours, and their values as arrays.

Whoever imports this module needs the package gymnasium.

Which of Gymnasium's Boxes are images, and how their values become channels first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import DimensionProperty, ObservationSpec, ObservationType
from numpy.typing import NDArray

from ..base import ObsArray
from ..errors import UnsupportedSpaceError
from ..images import Images
from .action_spaces import ACTION_MASK
from .calls import shortened

_NONE, _SHIFTS = DimensionProperty.NONE, DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
_NUMBERS = "biuf"
"""The kinds of dtypes that are numbers, or truth values."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One array of an observation."""

    spec: ObservationSpec
    path: tuple[str | int, ...]
    """The keys that lead to it within the observation."""
    convert: Callable[[Any], Any]
    """From the space's value to an array of the spec's shape."""
    dtype: type[np.float32 | np.uint8] = np.float32
    """Of that array."""
    shape: tuple[int, ...] | None = None
    """As the space declares it; None where it is a single number."""
    board: bool = False
    """It has the planes of a board."""

    def read(self, observation: Any, into: ObsArray) -> None:
        """Write this sensor's part of an observation into an array of the spec's shape.

        Raises:
            ValueError: The observation is not of the space; the message names the sensor.
        """
        part = observation
        for key in self.path:
            try:
                part = part[key]
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"the observation lacks {self.spec.name!r}: {_lacking(part, key)}") from None
        try:
            into[...] = self.convert(self._declared(part))
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the observation {self.spec.name!r} {error}") from error

    def _declared(self, part: Any) -> NDArray[Any]:
        """The numbers of this part, of the shape that the space declares."""
        values = np.asarray(part)
        if values.dtype.kind not in _NUMBERS:
            raise ValueError(f"is {shortened(part)} ({values.dtype}); expected numbers")
        # Else NumPy would repeat what is too small, or lay flat what is of another shape.
        if self.shape is not None and values.shape != self.shape:
            raise ValueError(f"has the shape {values.shape}; expected {self.shape}, that of its space")
        return values


def sensors(
    space: Any, name: str = "observation", images: Images = "float32", *, boards: bool = False
) -> list[Sensor]:
    """An observation space as sensors.

    Boxes become vectors, but images (see `image_spaces`) become channels first, and 0 to 1 unless `images`
    leaves them bytes; with `boards`, so do Boxes of rows x columns x planes, their numbers as they are;
    Discrete and MultiDiscrete become one-hot vectors; of a Dict or Tuple every part is a
    sensor, without the action mask.

    Raises:
        UnsupportedSpaceError: Another kind of space, or nothing to observe.
    """
    found = _sensors(space, name, (), images, boards)
    if not found:
        raise UnsupportedSpaceError(
            f"The observation space {space} has nothing to observe; {ACTION_MASK!r} is no observation."
        )
    return found


def _sensors(
    space: Any, name: str, path: tuple[str | int, ...], images: Images, boards: bool
) -> list[Sensor]:
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        found = []
        for key, part in parts:
            if path or key != ACTION_MASK:
                below = f"{name}.{key}" if path or isinstance(key, int) else key
                found += _sensors(part, below, (*path, key), images, boards)
        return found
    board = planes_first(space) if boards and isinstance(space, spaces.Box) else None
    if board is not None:
        return [Sensor(_image_spec(board.shape, name), path, board.arrange, shape=space.shape, board=True)]
    image = channels_first(space) if isinstance(space, spaces.Box) else None
    if image is not None:
        spec = _image_spec(image.shape, name)
        if images == "uint8":
            return [Sensor(spec, path, partial(byte_pixels, image.arrange), np.uint8, space.shape)]
        return [Sensor(spec, path, partial(float_pixels, image.arrange), shape=space.shape)]
    size, convert = _vector(space, name)
    spec = ObservationSpec((size,), (_NONE,), ObservationType.DEFAULT, name)
    shape = None if isinstance(space, spaces.Discrete) else space.shape
    return [Sensor(spec, path, convert, shape=shape)]


def _image_spec(shape: tuple[int, int, int], name: str) -> ObservationSpec:
    return ObservationSpec(shape, (_NONE, _SHIFTS, _SHIFTS), ObservationType.DEFAULT, name)


def _vector(space: Any, name: str) -> tuple[int, Callable[[Any], Any]]:
    """Size, and conversion of a space without parts that is no image."""
    if isinstance(space, spaces.Box):
        return math.prod(space.shape), _same if len(space.shape) == 1 else np.ravel
    if isinstance(space, spaces.Discrete):
        return int(space.n), _one_hot([int(space.n)], space.start)
    if isinstance(space, spaces.MultiDiscrete):
        sizes = [int(n) for n in np.ravel(space.nvec)]
        return sum(sizes), _one_hot(sizes, np.ravel(space.start))
    if isinstance(space, spaces.MultiBinary):
        return math.prod(space.shape), np.ravel
    raise UnsupportedSpaceError(
        f"{name}: the observation space {space} cannot be used; Box, Discrete, MultiDiscrete, MultiBinary, "
        "and Dict and Tuple of these can. A wrapper around the environment that makes one of them of it, or "
        "leaves it out (gymnasium.wrappers.TransformObservation, FilterObservation), helps."
    )


def _same(value: Any) -> Any:
    return value


def _lacking(part: Any, key: str | int) -> str:
    """Why a part of an observation has nothing under this key."""
    if isinstance(part, Mapping):
        return f"there is no key {key!r}, found {', '.join(map(repr, part)) or 'none'}"
    if isinstance(key, int) and isinstance(part, Sequence):
        return f"there is no part {key}, found {shortened(part)}"
    return f"expected {'a dict' if isinstance(key, str) else 'a tuple'} there, found {shortened(part)}"


def _one_hot(sizes: Sequence[int], start: Any) -> Callable[[Any], NDArray[np.float32]]:
    """A conversion of numbers, each of so many from its start on, to a 1 for each among zeros."""
    size, limits, firsts = sum(sizes), np.array(sizes), np.cumsum([0, *sizes[:-1]])

    def convert(value: NDArray[Any]) -> NDArray[np.float32]:
        found = np.ravel(value)
        if found.size != len(limits) or found.dtype.kind == "f":
            expected = "a whole number" if len(limits) == 1 else f"{len(limits)} whole numbers"
            raise ValueError(f"is {shortened(value.tolist())}; expected {expected}")
        number = found - start
        if (number < 0).any() or (number >= limits).any():
            raise ValueError(f"is {shortened(value.tolist())}, which its space does not hold")
        hot = np.zeros(size, np.float32)
        hot[firsts + number] = 1
        return hot

    return convert


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
