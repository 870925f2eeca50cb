"""The members of groups, whose rows trajectories list as teammates' and centralized critics read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .agent_table import Slots
from .blocks import Rows

Ints = NDArray[np.int64]

NO_GROUP = 0
"""The row in a table for agents without a group; it never has members."""

# Planes of the tables.
MEMBER, FINISHED, CURRENT, OVER = range(4)
NEWEST = 1


class GroupSlotsFullError(ValueError):
    """A group has more members than there are slots."""


class _Memberships(ABC):
    """A table [plane, group, place] of the members of every group, and each agent's place in it.

    Entries are -1 where there is no member. The plane `MEMBER` holds the members' slots. Groups are numbered
    by the table; a number is used again when its group is over.
    """

    ROW_PLANES: ClassVar[slice]
    """The planes that hold numbers of rows."""

    def __init__(self, planes: int, places: int) -> None:
        self._table = np.full((planes, 4, places), -1, dtype=np.int64)
        self._size = np.zeros(4, dtype=np.int64)
        """How many living members each group has."""
        self._by_key: dict[tuple[int, ...], int] = {}
        self._keys: dict[int, tuple[int, ...]] = {}
        self._free = [3, 2, 1]
        self._id = np.zeros(0, dtype=np.int64)  # per slot: the group it acts for, as the engine numbers it,
        self._group = np.zeros(0, dtype=np.int64)  # as this table numbers it,
        self._place = np.zeros(0, dtype=np.int64)  # and its place there; -1: not a member

    def referenced_rows(self) -> Rows:
        """The rows that the members of groups still need."""
        rows = self._table[self.ROW_PLANES]
        return rows[rows >= 0]

    def _join_all(
        self, env: int, slots: Slots, group_ids: NDArray[np.int32], may: NDArray[np.bool_] | bool
    ) -> None:
        """Make these agents [n], where `may` is True, members of their groups if they are not yet."""
        self._reserve(int(slots.max()) + 1)
        new = may & ((self._id[slots] != group_ids) | (self._place[slots] < 0))
        for i in np.flatnonzero(new).tolist():
            slot, group_id = int(slots[i]), int(group_ids[i])
            group, place = self._join(env, slot, group_id)
            self._table[MEMBER, group, place] = slot
            self._id[slot], self._group[slot], self._place[slot] = group_id, group, place

    @abstractmethod
    def _join(self, env: int, slot: int, group_id: int) -> tuple[int, int]:
        """The group and place of an agent that acts for this group from now on."""

    def _get_or_create(self, key: tuple[int, ...]) -> int:
        group = self._by_key.get(key)
        if group is None:
            if not self._free:
                n = len(self._size)
                self._table = np.concatenate([self._table, np.full_like(self._table, -1)], axis=1)
                self._size = np.concatenate([self._size, np.zeros_like(self._size)])
                self._free = list(range(2 * n - 1, n - 1, -1))
            group = self._by_key[key] = self._free.pop()
            self._keys[group] = key
        return group

    def _reserve(self, slots: int) -> None:
        """Grow the arrays with an entry per slot to this many slots."""
        more = slots - len(self._place)
        if more > 0:
            more = max(more, len(self._place))
            self._id = np.concatenate([self._id, np.zeros(more, dtype=np.int64)])
            self._group = np.concatenate([self._group, np.zeros(more, dtype=np.int64)])
            self._place = np.concatenate([self._place, np.full(more, -1, dtype=np.int64)])


def last_of_each(groups: Ints) -> list[bool]:
    """Whether an agent is the last one of its group among these [n]; False without a group."""
    numbers = groups.tolist()
    last = {group: i for i, group in enumerate(numbers)}
    return [group != NO_GROUP and last[group] == i for i, group in enumerate(numbers)]


class GroupTable(_Memberships):
    """The last finished step and the newest observation of each agent's teammates.

    Places are assigned in the order in which members finish their first step in the group, which is the order
    in which trajectories list teammates; when a member's episode ends, later places move up. A member that
    meanwhile acts for another group keeps its last state in this one until its episode ends. Planes: the
    member's slot, the row it finished last, the row of its newest observation, and whether that finished step
    ended its episode (0 or 1). -1 where there is no member. An agent that has not finished a step yet is a
    pending member, listed apart: it has no place, but its teammates' trajectories continue with it.
    """

    ROW_PLANES = slice(FINISHED, OVER)

    def __init__(self) -> None:
        super().__init__(planes=4, places=1)
        self._elsewhere: dict[int, set[int]] = {}
        """The other groups of slots that are members of more than the group they act for."""
        self._pending: dict[tuple[int, ...], dict[int, int]] = {}
        """The pending members of each group: their slots, with the rows of their observations."""
        self._pending_group: dict[int, tuple[int, ...]] = {}
        """The group in which each of these slots is pending."""
        self.any = False
        """Whether there is, or has been, an agent with a group."""

    def record(
        self, env: int, slots: Slots, group_ids: NDArray[np.int32], rows: Rows, current: Rows, over: bool
    ) -> tuple[Ints, Ints]:
        """Record that these agents of one environment finished `rows` and now observe `current`, all [n].

        Returns each agent's group and place for the other methods. A group id of 0 means no group.
        """
        member = group_ids > 0
        self.any = True
        self.discard_pending(slots)
        self._join_all(env, slots, group_ids, member)
        groups, places = self._group[slots], self._place[slots]
        if member.all():
            self._write(groups, places, rows, current, over)
        else:
            self._write(groups[member], places[member], rows[member], current[member], over)
            groups[~member] = NO_GROUP
            places[~member] = 0
        return groups, places

    def places(self, slots: Slots) -> tuple[Ints, Ints]:
        """The groups and the places of these agents, [n] each, as when they last finished a step."""
        self._reserve(int(slots.max()) + 1)
        member = self._place[slots] >= 0
        return np.where(member, self._group[slots], NO_GROUP), np.where(member, self._place[slots], 0)

    def add_pending(self, env: int, slots: Slots, group_ids: NDArray[np.int32], rows: Rows) -> None:
        """Record that these agents [n] observe `rows`; those that are not members yet are pending ones."""
        self.any = True
        for slot, group_id, row in zip(slots.tolist(), group_ids.tolist(), rows.tolist(), strict=True):
            key = (env, group_id)
            if self._pending_group.get(slot, key) != key:
                self._discard_pending(slot)
            is_member = slot < len(self._place) and self._place[slot] >= 0 and self._id[slot] == group_id
            if group_id > 0 and not is_member:
                self._pending_group[slot] = key
                self._pending.setdefault(key, {})[slot] = row

    def pending_rows(self, groups: Ints) -> list[list[int]] | None:
        """The rows of the pending members of each of these groups [n]; None if no group has any."""
        if not self._pending:
            return None
        keys = [self._keys.get(group, (0, NO_GROUP)) for group in groups.tolist()]
        return [list(self._pending.get(key, {}).values()) for key in keys]

    def discard_pending(self, slots: Slots) -> None:
        """Record that these agents are no longer pending: they finished a step, or their episodes ended."""
        if self._pending:
            for slot in slots.tolist():
                self._discard_pending(slot)

    def _discard_pending(self, slot: int) -> None:
        key = self._pending_group.pop(slot, None)
        if key is not None:
            del self._pending[key][slot]
            if not self._pending[key]:
                del self._pending[key]

    def _write(self, groups: Ints, places: Ints, rows: Rows, current: Rows, over: bool) -> None:
        at = groups * self._table.shape[2] + places
        self._plane(FINISHED)[at] = rows
        self._plane(CURRENT)[at] = current
        self._plane(OVER)[at] = over

    def finished(self, groups: Ints, places: Ints) -> Rows:
        """The rows [n, M] that the other members of each agent's group finished last, padded with -1."""
        return self._take(FINISHED, groups, places)

    def current(self, groups: Ints, places: Ints) -> Rows:
        """The rows [n, M] of the other members' newest observations, padded with -1."""
        return self._take(CURRENT, groups, places)

    def all_over(self, groups: Ints, places: Ints) -> NDArray[np.bool_]:
        """Whether the episodes of all other members have ended [n]; True if there are none."""
        over: NDArray[np.bool_] = (self._take(OVER, groups, places) != 0).all(axis=1)
        return over

    def _plane(self, plane: int) -> Ints:
        view: Ints = self._table[plane].reshape(-1)
        return view

    def _take(self, plane: int, groups: Ints, places: Ints) -> Ints:
        """The entries [n, M] of a plane at all places of the group except the agent's own."""
        width = self._table.shape[2]
        columns = np.arange(width - 1)
        others = (groups * width)[:, None] + (columns + (columns >= places[:, None]))
        held: Ints = self._plane(plane)[others]
        return held

    def remove(self, slots: Slots) -> None:
        """Remove these agents, whose episodes are over, from every group."""
        self.discard_pending(slots)
        if not self.any:
            return
        known = slots[slots < len(self._place)]
        for slot in known[self._place[known] >= 0].tolist():
            for group in self._elsewhere.pop(slot, set()):
                self._leave(group, self._place_in(group, slot))
            self._leave(int(self._group[slot]), int(self._place[slot]))
            self._place[slot] = -1

    def _join(self, env: int, slot: int, group_id: int) -> tuple[int, int]:
        group = self._get_or_create((env, group_id))
        if self._place[slot] >= 0:
            self._elsewhere.setdefault(slot, set()).add(int(self._group[slot]))
        others = self._elsewhere.get(slot)
        if others is not None and group in others:  # the agent returns
            others.remove(group)
            return group, self._place_in(group, slot)
        place = int(self._size[group])
        if place == self._table.shape[2]:
            self._table = np.concatenate([self._table, np.full_like(self._table[:, :, :1], -1)], axis=2)
        self._size[group] += 1
        return group, place

    def _place_in(self, group: int, slot: int) -> int:
        return int(np.flatnonzero(self._table[MEMBER, group] == slot)[0])

    def _leave(self, group: int, place: int) -> None:
        """Remove a member and move up the later places; a group without members is deleted."""
        table, size = self._table, int(self._size[group])
        table[:, group, place : size - 1] = table[:, group, place + 1 : size]
        table[:, group, size - 1] = -1
        for moved in range(place, size - 1):
            mover = table[MEMBER, group, moved]
            if self._group[mover] == group:
                self._place[mover] = moved
        self._size[group] = size - 1
        if size == 1:
            del self._by_key[self._keys.pop(group)]
            self._free.append(group)


class GroupSlots(_Memberships):
    """The newest rows of the members of every group, at fixed places: the rosters of a centralized critic.

    A member gets the lowest free place with its first decision in the group. When its episode ends, the place
    stays empty and is not reassigned. A group without living members is over, and its id may be reused for a
    new one. An agent without a group has a roster of its own, with place 0. Planes: the member's slot, and
    its newest row, -1 when its episode has ended.

    An interrupted episode does not terminate: the row of its last observation keeps the place until `settle`.
    """

    ROW_PLANES = slice(NEWEST, NEWEST + 1)

    def __init__(self, behavior_id: str, places: int) -> None:
        super().__init__(planes=2, places=places)
        self._behavior_id = behavior_id
        self.places = places
        self._over: list[int] = []
        """The groups without living members, until `settle`."""
        self._last: list[tuple[int, int]] = []
        """The group and place of each row of a last observation, until `settle`."""

    def seat(self, env: int, slots: Slots, group_ids: NDArray[np.int32], rows: Rows | range) -> Rows:
        """Record that these agents [n] of one environment began `rows`; returns their rosters [n, places].

        Raises:
            GroupSlotsFullError: there is no place left for an agent.
        """
        self._join_all(env, slots, group_ids, may=True)
        groups, newest = self._group[slots], self._table[NEWEST]
        newest[groups, self._place[slots]] = np.asarray(rows)
        seated: Rows = newest[groups]
        if self._last:  # what the interrupted saw last follows their own steps, and stands beside no others
            seated[np.isin(seated, newest[tuple(np.array(self._last).T)])] = -1
        return seated

    def remove(self, slots: Slots, last_rows: Rows | None = None) -> None:
        """Record that these agents' episodes are over.

        `last_rows`: the rows [n] of the last observations of interrupted episodes, else -1.
        """
        for i, slot in enumerate(slots.tolist()):
            if slot < len(self._place) and self._place[slot] >= 0:
                self._leave(slot, -1 if last_rows is None else int(last_rows[i]))

    def roster_of(self, slots: Slots) -> Ints:
        """The number of each agent's roster [n], valid for `newest` until `settle`."""
        numbers: Ints = self._group[slots]
        return numbers

    def place_of(self, slots: Slots) -> Ints:
        """The places [n] of agents that have decided."""
        places: Ints = self._place[slots]
        return places

    def newest(self, rosters: Ints) -> tuple[Rows, Slots]:
        """The newest rows in these rosters and their agents' slots (arbitrary for none), [n, places] each."""
        return self._table[NEWEST, rosters], self._table[MEMBER, rosters]

    def settle(self) -> None:
        """Finish the step: remove interrupted agents, and release the numbers of rosters that are over."""
        for group, place in self._last:
            self._table[NEWEST, group, place] = -1
        for group in self._over:
            self._table[MEMBER, group] = -1
            self._free.append(group)
        self._last, self._over = [], []

    def _join(self, env: int, slot: int, group_id: int) -> tuple[int, int]:
        if self._place[slot] >= 0:  # the agent changes its group
            self._leave(slot, -1)
        group = self._get_or_create((env, group_id) if group_id > 0 else (env, group_id, slot))
        free = np.flatnonzero(self._table[MEMBER, group] < 0)
        if not len(free):
            raise GroupSlotsFullError(
                f"{self._behavior_id}: group {group_id} of environment {env} has more than {self.places} "
                "members in one episode, those that have left it counted; raise "
                f"hyperparameters.max_num_agents, which is {self.places}."
            )
        self._size[group] += 1
        return group, int(free[0])

    def _leave(self, slot: int, last_row: int) -> None:
        group, place = int(self._group[slot]), int(self._place[slot])
        self._table[NEWEST, group, place] = last_row
        if last_row >= 0:
            self._last.append((group, place))
        self._place[slot] = -1
        self._size[group] -= 1
        if self._size[group] == 0:
            del self._by_key[self._keys.pop(group)]
            self._over.append(group)
