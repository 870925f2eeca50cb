"""Actions and observations as Gymnasium spaces, and the conversion of their values."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ActionSpec, ActionTuple, ObservationSpec
from numpy.typing import NDArray

from ..base import ObsArray
from ..images import BYTES, FULL, as_floats
from .errors import UnityGymException, invalid_action

logger = logging.getLogger(__name__)


class ActionConverter:
    """A behavior's actions as a space.

    Continuous actions are a Box from -1 to 1, float32; one branch is Discrete; several are MultiDiscrete, or
    Discrete over all combinations, in which the last branch changes fastest; both kinds are a Tuple.
    """

    def __init__(self, spec: ActionSpec, flatten_branched: bool = False) -> None:
        """Make the space.

        Args:
            spec: The behavior's.
            flatten_branched: Flatten several branches to one Discrete.

        Raises:
            UnityGymException: There are no actions, or branches to flatten next to continuous actions.
        """
        self.spec = spec
        self._combinations: NDArray[np.int32] | None = None
        branches = spec.discrete_branches
        if flatten_branched and not branches:
            logger.warning("flatten_branched has no effect: the actions are continuous.")
        if flatten_branched and branches and spec.continuous_size:
            raise UnityGymException(
                f"flatten_branched makes one Discrete of branches, but there are {spec.continuous_size} "
                f"continuous actions next to the branches {branches}. Leave it out, and actions are a Tuple."
            )
        if flatten_branched and len(branches) > 1:
            every = itertools.product(*map(range, branches))
            self._combinations = np.array(list(every), np.int32)
        parts = []
        if spec.continuous_size:
            parts.append(spaces.Box(-1, 1, (spec.continuous_size,), np.float32))
        if branches:
            parts.append(self._discrete_space())
        if not parts:
            raise UnityGymException("No actions found: agents have neither branches nor continuous actions.")
        self.space = parts[0] if len(parts) == 1 else spaces.Tuple(parts)
        self._parts = parts

    def convert_one(self, action: Any, whose: str = "") -> ActionTuple:
        """Convert one agent's action to [1, continuous] and [1, branches]. Raises as `convert`."""
        if len(self._parts) > 1:
            self._check_parts(action, whose)
            return self.convert(tuple(self._array(part, whose)[None] for part in action), 1, whose)
        return self.convert(self._array(action, whose)[None], 1, whose)

    def convert(self, actions: Any, agents: int, whose: str = "") -> ActionTuple:
        """Convert the actions of n agents to [n, continuous] and [n, branches].

        Args:
            actions: In the space, with n in front of every shape.
            agents: n.
            whose: For the message, such as ` of the agent 'Ball?team=0?agent_id=3'`.

        Raises:
            UnityGymException: A shape or dtype is wrong, an action does not exist, or a value is not finite.
        """
        values = actions
        if len(self._parts) == 1:
            values = (actions,)
        else:
            self._check_parts(actions, whose)
        continuous: NDArray[np.float32] = np.zeros((agents, 0), np.float32)
        discrete: NDArray[np.int32] = np.zeros((agents, 0), np.int32)
        for space, value in zip(self._parts, values):
            if isinstance(space, spaces.Box):
                continuous = self._continuous(space, self._array(value, whose), agents, whose)
            else:
                discrete = self._discrete(space, self._array(value, whose), agents, whose)
        return ActionTuple(continuous, discrete)

    def mask(self, forbidden: Sequence[NDArray[np.bool_]]) -> Any:
        """One agent's action mask, in the form that the space's `sample` takes.

        Args:
            forbidden: [size] per branch, True for actions that are not allowed.

        Returns:
            int8, 1 for allowed actions: [size] for Discrete, a tuple of such for MultiDiscrete; in a Tuple,
            after the None of the continuous actions. None without branches.
        """
        if not len(forbidden):
            return None
        if self._combinations is not None:
            branches = self._combinations.T
            allowed: Any = ~np.any([closed[of] for closed, of in zip(forbidden, branches)], axis=0)
            allowed = allowed.astype(np.int8)
        else:
            allowed = tuple(np.logical_not(closed).astype(np.int8) for closed in forbidden)
            allowed = allowed if len(allowed) > 1 else allowed[0]
        return allowed if len(self._parts) == 1 else (None, allowed)

    def masks(self, forbidden: Sequence[NDArray[np.bool_]]) -> NDArray[np.int8]:
        """The action masks of n agents as one int8 array: [n, sizes of all branches] or [n, combinations]."""
        if self._combinations is None:
            closed = np.concatenate(list(forbidden), axis=1)
        else:
            branches = self._combinations.T
            closed = np.any([mask[:, of] for mask, of in zip(forbidden, branches)], axis=0)
        allowed: NDArray[np.int8] = np.logical_not(closed).astype(np.int8)
        return allowed

    def _discrete_space(self) -> Any:
        branches = self.spec.discrete_branches
        if self._combinations is not None:
            return spaces.Discrete(len(self._combinations))
        return spaces.Discrete(branches[0]) if len(branches) == 1 else spaces.MultiDiscrete(branches)

    def _array(self, value: Any, whose: str) -> NDArray[Any]:
        try:
            return np.asarray(value)
        except ValueError as error:
            raise invalid_action(value, self.space, str(error), whose) from error

    def _check_parts(self, action: Any, whose: str) -> None:
        if not isinstance(action, (tuple, list)) or len(action) != len(self._parts):
            why = f"expected a tuple of {len(self._parts)}, the continuous actions first"
            raise invalid_action(action, self.space, why, whose)

    def _continuous(self, space: Any, value: NDArray[Any], agents: int, whose: str) -> NDArray[np.float32]:
        self._check_shape(space, value, (agents, *space.shape), whose)
        if value.dtype.kind not in "fiu":
            raise invalid_action(value, space, "it is not an array of numbers", whose)
        if not np.isfinite(value).all():
            raise invalid_action(value, space, "it contains NaN or infinity", whose)
        return value.astype(np.float32)

    def _discrete(self, space: Any, value: NDArray[Any], agents: int, whose: str) -> NDArray[np.int32]:
        self._check_shape(space, value, (agents, *space.shape), whose)
        if value.dtype.kind not in "iub":
            raise invalid_action(value, space, f"expected integers, found {value.dtype}", whose)
        value = value.reshape(agents, -1)
        sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec
        if ((value < 0) | (value >= sizes)).any():
            raise invalid_action(value, space, "there is no such action", whose)
        chosen: NDArray[np.int32] = value.astype(np.int32)
        return chosen if self._combinations is None else self._combinations[chosen[:, 0]]

    def _check_shape(self, space: Any, value: NDArray[Any], shape: tuple[int, ...], whose: str) -> None:
        if value.shape != shape:
            one = shape[0] == 1 and value.shape[:1] == (1,)
            expected, found = (shape[1:], value.shape[1:]) if one else (shape, value.shape)
            why = f"expected the shape {expected}, found {found}"
            raise invalid_action(value[0] if one else value, space, why, whose)


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
