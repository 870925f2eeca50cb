"""Observations as Gymnasium spaces, and the conversion of their values."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ObservationSpec
from numpy.typing import NDArray

from ..base import ObsArray
from ..images import BYTES, FULL, as_floats
from .errors import UnityGymException

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObservationPart:
    """One array of an observation: one sensor's, or several vectors concatenated."""

    key: str
    """Its name among the parts."""
    sensors: tuple[int, ...]
    space: Any
    """A Box."""

    def convert(self, obs: Sequence[ObsArray]) -> ObsArray:
        """[n, *shape] from the sensors' [n, *shape], in a new array."""
        first = obs[self.sensors[0]]
        if len(self.sensors) > 1:
            return np.concatenate([obs[index] for index in self.sensors], axis=1)
        if self.space.dtype != BYTES:
            return as_floats(first).copy() if first.dtype != BYTES else as_floats(first)
        return first.copy() if first.dtype == BYTES else np.rint(first * FULL).astype(np.uint8)


class ObservationConverter:
    """A behavior's observations as a space: a Box, or a Tuple or Dict of them."""

    def __init__(self, parts: Sequence[ObservationPart], kind: type | None = None) -> None:
        """`kind`: `tuple` or `dict`, also of a single part; None: a Box."""
        self._parts = list(parts)
        self._kind = kind
        self.keys = [part.key for part in self._parts]
        """The names of the parts."""
        if kind is tuple:
            self.space = spaces.Tuple([part.space for part in self._parts])
        elif kind is dict:
            self.space = spaces.Dict(dict(zip(self.keys, (part.space for part in self._parts))))
        else:
            self.space = self._parts[0].space

    def convert(self, obs: Sequence[ObsArray]) -> Any:
        """Convert the observations of n agents: in the space, with n in front of every shape.

        Args:
            obs: [n, *shape] per sensor.
        """
        values = [part.convert(obs) for part in self._parts]
        if self._kind is dict:
            return dict(zip(self.keys, values))
        return tuple(values) if self._kind is tuple else values[0]

    def row(self, observations: Any, index: int) -> Any:
        """One agent's observation from those of n, in new arrays."""
        if self._kind is dict:
            return {key: array[index].copy() for key, array in observations.items()}
        if self._kind is tuple:
            return tuple(array[index].copy() for array in observations)
        return observations[index].copy()


def gym_observations(
    specs: Sequence[ObservationSpec], uint8_visual: bool, allow_multiple: bool
) -> ObservationConverter:
    """Observations as in ML-Agents' Gym wrapper, which however leaves out entity lists.

    All vectors are concatenated to one. With `allow_multiple`, a Tuple: each image (or grid), each entity
    list [max entities, size], the vector. Without, the first that exists of: image, vector, entity list.

    Args:
        specs: The behavior's.
        uint8_visual: Images are uint8, 0 to 255; else float32, 0 to 1. [channels, height, width].
        allow_multiple: As above.

    Raises:
        UnityGymException: There are no observations.
    """
    images = [
        ObservationPart(f"visual_{k}", (index,), _image_space(specs[index].shape, uint8_visual))
        for k, index in enumerate(_indices_of_rank(specs, 3))
    ]
    sets = [
        ObservationPart(f"set_{k}", (index,), _unbounded(specs[index].shape))
        for k, index in enumerate(_indices_of_rank(specs, 2))
    ]
    flat = _indices_of_rank(specs, 1)
    size = sum(specs[index].shape[0] for index in flat)
    vectors = [ObservationPart("vector", tuple(flat), _unbounded((size,)))] if flat else []
    every = [*images, *sets, *vectors]
    if not every:
        raise UnityGymException("There are no observations provided by the environment.")
    if allow_multiple:
        return ObservationConverter(every, tuple)
    chosen = [*images, *vectors, *sets][0]
    left_out = [spec.name for index, spec in enumerate(specs) if index not in chosen.sensors]
    if left_out:
        logger.warning(
            "The observations %s are left out; with allow_multiple_obs=True all are included, as a Tuple.",
            ", ".join(left_out),
        )
    return ObservationConverter([chosen])


def sensor_observations(specs: Sequence[ObservationSpec]) -> ObservationConverter:
    """Every sensor as it is: a Box for one, a Dict by name for several.

    Raises:
        UnityGymException: There are no observations.
    """
    if not specs:
        raise UnityGymException("There are no observations provided by the environment.")
    keys = [spec.name or f"obs_{index}" for index, spec in enumerate(specs)]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            keys[index] = f"{key}_{index}"
    parts = [ObservationPart(key, (index,), _unbounded(specs[index].shape)) for index, key in enumerate(keys)]
    return ObservationConverter(parts, dict if len(parts) > 1 else None)


def camera_sensor(specs: Sequence[ObservationSpec]) -> int | None:
    """The first sensor that can be shown: an image of 1 or 3 channels."""
    return next((i for i in _indices_of_rank(specs, 3) if specs[i].shape[0] in (1, 3)), None)


def to_rgb(pixels: ObsArray) -> NDArray[np.uint8]:
    """Convert [1 or 3 channels, height, width], uint8 or 0 to 1, to [height, width, 3]."""
    found = pixels if pixels.dtype == BYTES else np.rint(np.clip(pixels, 0, 1) * FULL)
    whole = np.broadcast_to(found, (3, *found.shape[1:]))
    return whole.transpose(1, 2, 0).astype(np.uint8)


def _indices_of_rank(specs: Sequence[ObservationSpec], rank: int) -> list[int]:
    return [index for index, spec in enumerate(specs) if len(spec.shape) == rank]


def _unbounded(shape: tuple[int, ...]) -> Any:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def _image_space(shape: tuple[int, ...], as_bytes: bool) -> Any:
    return spaces.Box(0, 255, shape, np.uint8) if as_bytes else spaces.Box(0, 1, shape, np.float32)
