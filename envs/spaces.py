"""Gymnasium's spaces as specifications of behaviours, and their values as arrays.

Whoever imports this module needs the package gymnasium.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ActionSpec, DimensionProperty, ObservationSpec, ObservationType
from numpy.typing import NDArray

from .faults import GameFaultError
from .pixels import Images
from .steps import ObsArray

ACTION_MASK = "action_mask"
"""The part of an observation that tells which actions are allowed, by the custom of PettingZoo."""

_NEAR = 0.99
"""Of a dtype's greatest number: a bound from there on says that there is none."""

_NONE, _SHIFTS = DimensionProperty.NONE, DimensionProperty.TRANSLATIONAL_EQUIVARIANCE

Row = NDArray[np.float32]
Branches = NDArray[np.int32]


class UnsupportedSpaceError(GameFaultError):
    """A space that has no counterpart in ML-Agents' specifications."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One array of an observation."""

    spec: ObservationSpec
    path: tuple[str | int, ...]
    """The keys that lead to it within the observation."""
    convert: Callable[[Any], Any]
    """From the space's value to what can be assigned to an array of the spec's shape."""
    dtype: type[np.float32 | np.uint8] = np.float32
    """Of that array."""

    def read(self, observation: Any, into: ObsArray) -> None:
        """Write this sensor's part of an observation into an array of the spec's shape."""
        for key in self.path:
            observation = observation[key]
        into[...] = self.convert(observation)


def sensors(space: Any, name: str = "observation", images: Images = "float32") -> list[Sensor]:
    """An observation space as sensors.

    Boxes become vectors, but images (uint8, height x width x 1, 3 or 4 channels) become channels first, and 0
    to 1 unless `images` leaves them bytes; Discrete and MultiDiscrete become one-hot vectors; of a Dict or
    Tuple every part is a sensor, without the action mask.

    Raises:
        UnsupportedSpaceError: Another kind of space, or nothing to observe.
    """
    found = _sensors(space, name, (), images)
    if not found:
        raise UnsupportedSpaceError(
            f"The observation space {space} has nothing to observe; {ACTION_MASK!r} is no observation."
        )
    return found


@dataclass(frozen=True, slots=True)
class Actor:
    """How an agent's action is made from what a policy decides."""

    spec: ActionSpec
    decode: Callable[[Row, Branches], Any]
    """From the engine's numbers, continuous [A] within -1 to 1 and discrete [K], to a value of the space."""


def actor(space: Any) -> Actor:
    """An action space as an action specification.

    Discrete is a branch, MultiDiscrete and MultiBinary several; a Box is continuous, and -1 to 1 is stretched
    to its bounds where it has two; of a Dict or Tuple all parts are put side by side.

    Raises:
        UnsupportedSpaceError: Another kind of space.
    """
    sizes = [0]
    branches: list[int] = []
    decode = _decoder(space, sizes, branches)
    return Actor(ActionSpec(sizes[0], tuple(branches)), decode)


def forbidden(mask: Any, branches: Sequence[int]) -> NDArray[np.bool_]:
    """[sum of branches] True where an action is not allowed, from a mask in the form of `Space.sample`.

    Args:
        mask: 1 where an action is allowed; one array for Discrete, a tuple or list of arrays for several
            branches.
        branches: The sizes.

    Raises:
        ValueError: The mask does not have as many entries as there are actions.
    """
    flat = _flat(mask)
    if flat.size != sum(branches):
        raise ValueError(
            f"An action mask has {flat.size} entries; the branches {tuple(branches)} need {sum(branches)}."
        )
    closed: NDArray[np.bool_] = np.logical_not(flat)
    return closed


def _flat(mask: Any) -> NDArray[Any]:
    """All entries in a row; what is nested may be of unequal lengths."""
    if isinstance(mask, (tuple, list)) and mask:
        return np.concatenate([_flat(part) for part in mask])
    return np.ravel(mask)


def _sensors(space: Any, name: str, path: tuple[str | int, ...], images: Images) -> list[Sensor]:
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        found = []
        for key, part in parts:
            if path or key != ACTION_MASK:
                below = f"{name}.{key}" if path or isinstance(key, int) else key
                found += _sensors(part, below, (*path, key), images)
        return found
    shape, properties, convert = _array(space)
    sensor = Sensor(ObservationSpec(shape, properties, ObservationType.DEFAULT, name), path, convert)
    if convert is _channels_first and images == "uint8":
        sensor = replace(sensor, convert=_channels_first_bytes, dtype=np.uint8)
    return [sensor]


def _array(
    space: Any,
) -> tuple[tuple[int, ...], tuple[DimensionProperty, ...], Callable[[Any], Any]]:
    """Shape, properties of its dimensions, and conversion of a space without parts."""
    if isinstance(space, spaces.Box):
        if _is_image(space):
            height, width, channels = space.shape
            return (channels, height, width), (_NONE, _SHIFTS, _SHIFTS), _channels_first
        if len(space.shape) == 1:
            return space.shape, (_NONE,), _same
        return (math.prod(space.shape),), (_NONE,), np.ravel
    if isinstance(space, spaces.Discrete):
        return (int(space.n),), (_NONE,), partial(_one_hot, sizes=[int(space.n)], start=space.start)
    if isinstance(space, spaces.MultiDiscrete):
        sizes = [int(n) for n in np.ravel(space.nvec)]
        return (sum(sizes),), (_NONE,), partial(_one_hot, sizes=sizes, start=np.ravel(space.start))
    if isinstance(space, spaces.MultiBinary):
        return (math.prod(space.shape),), (_NONE,), np.ravel
    raise UnsupportedSpaceError(
        f"The observation space {space} cannot be used; Box, Discrete, MultiDiscrete, MultiBinary, and Dict "
        "and Tuple of these can."
    )


def _is_image(space: Any) -> bool:
    return len(space.shape) == 3 and space.dtype == np.uint8 and space.shape[2] in (1, 3, 4)


def _same(value: Any) -> Any:
    return value


def _channels_first(image: Any) -> Any:
    return np.moveaxis(image, 2, 0) / np.float32(255)


def _channels_first_bytes(image: Any) -> Any:
    values = np.asarray(image)
    pixels = values.astype(np.uint8, copy=False)
    if pixels is not values and (pixels != values).any():
        raise ValueError(f"an image of {values.dtype} holds what is no uint8, as its space says it is")
    return np.moveaxis(pixels, 2, 0)


def _one_hot(value: Any, sizes: Sequence[int], start: Any) -> NDArray[np.float32]:
    hot = np.zeros(sum(sizes), np.float32)
    firsts = np.cumsum([0, *sizes[:-1]])
    hot[firsts + np.ravel(value) - start] = 1
    return hot


def _decoder(space: Any, sizes: list[int], branches: list[int]) -> Callable[[Row, Branches], Any]:
    """Decoding of one space; what it takes is added to the continuous size and the branches."""
    if isinstance(space, spaces.Dict):
        parts = {key: _decoder(part, sizes, branches) for key, part in space.spaces.items()}
        return lambda row, chosen: {key: decode(row, chosen) for key, decode in parts.items()}
    if isinstance(space, spaces.Tuple):
        decoders = [_decoder(part, sizes, branches) for part in space.spaces]
        return lambda row, chosen: tuple(decode(row, chosen) for decode in decoders)
    first = len(branches)
    if isinstance(space, spaces.Discrete):
        branches.append(int(space.n))
        start = int(space.start)
        return lambda row, chosen: int(chosen[first]) + start
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        count = math.prod(space.shape)
        starts: Any = 0
        if isinstance(space, spaces.MultiBinary):
            branches += [2] * count
        else:
            branches += [int(n) for n in np.ravel(space.nvec)]
            starts = space.start
        shape, dtype = space.shape, space.dtype
        return lambda row, chosen: (chosen[first : first + count].reshape(shape) + starts).astype(dtype)
    if isinstance(space, spaces.Box):
        begin = sizes[0]
        sizes[0] += math.prod(space.shape)
        return partial(_stretch, part=slice(begin, sizes[0]), space=space, bounded=_bounded(space))
    raise UnsupportedSpaceError(
        f"The action space {space} cannot be used; Discrete, MultiDiscrete, MultiBinary, Box, and Dict and "
        "Tuple of these can."
    )


def _bounded(space: Any) -> NDArray[np.bool_]:
    """Where both bounds mean something: neither infinite, nor a stand-in for it near the dtype's limits."""
    limit = np.inf
    if np.issubdtype(space.dtype, np.floating):
        limit = _NEAR * float(np.finfo(space.dtype).max)
    elif space.dtype.itemsize == 8:
        limit = _NEAR * float(np.iinfo(space.dtype).max)
    bounded: NDArray[np.bool_] = np.abs(_wide(space.low)) < limit
    bounded &= np.abs(_wide(space.high)) < limit
    return bounded


def _wide(bound: NDArray[np.generic]) -> NDArray[np.float64]:
    wide: NDArray[np.float64] = bound.astype(np.float64)
    return wide


def _stretch(
    row: Row, chosen: Branches, part: slice, space: Any, bounded: NDArray[np.bool_]
) -> NDArray[np.generic]:
    """Numbers within -1 to 1 to the bounds of a Box; a number that lacks a bound stays as it is."""
    value = row[part].reshape(space.shape).astype(np.float64)
    low, high = np.where(bounded, _wide(space.low), -1.0), np.where(bounded, _wide(space.high), 1.0)
    share = (value + 1) / 2
    # The sum of two shares cannot overflow, as the distance of the bounds can.
    value = np.clip((1 - share) * low + share * high, _wide(space.low), _wide(space.high))
    if np.issubdtype(space.dtype, np.integer):
        value = np.rint(value)
    stretched: NDArray[np.generic] = value.astype(space.dtype)
    return stretched
