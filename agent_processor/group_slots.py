"""Assigns the members of groups to slots, which order the inputs of a centralized critic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .agent_table import Slots
from .blocks import Rows

Ints = NDArray[np.int64]


class GroupSlotsFullError(ValueError):
    """A group has more members than there are slots."""


class GroupSlots:
    """A table [roster, place] of the newest rows of every group's members, -1 for none.

    A member gets the lowest free place with its first decision in the group. When its episode ends, the place
    stays empty and is not reassigned. A group without living members is over, and its id may be reused for a
    new one. An agent without a group has a roster of its own, with place 0.

    An interrupted episode does not terminate: the row of its last observation keeps the place until `settle`.
    """

    def __init__(self, behavior_id: str, places: int) -> None:
        self._behavior_id = behavior_id
        self.places = places
        self._table: Rows = np.full((4, places), -1, dtype=np.int64)
        self._slots = np.zeros((4, places), dtype=np.intp)
        """The agents' slots of the rows; arbitrary where there is no row."""
        self._taken = np.zeros((4, places), dtype=bool)
        self._living = np.zeros(4, dtype=np.int64)
        self._free = [3, 2, 1, 0]
        self._by_key: dict[tuple[int, int, int], int] = {}
        self._keys: dict[int, tuple[int, int, int]] = {}
        self._over: list[int] = []
        """Groups without living members, until `settle`."""
        self._last: list[tuple[int, int]] = []
        """Roster and place of rows of last observations, until `settle`."""
        self._id = np.zeros(0, dtype=np.int64)  # per slot: the group, as the engine numbers it,
        self._roster = np.full(0, -1, dtype=np.int64)  # its roster; -1: none yet,
        self._place = np.zeros(0, dtype=np.int64)  # and the place there

    def seat(self, env: int, slots: Slots, group_ids: NDArray[np.int32], rows: Rows | range) -> Rows:
        """Record that these agents [n] of one environment began `rows`; returns their rosters [n, places].

        Raises:
            GroupSlotsFullError: there is no place left for an agent.
        """
        self._reserve(int(slots.max()) + 1)
        strangers = (self._roster[slots] < 0) | (self._id[slots] != group_ids)
        for i in np.flatnonzero(strangers).tolist():
            self._join(env, int(slots[i]), int(group_ids[i]))
        rosters = self._roster[slots]
        self._table[rosters, self._place[slots]] = np.asarray(rows)
        self._slots[rosters, self._place[slots]] = slots
        seated: Rows = self._table[rosters]
        if self._last:  # what the interrupted saw last follows their own steps, and stands beside no others
            seated[np.isin(seated, self._table[tuple(np.array(self._last).T)])] = -1
        return seated

    def leave(self, slots: Slots, last_rows: Rows | None = None) -> None:
        """Record that these agents' episodes are over.

        `last_rows`: [n] the rows of the last observations of interrupted episodes, else -1.
        """
        if not len(self._roster):
            return
        for i, slot in enumerate(slots.tolist()):
            if slot < len(self._roster) and self._roster[slot] >= 0:
                self._part(slot, -1 if last_rows is None else int(last_rows[i]))

    def roster_of(self, slots: Slots) -> Ints:
        """[n] the number of each agent's roster, valid for `newest` until `settle`."""
        numbers: Ints = self._roster[slots]
        return numbers

    def place_of(self, slots: Slots) -> Ints:
        """[n] the places of agents that have decided."""
        places: Ints = self._place[slots]
        return places

    def newest(self, rosters: Ints) -> tuple[Rows, Slots]:
        """[n, places] each: the newest rows in these rosters, and their agents' slots, arbitrary for none."""
        return self._table[rosters], self._slots[rosters]

    def settle(self) -> None:
        """Finish the step: remove interrupted agents, and release the numbers of rosters that are over."""
        for roster, place in self._last:
            self._table[roster, place] = -1
        for roster in self._over:
            self._taken[roster] = False
            self._free.append(roster)
        self._last, self._over = [], []

    def referenced_rows(self) -> Rows:
        """The rows that rosters hold."""
        return self._table[self._table >= 0]

    def _join(self, env: int, slot: int, group_id: int) -> None:
        if self._roster[slot] >= 0:  # the agent changes its group
            self._part(slot, -1)
        alone = slot if group_id <= 0 else -1
        roster = self._find_or_found((env, group_id, alone))
        place = int(self._taken[roster].argmin())
        if self._taken[roster, place]:
            raise GroupSlotsFullError(
                f"{self._behavior_id}: group {group_id} of environment {env} has more than {self.places} "
                "members in one episode, those that have left it counted; raise "
                f"hyperparameters.max_num_agents, which is {self.places}."
            )
        self._taken[roster, place] = True
        self._living[roster] += 1
        self._id[slot], self._roster[slot], self._place[slot] = group_id, roster, place

    def _part(self, slot: int, last_row: int) -> None:
        roster, place = int(self._roster[slot]), int(self._place[slot])
        self._table[roster, place] = last_row
        if last_row >= 0:
            self._last.append((roster, place))
        self._roster[slot] = -1
        self._living[roster] -= 1
        if self._living[roster] == 0:
            del self._by_key[self._keys.pop(roster)]
            self._over.append(roster)

    def _find_or_found(self, key: tuple[int, int, int]) -> int:
        roster = self._by_key.get(key)
        if roster is None:
            if not self._free:
                n = len(self._living)
                self._table = np.concatenate([self._table, np.full_like(self._table, -1)])
                self._slots = np.concatenate([self._slots, np.zeros_like(self._slots)])
                self._taken = np.concatenate([self._taken, np.zeros_like(self._taken)])
                self._living = np.concatenate([self._living, np.zeros_like(self._living)])
                self._free = list(range(2 * n - 1, n - 1, -1))
            roster = self._by_key[key] = self._free.pop()
            self._keys[roster] = key
        return roster

    def _reserve(self, slots: int) -> None:
        more = slots - len(self._roster)
        if more > 0:
            more = max(more, len(self._roster))
            self._id = np.concatenate([self._id, np.zeros(more, dtype=np.int64)])
            self._roster = np.concatenate([self._roster, np.full(more, -1, dtype=np.int64)])
            self._place = np.concatenate([self._place, np.zeros(more, dtype=np.int64)])
