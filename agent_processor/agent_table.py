"""One slot per living agent: its last decision, and its open trajectory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import Rows

Slots = NDArray[np.intp]
"""Numbers of slots, -1 for none."""

NO_SLOTS: Slots = np.zeros(0, dtype=np.intp)
NO_IDS: NDArray[np.int32] = np.zeros(0, dtype=np.int32)

FIRST_SLOTS, FIRST_STEPS = 16, 32


@dataclass(slots=True)
class _Environment:
    """The known agents of one environment, and its last batch of decisions, which the next mostly repeats."""

    by_id: dict[int, int] = field(default_factory=dict)
    ids: NDArray[np.int32] = field(default_factory=lambda: NO_IDS)
    key: bytes = b""
    """The bytes of `ids`, which are faster to compare than arrays."""
    slots: Slots = field(default_factory=lambda: NO_SLOTS)
    rows: range = range(0)
    """The rows that the batch began."""

    def remember(self, ids: NDArray[np.int32], key: bytes, slots: Slots) -> None:
        self.ids, self.key, self.slots, self.rows = ids, key, slots, range(0)


class AgentTable:
    """Columns with one entry per living agent, and the way from an agent's id to its entry.

    An agent is an environment and an id; it lives from its first decision to its terminal step.
    """

    def __init__(self, branches: int, memory_size: int, horizon: int) -> None:
        self._horizon = horizon
        self._environments: dict[int, _Environment] = {}
        self._free: list[int] = list(range(FIRST_SLOTS))[::-1]
        n = FIRST_SLOTS
        self.env = np.full(n, -1, dtype=np.int64)
        """The environment of each slot's agent; -1 if the slot is free."""
        self.agent = np.zeros(n, dtype=np.int64)
        self.row: Rows = np.full(n, -1, dtype=np.int64)
        """The row that the agent's last decision step began; -1 when its episode has just ended."""
        self.acted = np.zeros(n, dtype=bool)
        """Whether the policy has answered that decision step."""
        self.count = np.zeros(n, dtype=np.int64)
        """The number of steps of the open trajectory."""
        self.by_snapshot = np.zeros(n, dtype=bool)
        """Whether a snapshot decided the open trajectory's steps, see `Decision`; arbitrary without any."""
        self.earlier = np.zeros(n, dtype=np.int64)
        """The number of steps of this episode that went out in trajectories before it."""
        self.open_rows: Rows = np.empty((n, min(FIRST_STEPS, horizon)), dtype=np.int64)
        """The rows [slot, step] of the open trajectories; only the first `count` of a slot mean anything."""
        self.memory = np.zeros((n, memory_size), dtype=np.float32)
        """The recurrent state that goes into the agent's next decision."""
        self.prev_discrete = np.zeros((n, branches), dtype=np.int32)
        self._in_batch = np.zeros(n, dtype=bool)
        self._scratch = np.zeros(n, dtype=np.intp)

    def __len__(self) -> int:
        """The number of slots, free ones included."""
        return len(self.row)

    def find(self, env: int, ids: NDArray[np.int32]) -> tuple[Slots, Rows | range]:
        """The slots of these agents, -1 for those not known, and the rows that they began last.

        The rows come as a range, and all are known, when the agents are those of the last `admit`. Rows of
        unknown agents mean nothing. The slots belong to this object.
        """
        known = self._environments.get(env)
        if known is None:
            return np.full(len(ids), -1, dtype=np.intp), np.full(len(ids), -1, dtype=np.int64)
        if ids.tobytes() == known.key:
            return known.slots, known.rows
        get = known.by_id.get
        slots = np.array([get(i, -1) for i in ids.tolist()], dtype=np.intp)
        return slots, self.row[slots]

    def admit(self, env: int, ids: NDArray[np.int32]) -> tuple[Slots, Rows | range]:
        """Like `find`, but give unknown agents a slot, and remember the batch for the next call."""
        known = self._environments.get(env)
        if known is None:
            known = self._environments[env] = _Environment()
        key = ids.tobytes()
        if key == known.key:
            return known.slots, known.rows
        if len(ids) == len(known.ids):
            new = np.flatnonzero(ids != known.ids)
            slots = known.slots.copy()
            slots[new] = [known.by_id.get(i, -1) for i in ids[new].tolist()]
        else:
            slots = np.array([known.by_id.get(i, -1) for i in ids.tolist()], dtype=np.intp)
        for i in np.flatnonzero(slots < 0).tolist():
            slots[i] = self._take(env, int(ids[i]), known.by_id)
        self._reject_duplicate_ids(env, ids, slots)
        self._in_batch[known.slots] = False
        self._in_batch[slots] = True
        known.remember(ids.copy(), key, slots)
        return slots, self.row[slots]

    def begin(self, env: int, slots: Slots, rows: range) -> None:
        """Record that the agents of the last `admit` have begun these rows."""
        self.row[slots] = np.arange(rows.start, rows.stop)
        self.acted[slots] = False
        self._environments[env].rows = rows

    def _take(self, env: int, agent: int, by_id: dict[int, int]) -> int:
        """Take a free slot for a new agent; return its own if the same batch has named it before."""
        if agent in by_id:
            return by_id[agent]
        if not self._free:
            self._grow()
        slot = self._free.pop()
        by_id[agent] = slot
        self.env[slot], self.agent[slot] = env, agent
        return slot

    def _reject_duplicate_ids(self, env: int, ids: NDArray[np.int32], slots: Slots) -> None:
        places = np.arange(len(slots))
        self._scratch[slots] = places
        duplicates = np.flatnonzero(self._scratch[slots] != places)
        if len(duplicates):
            agent = int(ids[duplicates[0]])
            raise ValueError(
                f"environment {env}: agent {agent} appears twice among the decisions of one step; "
                f"the agents of a behavior must have different ids"
            )

    def reset(self, slots: Slots) -> None:
        """Clear the state of these agents, whose episodes are over; they keep their slots."""
        self.row[slots] = -1
        self.acted[slots] = False
        self.count[slots] = 0
        self.earlier[slots] = 0
        self.memory[slots] = 0
        self.prev_discrete[slots] = 0

    def release(self, env: int, slots: Slots) -> None:
        """Free the slots of these agents, whose episodes are over."""
        known = self._environments[env]
        for slot, agent in zip(slots.tolist(), self.agent[slots].tolist()):
            del known.by_id[agent]
            self._free.append(slot)
        self.env[slots] = -1
        if self._in_batch[slots].any():
            self._in_batch[known.slots] = False
            known.remember(NO_IDS, b"", NO_SLOTS)

    def of(self, env: int | None) -> Slots:
        """The slots of one environment's agents; of all agents if `env` is None."""
        return np.flatnonzero(self.env >= 0 if env is None else self.env == env)

    def follow(self, slots: Slots, rows: Rows) -> tuple[NDArray[np.int64], int]:
        """Append a row to each agent's open trajectory; return the new lengths, and the greatest of them."""
        step = self.count[slots]
        longest = int(np.maximum.reduce(step)) + 1
        if longest > self.open_rows.shape[1]:
            self._widen(longest)
        self.open_rows[slots, step] = rows
        step += 1
        self.count[slots] = step
        return step, longest

    def referenced_rows(self) -> list[Rows]:
        """The rows that living agents still need."""
        living = self.of(None)
        count = self.count[living]
        longest = int(count.max(initial=0))
        open_rows = self.open_rows[living, :longest][np.arange(longest) < count[:, None]]
        return [self.row[living], open_rows]

    def _widen(self, longest: int) -> None:
        old = self.open_rows
        wide: Rows = np.empty((len(old), min(self._horizon, max(longest, 2 * old.shape[1]))), dtype=np.int64)
        wide[:, : old.shape[1]] = old
        self.open_rows = wide

    def _grow(self) -> None:
        """Double the number of slots."""
        n = len(self)
        self.env, self.agent = _extended(self.env, -1), _extended(self.agent, 0)
        self.row, self.acted = _extended(self.row, -1), _extended(self.acted, 0)
        self.count, self.earlier = _extended(self.count, 0), _extended(self.earlier, 0)
        self.by_snapshot = _extended(self.by_snapshot, 0)
        self.memory, self.prev_discrete = _extended(self.memory, 0), _extended(self.prev_discrete, 0)
        self._in_batch, self._scratch = _extended(self._in_batch, 0), _extended(self._scratch, 0)
        open_rows: Rows = np.empty((2 * n, self.open_rows.shape[1]), dtype=np.int64)
        open_rows[:n] = self.open_rows
        self.open_rows = open_rows
        self._free.extend(range(2 * n - 1, n - 1, -1))


def _extended(column: NDArray[Any], fill: int) -> NDArray[Any]:
    """The column at twice its length, with new entries of `fill`."""
    return np.concatenate([column, np.full_like(column, fill)])
