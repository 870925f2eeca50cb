"""Gymnasium's action spaces as ActionSpecs, the conversion of actions, and action masks.

Importing this module requires the package gymnasium.
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
from ..utils.sizes import too_many_actions
from .calls import shorten

_NEAR = 0.99
"""The fraction of a dtype's maximum beyond which a bound means that there is none."""

Rows = NDArray[np.float32]
Branches = NDArray[np.int32]
Decode = Callable[[Rows, Branches], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class ActionDecoder:
    """Converts a policy's actions to values of a space."""

    spec: ActionSpec
    decode: Decode
    """A function of continuous [n, A] within -1 to 1 and discrete [n, K] actions: n values of the space."""
    space: Any = None
    """The space whose values are the result; masks have its form."""
    unbounded: tuple[str, ...] = ()
    """The paths of Boxes with unbounded values, such as `action.throttle`."""


@dataclass(slots=True)
class _Layout:
    """The continuous actions and branches that the parts of a space use so far."""

    continuous: int
    branches: list[int]
    unbounded: list[str]


def action_decoder(space: Any) -> ActionDecoder:
    """Convert an action space to an action specification.

    Discrete is one branch, MultiDiscrete and MultiBinary are several; a Box is continuous, with -1 to 1
    scaled to its bounds if it has both; the parts of a Dict or Tuple are concatenated.

    Raises:
        UnsupportedSpaceError: Another kind of space.
    """
    if reason := too_many_actions(*_sizes(space)):
        raise UnsupportedSpaceError(f"The action space {shorten(space)} cannot be used: {reason}.")
    layout = _Layout(0, [], [])
    decode = _decoder(space, "action", layout)
    return ActionDecoder(
        ActionSpec(layout.continuous, tuple(layout.branches)), decode, space, tuple(layout.unbounded)
    )


def _sizes(space: Any) -> tuple[int, int, int]:
    """How many continuous actions, choices and branches a space has; none if it is of another kind."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        continuous, choices, branches = map(sum, zip((0, 0, 0), *map(_sizes, parts)))
        return continuous, choices, branches
    if isinstance(space, spaces.Box):
        return math.prod(space.shape), 0, 0
    if isinstance(space, spaces.MultiBinary):
        return 0, 2 * math.prod(space.shape), math.prod(space.shape)
    if isinstance(space, spaces.MultiDiscrete):
        return 0, int(np.sum(space.nvec)), space.nvec.size
    return (0, int(space.n), 1) if isinstance(space, spaces.Discrete) else (0, 0, 0)


def _decoder(space: Any, path: str, layout: _Layout) -> Decode:
    """Make the decoder of one space, and add its actions to `layout`."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return _decoder_of_parts(space, path, layout)
    first = len(layout.branches)
    if isinstance(space, spaces.Discrete):
        layout.branches.append(int(space.n))
        start = int(space.start)
        return lambda rows, chosen: (chosen[:, first].astype(np.int64) + start).tolist()
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        starts: Any = 0
        if isinstance(space, spaces.MultiBinary):
            layout.branches += [2] * math.prod(space.shape)
        else:
            layout.branches += [int(n) for n in np.ravel(space.nvec)]
            starts = space.start
        part = slice(first, len(layout.branches))
        shape, dtype = space.shape, space.dtype

        def decode(rows: Rows, chosen: Branches) -> list[NDArray[np.generic]]:
            return list((chosen[:, part].reshape(len(chosen), *shape) + starts).astype(dtype))

        return decode
    if isinstance(space, spaces.Box):
        begin = layout.continuous
        layout.continuous += math.prod(space.shape)
        scaling = _Scaling.of(space, slice(begin, layout.continuous))
        if not scaling.bounded:
            layout.unbounded.append(path)
        return scaling.decode
    raise UnsupportedSpaceError(
        f"{path}: the action space {space} cannot be used; Discrete, MultiDiscrete, MultiBinary, Box, and "
        "Dict and Tuple of these can. Wrap the environment to convert from one of them "
        "(gymnasium.wrappers.TransformAction)."
    )


def _decoder_of_parts(space: Any, path: str, layout: _Layout) -> Decode:
    """Make the decoder of a Dict or Tuple."""
    if isinstance(space, spaces.Dict):
        keys = list(space.spaces)
        parts = [_decoder(part, f"{path}.{key}", layout) for key, part in space.spaces.items()]
        return lambda rows, chosen: [dict(zip(keys, values)) for values in _decode_parts(parts, rows, chosen)]
    parts = [_decoder(part, f"{path}.{k}", layout) for k, part in enumerate(space.spaces)]
    return partial(_decode_parts, parts)


def _decode_parts(parts: Sequence[Decode], rows: Rows, chosen: Branches) -> list[tuple[Any, ...]]:
    if not parts:
        return [()] * len(rows)
    return list(zip(*(decode(rows, chosen) for decode in parts)))


def _bounded(space: Any) -> NDArray[np.bool_]:
    """Whether both bounds are real: neither infinite, nor a stand-in for infinity near the dtype's limits."""
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
class _Scaling:
    """Scales values within -1 to 1 to the bounds of a Box; a value without both bounds is unchanged."""

    part: slice
    """The slice of the policy's continuous actions."""
    space: Any
    bounded: bool
    """Whether every value has both bounds."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """The values that 1 is scaled to, as -1 is to `low`."""
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    """The space's own upper bounds; `least` has the lower ones."""

    @classmethod
    def of(cls, space: Any, part: slice) -> _Scaling:
        least, most, bounded = _wide(space.low), _wide(space.high), _bounded(space)
        low, high = np.where(bounded, least, -1.0), np.where(bounded, most, 1.0)
        return cls(part, space, bool(bounded.all()), low, high, least, most)

    def decode(self, rows: Rows, chosen: Branches) -> list[NDArray[np.generic]]:
        share = (rows[:, self.part].reshape(len(rows), *self.space.shape).astype(np.float64) + 1) / 2
        # This sum cannot overflow, unlike the difference of the bounds.
        values = np.clip((1 - share) * self.low + share * self.high, self.least, self.most)
        if self.space.dtype.kind in "iub":
            values = np.rint(values)
        stretched = values.astype(self.space.dtype)
        # The ellipsis keeps a value without dimensions an array.
        return [stretched[row, ...] for row in range(len(stretched))]


ACTION_MASK = "action_mask"
"""The key of the mask of allowed actions in an observation or info."""


def find_mask(observation: Any, info: Mapping[str, Any] | None) -> Any:
    """The action mask, 1 for allowed actions, in the form of `Space.sample`; None: all are allowed."""
    if isinstance(observation, Mapping) and ACTION_MASK in observation:
        return observation[ACTION_MASK]
    return info.get(ACTION_MASK) if info else None


def forbidden_actions(mask: Any, branches: Sequence[int], space: Any = None) -> NDArray[np.bool_]:
    """An array [sum of branches], True for actions that a mask in the form of `Space.sample` does not allow.

    Args:
        mask: 1 for allowed actions; one array for Discrete, a tuple or list of arrays for several branches, a
            dict for a Dict; None for parts without discrete actions.
        branches: The branch sizes.
        space: The action space.

    Raises:
        ValueError: The mask does not have as many entries as there are actions, or holds something else than
            numbers of at least 0, such as the logarithms of probabilities.
    """
    flat = _flat(mask, space)
    if flat.size != sum(branches):
        raise ValueError(
            f"An action mask has {flat.size} entries; the branches {tuple(branches)} need {sum(branches)}"
        )
    if flat.dtype.kind not in "biuf" or not (flat >= 0).all():
        raise ValueError(
            f"An action mask is {shorten(flat.tolist())}; expected 1 for each allowed action, 0 for others"
        )
    closed: NDArray[np.bool_] = np.logical_not(flat)
    return closed


def _flat(mask: Any, space: Any = None) -> NDArray[Any]:
    """Flatten a mask, whose parts may have different lengths."""
    if mask is None:
        return np.zeros(0)
    if isinstance(mask, Mapping):
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else dict.fromkeys(mask)
        if mask.keys() != parts.keys():
            raise ValueError(f"An action mask has the parts {list(mask)}; the space has {list(parts)}")
        return np.concatenate([_flat(mask[key], part) for key, part in parts.items()])
    if isinstance(mask, (tuple, list)) and mask:
        of_parts = list(space.spaces) if isinstance(space, spaces.Tuple) else []
        of_parts = of_parts if len(of_parts) == len(mask) else [None] * len(mask)
        return np.concatenate([_flat(part, own) for part, own in zip(mask, of_parts)])
    flat = np.ravel(mask)
    if isinstance(space, spaces.MultiBinary) and flat.size == math.prod(space.shape):
        # As Gymnasium has it: 0 and 1 are the only values of a bit that are allowed, 2 stands for both.
        return np.stack([flat != 1, flat != 0], 1).ravel()
    return flat
