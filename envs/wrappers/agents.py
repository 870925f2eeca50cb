"""The agents of one behaviour by their slots: what they see, have got, and whether they wait.

Places that stay, for agents whose ids do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..base import BehaviorSteps, ObsArray

VACANT = -1
"""Where an agent's id would be: nobody. Engines count from 0."""

SlotNumbers = NDArray[np.intp]
_NOBODY: SlotNumbers = np.zeros(0, np.intp)


class Slots:
    """Which agent of a behaviour holds which slot; numbers from 0, as many as there were agents at once.

    An engine gives an agent a new id with every episode, or the same again, and does not say whose successor
    it is. Who appears takes a free slot: the one that it held before, else one that somebody of its group has
    left, else one that anybody has left, else one that nobody has had yet; several go by their ids.
    """

    def __init__(self) -> None:
        self.holders: NDArray[np.int64] = np.zeros(0, np.int64)
        """[n] The engine's ids; VACANT where nobody is."""
        self.groups: NDArray[np.int64] = np.zeros(0, np.int64)
        """[n] The group of whoever holds a slot or held it last; 0 is none, VACANT where nobody was."""
        self._former: NDArray[np.int64] = np.zeros(0, np.int64)
        self._slot_of: dict[int, int] = {}
        self._seated = (np.zeros(0, np.int64), _NOBODY)
        """What `seat` was asked last, and its answer, until something changes: most steps tell the same."""

    def __len__(self) -> int:
        return len(self.holders)

    def clear(self) -> None:
        """Nobody holds a slot, and nobody did: the engine begins anew. The slots remain."""
        for array in (self.holders, self.groups, self._former):
            array[:] = VACANT
        self._slot_of.clear()
        self._forget()

    def reserve(self, size: int) -> None:
        """Have at least so many slots."""
        more = np.full(max(0, size - len(self)), VACANT, np.int64)
        self.holders = np.append(self.holders, more)
        self.groups = np.append(self.groups, more)
        self._former = np.append(self._former, more)

    def leave(self, agents: NDArray[np.integer]) -> SlotNumbers:
        """Free the slots of agents whose episodes have ended.

        Args:
            agents: [k] ids.

        Returns:
            [k] the slots that they held; VACANT for those who held none.
        """
        slots = np.array([self._slot_of.pop(int(agent), VACANT) for agent in agents], np.intp)
        self.holders[slots[slots != VACANT]] = VACANT
        if len(slots):
            self._forget()
        return slots

    def seat(
        self, agents: NDArray[np.integer], groups: NDArray[np.integer]
    ) -> tuple[SlotNumbers, SlotNumbers]:
        """Find the slots of agents, and give one to those who have none; where all are taken, a new one.

        Args:
            agents: [k] ids.
            groups: [k] their groups.

        Returns:
            [k] their slots, and those of them whose agents had none.
        """
        asked, answer = self._seated
        if np.array_equal(asked, agents):
            return answer, _NOBODY
        new = [row for row, agent in enumerate(agents) if int(agent) not in self._slot_of]
        for row in sorted(new, key=lambda row: int(agents[row])):
            self._admit(int(agents[row]), int(groups[row]))
        slots = np.array([self._slot_of[int(agent)] for agent in agents], np.intp)
        self._seated = (np.array(agents, np.int64), slots)
        return slots, slots[new]

    def _admit(self, agent: int, group: int) -> None:
        free = np.flatnonzero(self.holders == VACANT)
        if not len(free):
            free = np.array([len(self)])
            self.reserve(len(self) + 1)
        former = self._former[free]
        # The last key decides first; equal ones go by their numbers.
        slot = int(free[np.lexsort((former == VACANT, self.groups[free] != group, former != agent))[0]])
        self.holders[slot] = self._former[slot] = agent
        self.groups[slot] = group
        self._slot_of[agent] = slot

    def _forget(self) -> None:
        self._seated = (np.zeros(0, np.int64), _NOBODY)


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
