"""What agents see, as spaces of Gymnasium and values of these."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ObservationSpec
from numpy.typing import NDArray

from ..pixels import BYTES, FULL, as_floats
from ..steps import ObsArray
from .errors import UnityGymException

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """One array of an observation: a sensor's, or several vectors one after the other."""

    key: str
    """Its name among others."""
    sensors: tuple[int, ...]
    space: Any
    """A Box."""

    def of(self, obs: Sequence[ObsArray]) -> ObsArray:
        """[n, *shape] from the sensors' [n, *shape], in an array of its own."""
        first = obs[self.sensors[0]]
        if len(self.sensors) > 1:
            return np.concatenate([obs[index] for index in self.sensors], axis=1)
        if self.space.dtype != BYTES:
            return as_floats(first).copy() if first.dtype != BYTES else as_floats(first)
        return first.copy() if first.dtype == BYTES else np.rint(first * FULL).astype(np.uint8)


class View:
    """A behaviour's observations as a space: a Box, or a Tuple or Dict of them."""

    def __init__(self, parts: Sequence[Part], kind: type | None = None) -> None:
        """`kind`: `tuple` or `dict` for several parts, or for one that is to be in one; None: a Box."""
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

    def of(self, obs: Sequence[ObsArray]) -> Any:
        """The observations of n agents: as the space, with n in front of every shape.

        Args:
            obs: [n, *shape] per sensor.
        """
        told = [part.of(obs) for part in self._parts]
        if self._kind is dict:
            return dict(zip(self.keys, told))
        return tuple(told) if self._kind is tuple else told[0]

    def row(self, observations: Any, index: int) -> Any:
        """One agent's observation among those of n, in arrays of its own."""
        if self._kind is dict:
            return {key: array[index].copy() for key, array in observations.items()}
        if self._kind is tuple:
            return tuple(array[index].copy() for array in observations)
        return observations[index].copy()


def gym_view(specs: Sequence[ObservationSpec], uint8_visual: bool, allow_multiple: bool) -> View:
    """Pictures, sets and vectors as ML-Agents' Gym wrapper gives them, which leaves sets out.

    The vectors are one, all of them concatenated. With `allow_multiple` a Tuple: each picture (or grid), each
    set of things [most, size], the vector. Without, the first that there is of: a picture, the vector, a set.

    Args:
        specs: The behaviour's.
        uint8_visual: Pictures are bytes, 0 to 255; else float32, 0 to 1. [channels, height, width].
        allow_multiple: As above.

    Raises:
        UnityGymException: There is nothing to see.
    """
    pictures = [
        Part(f"visual_{k}", (index,), _picture(specs[index].shape, uint8_visual))
        for k, index in enumerate(_of_rank(specs, 3))
    ]
    sets = [
        Part(f"set_{k}", (index,), _numbers(specs[index].shape)) for k, index in enumerate(_of_rank(specs, 2))
    ]
    flat = _of_rank(specs, 1)
    size = sum(specs[index].shape[0] for index in flat)
    vectors = [Part("vector", tuple(flat), _numbers((size,)))] if flat else []
    every = [*pictures, *sets, *vectors]
    if not every:
        raise UnityGymException("There are no observations provided by the environment.")
    if allow_multiple:
        return View(every, tuple)
    chosen = [*pictures, *vectors, *sets][0]
    left_out = [spec.name for index, spec in enumerate(specs) if index not in chosen.sensors]
    if left_out:
        logger.warning(
            "Of what the agents see, %s is left out; with allow_multiple_obs=True all is given, as a Tuple.",
            ", ".join(left_out),
        )
    return View([chosen])


def sensor_view(specs: Sequence[ObservationSpec]) -> View:
    """Every sensor by itself: a Box where there is one, a Dict by their names where there are several.

    Raises:
        UnityGymException: There is nothing to see.
    """
    if not specs:
        raise UnityGymException("There are no observations provided by the environment.")
    keys = [spec.name or f"obs_{index}" for index, spec in enumerate(specs)]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            keys[index] = f"{key}_{index}"
    parts = [Part(key, (index,), _numbers(specs[index].shape)) for index, key in enumerate(keys)]
    return View(parts, dict if len(parts) > 1 else None)


def picture_sensor(specs: Sequence[ObservationSpec]) -> int | None:
    """The first sensor that can be shown: a picture of 1 or 3 channels."""
    return next((i for i in _of_rank(specs, 3) if specs[i].shape[0] in (1, 3)), None)


def shown(pixels: ObsArray) -> NDArray[np.uint8]:
    """[height, width, 3] of [1 or 3 channels, height, width], bytes or 0 to 1."""
    found = pixels if pixels.dtype == BYTES else np.rint(np.clip(pixels, 0, 1) * FULL)
    whole = np.broadcast_to(found, (3, *found.shape[1:]))
    return whole.transpose(1, 2, 0).astype(np.uint8)


def _of_rank(specs: Sequence[ObservationSpec], rank: int) -> list[int]:
    return [index for index, spec in enumerate(specs) if len(spec.shape) == rank]


def _numbers(shape: tuple[int, ...]) -> Any:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def _picture(shape: tuple[int, ...], as_bytes: bool) -> Any:
    return spaces.Box(0, 255, shape, np.uint8) if as_bytes else spaces.Box(0, 1, shape, np.float32)
