"""Policies that differ by the agents' slots in their group, as COMA's may, acting together as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mlagents_envs.base_env import ActionTuple, DecisionSteps
from numpy.typing import NDArray

from ....envs.base import BehaviorId
from .loaded_policy import LoadError, PlayablePolicy

_Key = tuple[BehaviorId, int]
"""A behavior id, and the id that an agent or group has in it."""


class SlotPolicies:
    """A `PlayablePolicy` of one policy per slot.

    Slots are given as in training: a member gets the lowest free one with its first decision in the group.
    When its episode ends the slot stays empty, until no member is left. An agent without a group has slot 0.
    """

    def __init__(self, policies: Sequence[PlayablePolicy]) -> None:
        """`policies`: by slot; they read and do the same."""
        self._policies = policies
        self.continuous_size = policies[0].continuous_size
        self.branches = policies[0].branches
        self.memory_size = policies[0].memory_size
        self._taken: dict[_Key, set[int]] = {}
        """The slots that were given in each group that is not over."""
        self._members: dict[_Key, set[_Key]] = {}
        self._seats: dict[_Key, tuple[_Key, int]] = {}
        """Group and slot of the members."""

    @property
    def has_deterministic(self) -> bool:
        """Whether all can choose the likeliest actions."""
        return all(policy.has_deterministic for policy in self._policies)

    @property
    def observations(self) -> Mapping[int, tuple[int | None, ...]]:
        """The observations that they read: position -> shape (None: any size)."""
        return self._policies[0].observations

    def act(
        self, steps: DecisionSteps, deterministic: bool = False, behavior_id: BehaviorId = ""
    ) -> ActionTuple:
        """Decide for these agents.

        Raises:
            LoadError: a group has more members than there are slots.
        """
        members = zip(steps.agent_id.tolist(), steps.group_id.tolist(), strict=True)
        slots = np.array([self._slot((behavior_id, agent), group) for agent, group in members])
        actions = ActionTuple(
            np.zeros((len(steps), self.continuous_size), np.float32),
            np.zeros((len(steps), len(self.branches)), np.int32),
        )
        for slot in np.unique(slots).tolist():
            rows = np.flatnonzero(slots == slot)
            own = self._policies[slot].act(_select(steps, rows), deterministic, behavior_id)
            actions.continuous[rows], actions.discrete[rows] = own.continuous, own.discrete
        return actions

    def reset_agents(self, agent_ids: NDArray[np.int32], behavior_id: BehaviorId = "") -> None:
        """Drop the memories of these agents, and let them leave their groups."""
        for policy in self._policies:
            policy.reset_agents(agent_ids, behavior_id)
        for agent in agent_ids.tolist():
            self._leave((behavior_id, agent))

    def _slot(self, agent: _Key, group_id: int) -> int:
        if group_id <= 0:
            return 0
        group = agent[0], group_id
        if agent in self._seats and self._seats[agent][0] != group:
            self._leave(agent)
        if agent not in self._seats:
            taken = self._taken.setdefault(group, set())
            slot = next((slot for slot in range(len(self._policies)) if slot not in taken), None)
            if slot is None:
                raise LoadError(
                    f"A group has more than {len(self._policies)} members in one episode, those that have "
                    "left it counted; the models are for so many (hyperparameters.max_num_agents)"
                )
            taken.add(slot)
            self._members.setdefault(group, set()).add(agent)
            self._seats[agent] = group, slot
        return self._seats[agent][1]

    def _leave(self, agent: _Key) -> None:
        if agent not in self._seats:
            return
        group, _ = self._seats.pop(agent)
        self._members[group].discard(agent)
        if not self._members[group]:
            del self._members[group], self._taken[group]


def _select(steps: DecisionSteps, rows: NDArray[np.intp]) -> DecisionSteps:
    """The rows of some agents."""
    mask = None if steps.action_mask is None else [branch[rows] for branch in steps.action_mask]
    return DecisionSteps(
        [obs[rows] for obs in steps.obs],
        steps.reward[rows],
        steps.agent_id[rows],
        mask,
        steps.group_id[rows],
        steps.group_reward[rows],
    )
