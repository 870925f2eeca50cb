"""What agents can do, as spaces of Gymnasium, and values of these as an engine takes them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ActionSpec, ActionTuple
from numpy.typing import NDArray

from .errors import UnityGymException, invalid_action

logger = logging.getLogger(__name__)


class Actions:
    """A behaviour's actions as a space.

    Continuous ones are a Box from -1 to 1, float32; one branch is Discrete, several MultiDiscrete, or
    Discrete over all their combinations, the last branch's number changing fastest; both kinds are a Tuple.
    """

    def __init__(self, spec: ActionSpec, flatten_branched: bool = False) -> None:
        """Make the space.

        Args:
            spec: The behaviour's.
            flatten_branched: Several branches are one Discrete.

        Raises:
            UnityGymException: There are no actions, or combinations are asked for beside continuous ones.
        """
        self.spec = spec
        self._combinations: NDArray[np.int32] | None = None
        branches = spec.discrete_branches
        if flatten_branched and not branches:
            logger.warning("flatten_branched has no effect: the actions are continuous.")
        if flatten_branched and branches and spec.continuous_size:
            raise UnityGymException(
                f"flatten_branched makes one Discrete of branches, but there are {spec.continuous_size} "
                f"continuous actions beside the branches {branches}. Leave it out, and actions are a Tuple."
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

    def one(self, action: Any, whose: str = "") -> ActionTuple:
        """The action of one agent, [1, continuous] and [1, branches]. Raises as `of`."""
        if len(self._parts) > 1:
            self._check_parts(action, whose)
            return self.of(tuple(self._array(part, whose)[None] for part in action), 1, whose)
        return self.of(self._array(action, whose)[None], 1, whose)

    def of(self, actions: Any, agents: int, whose: str = "") -> ActionTuple:
        """The actions of n agents, [n, continuous] and [n, branches].

        Args:
            actions: A value of the space, with n in front of every shape.
            agents: n.
            whose: For the message, such as ` of the agent 'Ball?team=0?agent_id=3'`.

        Raises:
            UnityGymException: A shape or kind is wrong, a branch has no such action, or a number is none.
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
        """An agent's allowed actions, in the form that the space's `sample` takes.

        Args:
            forbidden: [size] per branch, True where an action is not allowed.

        Returns:
            int8, 1 where an action is allowed: [size] for Discrete, a tuple of such for MultiDiscrete; in a
            Tuple, behind the None of the continuous actions. None where there are no branches.
        """
        if not len(forbidden):
            return None
        if self._combinations is not None:
            branches = self._combinations.T
            told: Any = ~np.any([closed[of] for closed, of in zip(forbidden, branches)], axis=0)
            told = told.astype(np.int8)
        else:
            told = tuple(np.logical_not(closed).astype(np.int8) for closed in forbidden)
            told = told if len(told) > 1 else told[0]
        return told if len(self._parts) == 1 else (None, told)

    def masks(self, forbidden: Sequence[NDArray[np.bool_]]) -> NDArray[np.int8]:
        """The same for n agents as one array int8 [n, sizes of all branches], or [n, combinations]."""
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
            why = f"a tuple of {len(self._parts)} is expected, the continuous actions first"
            raise invalid_action(action, self.space, why, whose)

    def _continuous(self, space: Any, value: NDArray[Any], agents: int, whose: str) -> NDArray[np.float32]:
        self._check_shape(space, value, (agents, *space.shape), whose)
        if value.dtype.kind not in "fiu":
            raise invalid_action(value, space, "it is no array of numbers", whose)
        if not np.isfinite(value).all():
            raise invalid_action(value, space, "NaN or an infinity is in it", whose)
        return value.astype(np.float32)

    def _discrete(self, space: Any, value: NDArray[Any], agents: int, whose: str) -> NDArray[np.int32]:
        self._check_shape(space, value, (agents, *space.shape), whose)
        if value.dtype.kind not in "iub":
            raise invalid_action(value, space, f"it is not whole numbers but {value.dtype}", whose)
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
            why = f"the shape {expected} is expected, found {found}"
            raise invalid_action(value[0] if one else value, space, why, whose)
