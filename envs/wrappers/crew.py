"""The agents of one behaviour by their slots: what they see, have got, and whether they wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..steps import BehaviorSteps, ObsArray
from .slots import VACANT, SlotNumbers, Slots


@dataclass(frozen=True, slots=True)
class Ended:
    """Episodes that ended within one step, k of them."""

    slots: SlotNumbers
    """[k] whose they were."""
    agent_id: NDArray[np.int64]
    """[k] the engine's ids, which are over."""
    obs: list[ObsArray]
    """[k, *shape] per sensor: what was seen last."""


class Crew:
    """One behaviour's slots, n of them, and what an engine has told of them since the step began.

    A slot's observation is what its agent saw when it was asked last; when an episode has ended and the next
    one has not begun, what was seen at its end.
    """

    def __init__(self, name: str, spec: BehaviorSpec) -> None:
        """Nobody holds a slot yet.

        Args:
            name: The engine's full name of the behaviour, such as `3DBall?team=0`.
            spec: What its agents see and do.
        """
        self.name = name
        self.spec = spec
        self.slots = Slots()
        self.obs: list[ObsArray] = [np.zeros((0, *s.shape), np.float32) for s in spec.observation_specs]
        """[n, *shape] per sensor; what was handed out is not written to again."""
        self.forbidden: list[NDArray[np.bool_]] = [
            np.zeros((0, size), np.bool_) for size in spec.action_spec.discrete_branches
        ]
        """[n, size] per branch: True where an action is not allowed."""
        self._order: SlotNumbers = np.zeros(0, np.intp)
        """The slots of the last DecisionSteps, row for row."""
        self.begin()

    def __len__(self) -> int:
        return len(self.slots)

    def begin(self) -> None:
        """A step begins: nothing has been told in it yet."""
        size = len(self)
        self.reward: NDArray[np.float32] = np.zeros(size, np.float32)
        """[n] since the step began; what was got before the first action of an episode is not counted."""
        self.group_reward: NDArray[np.float32] = np.zeros(size, np.float32)
        """[n] likewise."""
        self.asks: NDArray[np.bool_] = np.zeros(size, np.bool_)
        """[n] Waits for an action."""
        self.terminated: NDArray[np.bool_] = np.zeros(size, np.bool_)
        """[n] An episode has ended in this step."""
        self.truncated: NDArray[np.bool_] = np.zeros(size, np.bool_)
        """[n] An episode was interrupted in this step, as by a limit of steps."""
        self.ended: list[Ended] = []
        self._written = False

    def clear(self) -> None:
        """The engine begins anew: all episodes are over without a word."""
        self.slots.clear()
        self._order = np.zeros(0, np.intp)
        self.obs = [np.zeros_like(array) for array in self.obs]
        self.forbidden = [np.zeros_like(mask) for mask in self.forbidden]
        self.begin()

    def reserve(self, size: int) -> None:
        """Have at least so many slots, vacant ones where there are no agents yet."""
        self.slots.reserve(size)
        self._grow(len(self.slots))

    def take(self, steps: BehaviorSteps) -> None:
        """Take in what the engine has told of this behaviour: first who ended, then who waits."""
        decisions, terminals = steps
        if len(terminals):
            self._end(terminals)
        self._ask(decisions)

    def rows(self, action: ActionTuple) -> ActionTuple | None:
        """Those rows of an action per slot that belong to whoever waits, in the engine's order.

        Args:
            action: [n, continuous] and [n, branches].

        Returns:
            [k, continuous] and [k, branches] for the k that wait; None where nobody does.
        """
        if not len(self._order):
            return None
        return ActionTuple(action.continuous[self._order], action.discrete[self._order])

    def _end(self, terminals: TerminalSteps) -> None:
        slots = self.slots.leave(terminals.agent_id)
        known = slots != VACANT  # the others ended before they were asked for anything
        slots = slots[known]
        if not len(slots):
            return
        self.reward[slots] += terminals.reward[known]
        self.group_reward[slots] += terminals.group_reward[known]
        interrupted = np.asarray(terminals.interrupted, np.bool_)[known]
        self.terminated[slots] = ~interrupted
        self.truncated[slots] = interrupted
        self.asks[slots] = False
        obs = [np.asarray(array)[known] for array in terminals.obs]
        self.ended.append(Ended(slots, np.asarray(terminals.agent_id, np.int64)[known], obs))
        self._write(slots, obs)

    def _ask(self, decisions: DecisionSteps) -> None:
        self._order, new = self.slots.seat(decisions.agent_id, np.asarray(decisions.group_id))
        slots = self._order
        if not len(slots):
            return
        self._grow(len(self.slots))
        acted = ~np.isin(slots, new) if len(new) else np.ones(len(slots), np.bool_)
        self.reward[slots] += np.where(acted, decisions.reward, 0)
        self.group_reward[slots] += np.where(acted, decisions.group_reward, 0)
        self.asks[slots] = True
        self._write(slots, decisions.obs)
        masks = decisions.action_mask
        self.forbidden = [mask.copy() for mask in self.forbidden]
        for branch, mask in enumerate(self.forbidden):
            mask[slots] = False if masks is None else masks[branch]

    def _write(self, slots: SlotNumbers, obs: list[ObsArray]) -> None:
        for index, told in enumerate(obs):
            array = self.obs[index]
            if array.dtype != told.dtype and len(told):  # pictures that come as bytes
                self.obs[index] = array.astype(told.dtype)
            elif not self._written:
                self.obs[index] = array.copy()
            self.obs[index][slots] = told
        self._written = True

    def _grow(self, size: int) -> None:
        more = size - len(self.asks)
        if not more:
            return
        for name in ("reward", "group_reward", "asks", "terminated", "truncated"):
            setattr(self, name, _longer(getattr(self, name), more))
        self.obs = [_longer(array, more) for array in self.obs]
        self.forbidden = [_longer(mask, more) for mask in self.forbidden]


def _longer(array: NDArray[Any], more: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])
