"""The row store: every observation once, every finished agent-step once.

A row begins when an observation arrives (`begin`), learns its action when the policy has decided (`act`) and
is finished by what the agent's next message says about it (`finish`). An observation that ends an episode
begins a row too, one that is never finished: it is the "next observation" of a trajectory. So a trajectory,
its bootstrap observation and its teammates are numbers of rows and nothing is copied until a trainer asks.

Rows live in blocks of a fixed number of rows. A finished row never changes and blocks never move, so one
thread may read (the trainer's) while another writes other rows (the collector's), without a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ..envs.base import ObsArray
from .blocks import Block, BlockRows, Blocks, RowLayout, Rows

STORE_BITS = 46
"""The number of bits that number a store's rows; the bits above tell stores apart: a number names one row."""

RESTORED_STORE = 0
"""The store number of rows that come out of a checkpoint, which no store of any process has."""

_BYTES = np.dtype(np.uint8)
_ALL = slice(None)
_stores = count()


class RowStore:
    """Appends rows of one behavior and forgets the blocks that are not referenced any more."""

    def __init__(
        self, spec: BehaviorSpec, memory_size: int = 0, block_rows: int = 0, places: int = 0
    ) -> None:
        """`block_rows`, a power of two, overrides what the size of a row suggests.

        `places`: the number of places of a roster; 0 without rosters.
        """
        if block_rows & (block_rows - 1):
            raise ValueError(f"block_rows is {block_rows}; it must be a power of two")
        self._given_block_rows = block_rows
        self._lay_out(RowLayout.of(spec, memory_size, places))
        store = 1 + RESTORED_STORE + next(_stores) % (2 ** (63 - STORE_BITS) - 1)
        self._next = store << STORE_BITS
        self._begun_since_keep = 0
        self._kept = 0

    def _lay_out(self, layout: RowLayout) -> None:
        """Set the layout, and begin without any block."""
        self.layout = layout
        self.block_rows = self._given_block_rows or layout.block_rows()
        self.shift = self.block_rows.bit_length() - 1
        self.blocks = Blocks(layout, {}, self.shift)
        """The blocks kept now. Never changed, only replaced: a reference to it keeps its blocks alive."""

    def begin(
        self,
        obs: Sequence[ObsArray],
        n: int,
        action_mask: Sequence[NDArray[np.bool_]] | None = None,
        memory: NDArray[np.float32] | None = None,
        prev_discrete: NDArray[np.int32] | None = None,
    ) -> range:
        """Begin n rows with observations [n, *shape] per sensor; return their numbers.

        A sensor whose first observations are uint8 is kept as uint8, and so must all of its observations be;
        any other is kept as float32.
        `action_mask` is one array [n, branch size] per branch, True where an action is forbidden.
        """
        self._check(obs, n)
        begun = range(self._next, self._next + n)
        self._next = begun.stop
        if (begun.stop - 1) >> self.shift not in self.blocks.by_number:
            self._make_room(begun)
        for block, target, source in self._by_block(begun):
            columns = block.columns
            for column, values in zip(columns.obs, obs):
                column[target] = values[source]
            if action_mask is not None and columns.action_mask is not None:
                left = 0
                for branch in action_mask:
                    right = left + branch.shape[1]
                    columns.action_mask[target, left:right] = branch[source]
                    left = right
            if memory is not None and columns.memory is not None:
                columns.memory[target] = memory[source]
            if prev_discrete is not None:
                columns.prev_discrete[target] = prev_discrete[source]
        return begun

    def _check(self, obs: Sequence[ObsArray], n: int) -> None:
        shapes, as_bytes = self.layout.obs_shapes, self.layout.as_bytes
        if len(obs) != len(shapes):
            raise ValueError(f"{len(obs)} observations where the behavior has {len(shapes)}")
        for i, shape in enumerate(shapes):
            if obs[i].shape != (n, *shape):
                raise ValueError(
                    f"observation {i} ({self.layout.sensors[i]!r}) of {n} agents has the shape "
                    f"{obs[i].shape}; expected {(n, *shape)}"
                )
            if (obs[i].dtype == _BYTES) != (bool(as_bytes) and as_bytes[i]):
                self._choose_bytes(obs)
                as_bytes = self.layout.as_bytes

    def _choose_bytes(self, obs: Sequence[ObsArray]) -> None:
        """Lay the rows out for observations such as these, the first ones."""
        if self.blocks.by_number:
            kept = self.layout.observations(np.zeros((0, self.layout.words), np.uint32))
            raise ValueError(
                f"observations of the types {[str(o.dtype) for o in obs]} where those before were kept as "
                f"{[str(o.dtype) for o in kept]}"
            )
        self._lay_out(replace(self.layout, as_bytes=tuple(o.dtype == _BYTES for o in obs)))

    def _by_block(self, rows: Rows | range) -> Iterable[BlockRows]:
        """Like `Blocks.split_by_block`, but faster where a range of rows lies in one block, as most do."""
        if isinstance(rows, range) and rows:
            number = rows.start >> self.shift
            if number == (rows.stop - 1) >> self.shift:
                first = number << self.shift
                return ((self.blocks.by_number[number], slice(rows.start - first, rows.stop - first), _ALL),)
        return self.blocks.split_by_block(rows)

    def _make_room(self, rows: range) -> None:
        """Begin the blocks that these rows, the next ones, are the first to need."""
        first = -(-rows.start >> self.shift)
        for number in range(first, ((rows.stop - 1) >> self.shift) + 1):
            new = Block(self.layout, self.block_rows)
            self.blocks = Blocks(self.layout, {**self.blocks.by_number, number: new}, self.shift)
            self._begun_since_keep += 1

    def act(
        self,
        rows: Rows | range,
        continuous: NDArray[np.float32],
        discrete: NDArray[np.int32],
        log_probs: NDArray[np.float32],
        exploration: float = 0.0,
    ) -> None:
        """Record the decisions on these rows' observations: [n, continuous], [n, branches], [n, both]."""
        for block, offsets, which in self._by_block(rows):
            columns = block.columns
            if self.layout.continuous:
                columns.continuous[offsets] = continuous[which]
            if self.layout.branches:
                columns.discrete[offsets] = discrete[which]
            columns.log_probs[offsets] = log_probs[which]
            if columns.exploration is not None:
                columns.exploration[offsets] = exploration

    def seat(self, rows: range, rosters: Rows) -> None:
        """Record the rosters [n, places] of these rows: the rows of all members when these rows began."""
        for block, offsets, which in self._by_block(rows):
            if block.roster is not None:
                block.roster[offsets] = rosters[which]

    def finish(
        self,
        rows: Rows | range,
        reward: NDArray[np.float32],
        group_reward: NDArray[np.float32],
        teammates: Rows | None,
        interrupted: NDArray[np.bool_] | None = None,
    ) -> None:
        """Record what these rows' actions led to: [n] each, `teammates` [n, M]; `interrupted` at an end."""
        for block, offsets, which in self._by_block(rows):
            columns = block.columns
            columns.reward[offsets] = reward[which]
            columns.group_reward[offsets] = group_reward[which]
            if interrupted is not None:
                columns.done[offsets] = True
                columns.interrupted[offsets] = interrupted[which]
            if teammates is not None:
                block.widen_teammates(teammates.shape[1])[offsets, : teammates.shape[1]] = teammates[which]

    def repeat_masks(self, rows: Rows, later: Rows) -> None:
        """Forbid at the rows `later` what was forbidden at `rows`; [n] each."""
        if not self.layout.branches:
            return
        masks = np.zeros((len(rows), sum(self.layout.branches)), dtype=bool)
        for block, offsets, which in self._by_block(rows):
            assert block.columns.action_mask is not None
            masks[which] = block.columns.action_mask[offsets]
        for block, offsets, which in self._by_block(later):
            assert block.columns.action_mask is not None
            block.columns.action_mask[offsets] = masks[which]

    def end(self, rows: Rows) -> None:
        """Mark these finished rows as the ends of lives: for what is learned nothing follows them."""
        for block, offsets, _ in self._by_block(rows):
            block.columns.done[offsets] = True

    @property
    def needs_compaction(self) -> bool:
        """Whether it is time to call `compact`: half as many blocks have begun as were kept last time."""
        return self._begun_since_keep > max(1, self._kept // 2)

    def compact(self, reached: Sequence[Rows]) -> None:
        """Forget every block but those of the rows `reached`, of these rows' teammates, and the newest.

        Teammates are those of `teammates` and of rosters.

        Blocks that a trajectory still holds live on with it.
        """
        direct = self._blocks_of(np.concatenate(reached)) if reached else set()
        kept = set(direct)
        for number in direct:
            block = self.blocks.by_number[number]
            for teammates in (block.teammates, block.roster):
                if teammates is not None:
                    kept |= self._blocks_of(teammates[teammates >= 0])
        kept.add((self._next - 1) >> self.shift)
        still = {number: block for number, block in self.blocks.by_number.items() if number in kept}
        self.blocks = Blocks(self.layout, still, self.shift)
        self._kept, self._begun_since_keep = len(still), 0

    def _blocks_of(self, rows: Rows) -> set[int]:
        """The numbers of the blocks that these rows, at least 0 all of them, lie in."""
        if not len(rows):
            return set()
        numbers = rows >> self.shift
        oldest = int(numbers.min())
        seen = np.zeros(int(numbers.max()) - oldest + 1, dtype=bool)
        seen[numbers - oldest] = True
        return set((np.flatnonzero(seen) + oldest).tolist())
