"""Gymnasium's observation spaces as ObservationSpecs, and the conversion of observations to arrays.

Importing this module requires the package gymnasium.
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
from ..utils.sizes import too_many_choices, too_many_numbers, too_many_sensors
from .action_spaces import ACTION_MASK
from .calls import one_line, shorten

_NONE, _SHIFTS = DimensionProperty.NONE, DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
_NUMBERS = "biuf"
"""The dtype kinds of numbers and truth values."""


@dataclass(frozen=True, slots=True)
class SpaceSensor:
    """One array of an observation."""

    spec: ObservationSpec
    path: tuple[str | int, ...]
    """The keys of the sensor's part within the observation."""
    convert: Callable[[Any], Any]
    """A function from the space's value to an array of the spec's shape."""
    dtype: type[np.float32 | np.uint8] = np.float32
    """The dtype of the spec's array."""
    shape: tuple[int, ...] | None = None
    """The shape that the space declares; None for a single number."""
    board: bool = False
    """Whether the sensor consists of the planes of a board."""

    def read(self, observation: Any, into: ObsArray) -> None:
        """Write this sensor's part of an observation into an array of the spec's shape.

        Raises:
            ValueError: The observation is not in the space; the message names the sensor.
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
        """The values of this part, checked against the shape that the space declares."""
        try:
            values = np.asarray(part)
        except ValueError as error:
            wanted = "" if self.shape is None else f" of the shape {self.shape}"
            raise ValueError(
                f"is {shorten(part)}, whose parts have unequal lengths; expected an array{wanted}"
            ) from error
        except Exception as error:  # such as a tensor on a GPU, or one with a gradient
            raise ValueError(
                f"is a {type(part).__name__} that NumPy cannot read: {one_line(error)}"
            ) from error
        if values.dtype.kind not in _NUMBERS:
            raise ValueError(f"is {shorten(part)} ({values.dtype}); expected numbers")
        # Otherwise NumPy would broadcast, or flatten, values of another shape.
        if self.shape is not None and values.shape != self.shape:
            raise ValueError(f"has the shape {values.shape}; expected {self.shape}, that of its space")
        return values


def sensors(
    space: Any, name: str = "observation", images: Images = "float32", *, boards: bool = False
) -> list[SpaceSensor]:
    """Convert an observation space to sensors.

    Boxes become vectors, except images (see `channels_first`), which become channels first, and 0 to 1 unless
    `images` keeps them bytes. With `boards`, Boxes of rows x columns x planes become channels first too, with
    their values unchanged. Discrete and MultiDiscrete become one-hot vectors. Every part of a Dict or Tuple
    is a sensor, except the action mask.

    Raises:
        UnsupportedSpaceError: Another kind of space, or nothing to observe.
    """
    found = _sensors(space, name, (), images, boards)
    if not found:
        raise UnsupportedSpaceError(
            f"The observation space {space} has nothing to observe; {ACTION_MASK!r} is not an observation."
        )
    if reason := too_many_sensors(len(found)):
        raise UnsupportedSpaceError(f"The observation space cannot be used: {reason}.")
    return found


def _sensors(
    space: Any, name: str, path: tuple[str | int, ...], images: Images, boards: bool
) -> list[SpaceSensor]:
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
        return [
            SpaceSensor(_image_spec(board.shape, name), path, board.arrange, shape=space.shape, board=True)
        ]
    image = channels_first(space) if isinstance(space, spaces.Box) else None
    if image is not None:
        spec = _image_spec(image.shape, name)
        if images == "uint8":
            return [SpaceSensor(spec, path, partial(byte_pixels, image.arrange), np.uint8, space.shape)]
        return [SpaceSensor(spec, path, partial(float_pixels, image.arrange), shape=space.shape)]
    size, convert = _vector(space, name)
    too_many = too_many_numbers if isinstance(space, (spaces.Box, spaces.MultiBinary)) else too_many_choices
    if reason := too_many(size):
        raise UnsupportedSpaceError(
            f"{name}: the observation space {shorten(space)} cannot be used: {reason}."
        )
    spec = ObservationSpec((size,), (_NONE,), ObservationType.DEFAULT, name)
    shape = None if isinstance(space, spaces.Discrete) else space.shape
    return [SpaceSensor(spec, path, convert, shape=shape)]


def _image_spec(shape: tuple[int, int, int], name: str) -> ObservationSpec:
    return ObservationSpec(shape, (_NONE, _SHIFTS, _SHIFTS), ObservationType.DEFAULT, name)


def _vector(space: Any, name: str) -> tuple[int, Callable[[Any], Any]]:
    """The size and conversion of a space without parts that is not an image."""
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
        "and Dict and Tuple of these can. Wrap the environment to convert it to one of them, or leave it out "
        "(gymnasium.wrappers.TransformObservation, FilterObservation)."
    )


def _same(value: Any) -> Any:
    return value


def _lacking(part: Any, key: str | int) -> str:
    """Why a part of an observation has no value for this key."""
    if isinstance(part, Mapping):
        return f"there is no key {key!r}, found {', '.join(map(repr, part)) or 'none'}"
    if isinstance(key, int) and isinstance(part, Sequence):
        return f"there is no part {key}, found {shorten(part)}"
    return f"expected {'a dict' if isinstance(key, str) else 'a tuple'} there, found {shorten(part)}"


def _one_hot(sizes: Sequence[int], start: Any) -> Callable[[Any], NDArray[np.float32]]:
    """Make the one-hot encoding of integers, each of which has `size` values from its start on."""
    size, limits, firsts = sum(sizes), np.array(sizes), np.cumsum([0, *sizes[:-1]])
    least = np.asarray(start).astype(np.int64)

    def convert(value: NDArray[Any]) -> NDArray[np.float32]:
        found = np.ravel(value)
        if found.size != len(limits) or found.dtype.kind == "f":
            expected = "an integer" if len(limits) == 1 else f"{len(limits)} integers"
            raise ValueError(f"is {shorten(value.tolist())}; expected {expected}")
        number = found.astype(np.int64) - least
        if (number < 0).any() or (number >= limits).any():
            raise ValueError(f"is {shorten(value.tolist())}, which is not in its space")
        hot = np.zeros(size, np.float32)
        hot[firsts + number] = 1
        return hot

    return convert


_COLORS = (1, 3, 4)
"""The numbers of channels of an image: gray, RGB, RGBA."""

MAX_FRAMES = 32
"""The most frames or channels on a leading axis, which must also be shorter than the others to hold them."""

Arrange = Callable[[Any], Any]
"""A function from the environment's image to [channels, height, width]."""


class Image(NamedTuple):
    """How to convert the values of a Box to an image."""

    shape: tuple[int, int, int]
    """The channels, height and width."""
    arrange: Arrange


def channels_first(space: Any) -> Image | None:
    """The image in a Box of uint8; None if it is not an image.

    Height x width x 1, 3 or 4 is an image. With bounds 0 and 255 so are: height x width (gray); frames or
    channels x height x width, both larger; frames x height x width x 1, 3 or 4.
    """
    if space.dtype != np.uint8:
        return None
    shape = tuple(int(n) for n in space.shape)
    if len(shape) == 3 and shape[2] in _COLORS:
        return Image((shape[2], shape[0], shape[1]), _from_last)
    if (space.low != 0).any() or (space.high != 255).any():
        return None
    if len(shape) == 2:
        return Image((1, *shape), _gray)
    if len(shape) == 3 and shape[0] <= MAX_FRAMES and shape[0] < min(shape[1:]):
        return Image((shape[0], shape[1], shape[2]), np.asarray)
    if len(shape) == 4 and shape[3] in _COLORS and shape[0] <= MAX_FRAMES:
        return Image((shape[0] * shape[3], shape[1], shape[2]), _frames)
    return None


def planes_first(space: Any) -> Image | None:
    """The image in a Box of rows x columns x planes with any values but those of pixels; else None."""
    if len(space.shape) != 3 or (space.dtype == np.uint8 and (space.high == 255).all()):
        return None
    rows, columns, planes = (int(n) for n in space.shape)
    return Image((planes, rows, columns), _from_last)


def float_pixels(arrange: Arrange, image: Any) -> Any:
    """Convert an image to 0 to 1. Raises ValueError as `byte_pixels`."""
    return byte_pixels(arrange, image) / np.float32(255)


def byte_pixels(arrange: Arrange, image: Any) -> NDArray[np.uint8]:
    """Convert an image to bytes.

    Raises:
        ValueError: It contains values that are not bytes.
    """
    values = np.asarray(image)
    pixels = values.astype(np.uint8, copy=False)
    if pixels is not values and (pixels != values).any():
        raise ValueError(f"contains values of {values.dtype} that are not uint8, the dtype of its space")
    arranged: NDArray[np.uint8] = arrange(pixels)
    return arranged


def _from_last(image: Any) -> Any:
    return np.moveaxis(image, 2, 0)


def _gray(image: Any) -> Any:
    return np.asarray(image)[None]


def _frames(frames: Any) -> Any:
    """Convert [frames, height, width, colors] to [frames * colors, height, width]."""
    ordered = np.moveaxis(frames, 3, 1)
    return ordered.reshape(-1, *ordered.shape[2:])
