"""Actions as Gymnasium spaces, and the conversion of their values."""

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


class FlatActionConverter:
    """Continuous actions and branches as one Box from -1 to 1, for learners that know no mix of both.

    First the continuous actions, then a number for each choice of each branch: of a branch's choices that are
    allowed, that with the largest number is taken, the first of equal ones.
    """

    def __init__(self, spec: ActionSpec) -> None:
        """Make the space."""
        self.spec = spec
        size = spec.continuous_size + sum(spec.discrete_branches)
        self._numbers = ActionConverter(ActionSpec.create_continuous(size))
        self.space = self._numbers.space

    def convert(
        self, actions: Any, agents: int, forbidden: Sequence[NDArray[np.bool_]] | None = None
    ) -> ActionTuple:
        """Convert the actions of n agents to [n, continuous] and [n, branches].

        Args:
            actions: [n, size of the space].
            agents: n.
            forbidden: [n, size] per branch, True for choices that are not allowed; None: all are.

        Raises:
            UnityGymException: The shape or dtype is wrong, or a value is not finite.
        """
        numbers = self._numbers.convert(actions, agents).continuous
        branches = self.spec.discrete_branches
        chosen = np.zeros((agents, len(branches)), np.int32)
        at = self.spec.continuous_size
        for index, size in enumerate(branches):
            scores = numbers[:, at : at + size]
            if forbidden:
                scores = np.where(forbidden[index], -np.inf, scores)
            chosen[:, index] = scores.argmax(axis=1)
            at += size
        return ActionTuple(numbers[:, : self.spec.continuous_size], chosen)


def flat_converter(spec: ActionSpec, flatten_branched: bool) -> FlatActionConverter:
    """The converter for `flatten_actions`.

    Raises:
        UnityGymException: There are no actions, or `flatten_branched` asks for another space.
    """
    if flatten_branched:
        raise UnityGymException(
            "flatten_branched makes one Discrete of the actions, flatten_actions one Box: give one of them."
        )
    return FlatActionConverter(spec)
