"""Places that stay, for agents whose ids do not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
