"""Gymnasium's action spaces as specifications of behaviours, and what policies decide as their values.

Whoever imports this module needs the package gymnasium.

Which actions an agent may take, as environments of PettingZoo and Gymnasium tell it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ActionSpec
from numpy.typing import NDArray

from ..errors import UnsupportedSpaceError

_NEAR = 0.99
"""Of a dtype's greatest number: a bound from there on says that there is none."""

Rows = NDArray[np.float32]
Branches = NDArray[np.int32]
Decode = Callable[[Rows, Branches], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Actor:
    """How agents' actions are made from what a policy decides."""

    spec: ActionSpec
    decode: Decode
    """From the engine's numbers, continuous [n, A] within -1 to 1 and discrete [n, K], to n values of the
    space."""
    unbounded: tuple[str, ...] = ()
    """The Boxes with numbers that lack a bound, by their paths, such as `action.throttle`."""


@dataclass(slots=True)
class _Taken:
    """What the parts of a space have taken so far."""

    continuous: int
    branches: list[int]
    unbounded: list[str]


def actor(space: Any) -> Actor:
    """An action space as an action specification.

    Discrete is a branch, MultiDiscrete and MultiBinary several; a Box is continuous, and -1 to 1 is stretched
    to its bounds where it has two; of a Dict or Tuple all parts are put side by side.

    Raises:
        UnsupportedSpaceError: Another kind of space.
    """
    taken = _Taken(0, [], [])
    decode = _decoder(space, "action", taken)
    return Actor(ActionSpec(taken.continuous, tuple(taken.branches)), decode, tuple(taken.unbounded))


def _decoder(space: Any, path: str, taken: _Taken) -> Decode:
    """Decoding of one space; what it takes is added to `taken`."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return _decoder_of_parts(space, path, taken)
    first = len(taken.branches)
    if isinstance(space, spaces.Discrete):
        taken.branches.append(int(space.n))
        start = int(space.start)
        return lambda rows, chosen: (chosen[:, first].astype(np.int64) + start).tolist()
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        starts: Any = 0
        if isinstance(space, spaces.MultiBinary):
            taken.branches += [2] * math.prod(space.shape)
        else:
            taken.branches += [int(n) for n in np.ravel(space.nvec)]
            starts = space.start
        part = slice(first, len(taken.branches))
        shape, dtype = space.shape, space.dtype

        def decode(rows: Rows, chosen: Branches) -> list[NDArray[np.generic]]:
            return list((chosen[:, part].reshape(len(chosen), *shape) + starts).astype(dtype))

        return decode
    if isinstance(space, spaces.Box):
        begin = taken.continuous
        taken.continuous += math.prod(space.shape)
        stretch = _Stretch.of(space, slice(begin, taken.continuous))
        if not stretch.bounded:
            taken.unbounded.append(path)
        return stretch.decode
    raise UnsupportedSpaceError(
        f"{path}: the action space {space} cannot be used; Discrete, MultiDiscrete, MultiBinary, Box, and "
        "Dict and Tuple of these can. A wrapper around the environment that takes one of them and makes the "
        "action of it (gymnasium.wrappers.TransformAction) helps."
    )


def _decoder_of_parts(space: Any, path: str, taken: _Taken) -> Decode:
    """All parts side by side."""
    if isinstance(space, spaces.Dict):
        keys = list(space.spaces)
        parts = [_decoder(part, f"{path}.{key}", taken) for key, part in space.spaces.items()]
        return lambda rows, chosen: [dict(zip(keys, values)) for values in _side_by_side(parts, rows, chosen)]
    parts = [_decoder(part, f"{path}.{k}", taken) for k, part in enumerate(space.spaces)]
    return partial(_side_by_side, parts)


def _side_by_side(parts: Sequence[Decode], rows: Rows, chosen: Branches) -> list[tuple[Any, ...]]:
    if not parts:
        return [()] * len(rows)
    return list(zip(*(decode(rows, chosen) for decode in parts)))


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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Numbers within -1 to 1 to the bounds of a Box; a number that lacks a bound stays as it is."""

    part: slice
    """Of the policy's numbers."""
    space: Any
    bounded: bool
    """Every number has two bounds."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """What -1 and 1 become."""
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    """The space's own bounds."""

    @classmethod
    def of(cls, space: Any, part: slice) -> _Stretch:
        least, most, bounded = _wide(space.low), _wide(space.high), _bounded(space)
        low, high = np.where(bounded, least, -1.0), np.where(bounded, most, 1.0)
        return cls(part, space, bool(bounded.all()), low, high, least, most)

    def decode(self, rows: Rows, chosen: Branches) -> list[NDArray[np.generic]]:
        share = (rows[:, self.part].reshape(len(rows), *self.space.shape).astype(np.float64) + 1) / 2
        # The sum of two shares cannot overflow, as the distance of the bounds can.
        values = np.clip((1 - share) * self.low + share * self.high, self.least, self.most)
        if np.issubdtype(self.space.dtype, np.integer):
            values = np.rint(values)
        stretched = values.astype(self.space.dtype)
        # With the ellipsis a number without dimensions stays an array.
        return [stretched[row, ...] for row in range(len(stretched))]


ACTION_MASK = "action_mask"
"""The part of an observation, or of an info, that tells which actions are allowed."""


def given_mask(observation: Any, info: Mapping[str, Any] | None) -> Any:
    """1 where an action is allowed, in the form of `Space.sample`; None: all are."""
    if isinstance(observation, Mapping) and ACTION_MASK in observation:
        return observation[ACTION_MASK]
    return info.get(ACTION_MASK) if info else None


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
