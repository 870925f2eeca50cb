"""One behaviour's agents as PettingZoo knows agents: their spaces, and who has come and gone."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from mlagents_envs.base_env import ActionTuple
from numpy.typing import NDArray

from ..python.action_masks import ACTION_MASK
from .actions import Actions
from .crew import Crew
from .views import sensor_view

OBSERVATION = "observation"


class Company:
    """A crew whose agents are gone when their episode has ended, until all begin anew."""

    def __init__(self, crew: Crew) -> None:
        """Nobody lives yet.

        Raises:
            UnityGymException: There is nothing to see or to do.
        """
        self.crew = crew
        self.actions = Actions(crew.spec.action_spec)
        self.names: list[str] = []
        self.lives: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[slots] The agent's episode goes on."""
        self.gone: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[slots] The agent's episode has ended; whoever holds its slot now is not shown."""
        self._view = sensor_view(crew.spec.observation_specs)
        spec = crew.spec.action_spec
        self._masked = bool(spec.discrete_branches) and not spec.continuous_size
        """The mask is a part of the observation. One beside continuous actions is in the info: it has None
        for these, which no space holds."""

    def begin(self) -> None:
        """All episodes begin anew."""
        self.lives[:] = self.gone[:] = False

    def introduce(self) -> list[str]:
        """The names of slots that are new."""
        new = [f"{self.crew.name}?agent_id={slot}" for slot in range(len(self.names), len(self.crew))]
        self.names += new
        nobody = np.zeros(len(new), np.bool_)
        self.lives, self.gone = np.append(self.lives, nobody), np.append(self.gone, nobody)
        return new

    def admit(self) -> None:
        """Let those live whose slots have found a holder."""
        self.lives = self.lives | (self.crew.asks & ~self.gone)

    def ended(self) -> NDArray[np.bool_]:
        """[slots] The agents who lived until this step."""
        return self.lives & (self.crew.terminated | self.crew.truncated)

    def bury(self) -> None:
        """Those who lived until this step are gone."""
        over = self.ended()
        self.lives, self.gone = self.lives & ~over, self.gone | over

    def anything_new(self) -> bool:
        """Whether there is a newcomer, or something to tell of the living or to ask them."""
        if len(self.names) < len(self.crew):
            return True
        return bool((self.ended() | (self.crew.asks & ~self.gone)).any())

    def nothing(self) -> ActionTuple:
        """Zeros for every slot."""
        action: ActionTuple = self.crew.spec.action_spec.empty_action(len(self.crew))
        return action

    def observation_space(self) -> Any:
        """What an agent sees: a Box, or a Dict of the sensors by their names where there are several.

        With branches, but no continuous actions, a Dict of that as `observation`, and `action_mask`: int8,
        1 where an action is allowed, [size], or a Tuple of such where there are several branches.
        """
        if not self._masked:
            return self._view.space
        sizes = self.crew.spec.action_spec.discrete_branches
        masks = [spaces.Box(0, 1, (size,), np.int8) for size in sizes]
        mask = masks[0] if len(masks) == 1 else spaces.Tuple(masks)
        return spaces.Dict({OBSERVATION: self._view.space, ACTION_MASK: mask})

    def observations(self, slots: NDArray[np.intp]) -> list[Any]:
        """What the agents of some slots see, or saw at the end of their episode."""
        obs = self._with_ends()
        told = self._view.of([array[slots] for array in obs])
        rows = [self._view.row(told, row) for row in range(len(slots))]
        if not self._masked:
            return rows
        return [{OBSERVATION: row, ACTION_MASK: self._mask(slot)} for row, slot in zip(rows, slots)]

    def info(self, slot: int) -> dict[str, Any]:
        """What else is known of a slot's agent."""
        crew = self.crew
        over = bool(self.ended()[slot])
        told: dict[str, Any] = {
            "behavior_name": crew.name,
            "agent_id": self._last_holder(slot) if over else int(crew.slots.holders[slot]),
            "group_id": max(0, int(crew.slots.groups[slot])),
            "group_reward": float(crew.group_reward[slot]),
            "asks": bool(crew.asks[slot]) and not over,
        }
        if over:
            told["interrupted"] = bool(crew.truncated[slot])
        elif crew.forbidden and not self._masked:
            told["action_mask"] = self._mask(slot)
        return told

    def _last_holder(self, slot: int) -> int:
        """The id of the agent whose episode has ended in this step."""
        ids = [ended.agent_id[ended.slots == slot] for ended in self.crew.ended]
        return int(np.concatenate(ids)[0])

    def _with_ends(self) -> list[NDArray[Any]]:
        """[n, *shape] per sensor, with what was seen at the end instead of what the next episode shows."""
        over = self.ended()
        obs = self.crew.obs
        if not over.any():
            return obs
        obs = [array.copy() for array in obs]
        for ended in self.crew.ended:
            shown = over[ended.slots]
            for array, last in zip(obs, ended.obs):
                array[ended.slots[shown]] = last[shown]
        return obs

    def _mask(self, slot: int) -> Any:
        """All is allowed where an episode has ended."""
        over = self.ended()[slot]
        closed = [np.zeros_like(mask[slot]) if over else mask[slot] for mask in self.crew.forbidden]
        return self.actions.mask(closed)
