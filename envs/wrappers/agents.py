"""One behavior's agents in fixed slots: observations, rewards, and which agents request a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..base import BehaviorSteps, ObsArray

VACANT = -1
"""The value in place of an agent's id where the slot is empty. Engines count from 0."""

SlotNumbers = NDArray[np.intp]
_NONE: SlotNumbers = np.zeros(0, np.intp)


class SlotAssignment:
    """Assigns a behavior's agents to slots, numbered from 0; there are as many as there were agents at once.

    An engine gives an agent a new id with every episode, or the same again, and does not say which former
    agent it continues. A new agent takes a free slot: the one that it held before, else one last held by its
    group, else one last held by another agent, else one never used; several new agents go by their ids.
    """

    def __init__(self) -> None:
        self.holders: NDArray[np.int64] = np.zeros(0, np.int64)
        """[n] The engine's ids; VACANT for an empty slot."""
        self.groups: NDArray[np.int64] = np.zeros(0, np.int64)
        """[n] The group of the slot's current or last agent; 0 is none, VACANT for a slot never used."""
        self._former: NDArray[np.int64] = np.zeros(0, np.int64)
        self._slot_of: dict[int, int] = {}
        self._last_assignment = (np.zeros(0, np.int64), _NONE)
        """The last arguments and result of `assign`, until something changes: most steps repeat them."""

    def __len__(self) -> int:
        return len(self.holders)

    def clear(self) -> None:
        """Empty all slots and their history, as the engine resets. The slots remain."""
        for array in (self.holders, self.groups, self._former):
            array[:] = VACANT
        self._slot_of.clear()
        self._drop_last_assignment()

    def reserve(self, size: int) -> None:
        """Have at least `size` slots."""
        more = np.full(max(0, size - len(self)), VACANT, np.int64)
        self.holders = np.append(self.holders, more)
        self.groups = np.append(self.groups, more)
        self._former = np.append(self._former, more)

    def release(self, agents: NDArray[np.integer]) -> SlotNumbers:
        """Free the slots of agents whose episodes have ended.

        Args:
            agents: [k] ids.

        Returns:
            [k] the slots that they held; VACANT for agents that held none.
        """
        slots = np.array([self._slot_of.pop(int(agent), VACANT) for agent in agents], np.intp)
        self.holders[slots[slots != VACANT]] = VACANT
        if len(slots):
            self._drop_last_assignment()
        return slots

    def assign(
        self, agents: NDArray[np.integer], groups: NDArray[np.integer]
    ) -> tuple[SlotNumbers, SlotNumbers]:
        """Look up the slots of agents, and assign one to those without; if all are taken, a new one.

        Args:
            agents: [k] ids.
            groups: [k] their groups.

        Returns:
            [k] their slots, and the newly assigned ones among them.
        """
        known, slots = self._last_assignment
        if np.array_equal(known, agents):
            self.groups[slots] = groups
            return slots, _NONE
        new = [row for row, agent in enumerate(agents) if int(agent) not in self._slot_of]
        for row in sorted(new, key=lambda row: int(agents[row])):
            self._assign_new(int(agents[row]), int(groups[row]))
        slots = np.array([self._slot_of[int(agent)] for agent in agents], np.intp)
        self.groups[slots] = groups
        self._last_assignment = (np.array(agents, np.int64), slots)
        return slots, slots[new]

    def _assign_new(self, agent: int, group: int) -> None:
        free = np.flatnonzero(self.holders == VACANT)
        if not len(free):
            free = np.array([len(self)])
            self.reserve(len(self) + 1)
        former = self._former[free]
        # lexsort: the last key is the primary one; ties go by slot number.
        slot = int(free[np.lexsort((former == VACANT, self.groups[free] != group, former != agent))[0]])
        self.holders[slot] = self._former[slot] = agent
        self.groups[slot] = group
        self._slot_of[agent] = slot

    def _drop_last_assignment(self) -> None:
        self._last_assignment = (np.zeros(0, np.int64), _NONE)


@dataclass(frozen=True, slots=True)
class FinalSteps:
    """Episodes that ended within one step, k of them."""

    slots: SlotNumbers
    """[k] The slots of their agents."""
    agent_id: NDArray[np.int64]
    """[k] The engine's ids, which are no longer in use."""
    obs: list[ObsArray]
    """[k, *shape] The final observations per sensor."""


class SlottedAgents:
    """One behavior's n slots, and what the engine has reported about them since the step started.

    A slot's observation is that of its agent's last decision request; after an episode, until the next one
    starts, the final observation.
    """

    def __init__(self, name: str, spec: BehaviorSpec) -> None:
        """Start with all slots empty.

        Args:
            name: The engine's full name of the behavior, such as `3DBall?team=0`.
            spec: Its observations and actions.
        """
        self.name = name
        self.spec = spec
        self.slots = SlotAssignment()
        self.obs: list[ObsArray] = [np.zeros((0, *s.shape), np.float32) for s in spec.observation_specs]
        """[n, *shape] The observations per sensor; arrays that were handed out are not written to again."""
        self.forbidden: list[NDArray[np.bool_]] = [
            np.zeros((0, size), np.bool_) for size in spec.action_spec.discrete_branches
        ]
        """[n, size] The action masks per branch: True for actions that are not allowed."""
        self._order: SlotNumbers = np.zeros(0, np.intp)
        """The slots of the last DecisionSteps, row for row."""
        self.start_step()

    def __len__(self) -> int:
        return len(self.slots)

    def start_step(self) -> None:
        """Start a step: reset what is counted per step."""
        size = len(self)
        self.reward: NDArray[np.float32] = np.zeros(size, np.float32)
        """[n] The reward since the step started; rewards before an episode's first action are not counted."""
        self.group_reward: NDArray[np.float32] = np.zeros(size, np.float32)
        """[n] The group's reward, counted like `reward`."""
        self.asks: NDArray[np.bool_] = np.zeros(size, np.bool_)
        """[n] Whether the agent requests a decision."""
        self.terminated: NDArray[np.bool_] = np.zeros(size, np.bool_)
        """[n] Whether an episode has ended in this step."""
        self.truncated: NDArray[np.bool_] = np.zeros(size, np.bool_)
        """[n] Whether an episode was interrupted in this step, by a step limit for example."""
        self.ended: list[FinalSteps] = []
        self._written = False

    def clear(self) -> None:
        """Empty all slots, as the engine resets: all episodes are over without a terminal step."""
        self.slots.clear()
        self._order = np.zeros(0, np.intp)
        self.obs = [np.zeros_like(array) for array in self.obs]
        self.forbidden = [np.zeros_like(mask) for mask in self.forbidden]
        self.start_step()

    def reserve(self, size: int) -> None:
        """Have at least `size` slots; the new ones are empty."""
        self.slots.reserve(size)
        self._grow(len(self.slots))

    def update(self, steps: BehaviorSteps) -> None:
        """Take in a message's steps: first the episodes that ended, then the decision requests."""
        decisions, terminals = steps
        if len(terminals):
            self._end(terminals)
        self._request(decisions)

    def select_requested(self, action: ActionTuple) -> ActionTuple | None:
        """Select the rows of the agents that request a decision, in the engine's order.

        Args:
            action: [n, continuous] and [n, branches].

        Returns:
            [k, continuous] and [k, branches] for the k requests; None if there are none.
        """
        if not len(self._order):
            return None
        return ActionTuple(action.continuous[self._order], action.discrete[self._order])

    def _end(self, terminals: TerminalSteps) -> None:
        slots = self.slots.release(terminals.agent_id)
        known = slots != VACANT  # the others ended before their first decision request
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
        self.ended.append(FinalSteps(slots, np.asarray(terminals.agent_id, np.int64)[known], obs))
        self._write(slots, obs)

    def _request(self, decisions: DecisionSteps) -> None:
        self._order, new = self.slots.assign(decisions.agent_id, np.asarray(decisions.group_id))
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
        for index, values in enumerate(obs):
            array = self.obs[index]
            if array.dtype != values.dtype and len(values):  # images that arrive as bytes
                self.obs[index] = array.astype(values.dtype)
            elif not self._written:
                self.obs[index] = array.copy()
            self.obs[index][slots] = values
        self._written = True

    def _grow(self, size: int) -> None:
        more = size - len(self.asks)
        if not more:
            return
        for name in ("reward", "group_reward", "asks", "terminated", "truncated"):
            setattr(self, name, _extended(getattr(self, name), more))
        self.obs = [_extended(array, more) for array in self.obs]
        self.forbidden = [_extended(mask, more) for mask in self.forbidden]


def _extended(array: NDArray[Any], more: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])
