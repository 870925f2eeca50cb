"""Blocks: the columns that rows lie in, and how rows are read out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""Numbers of rows, -1 for none."""

BLOCK_BYTES = 4 * 2**20
SMALLEST_BLOCK, LARGEST_BLOCK = 64, 8192  # rows; powers of two, as every size between them


@dataclass(slots=True)
class Block:
    """Columns of as many rows as the store's `block_rows`; the names are those of `Rollout`."""

    obs: list[NDArray[np.float32]]
    continuous: NDArray[np.float32]
    discrete: NDArray[np.int32]
    log_probs: NDArray[np.float32]
    action_mask: NDArray[np.bool_] | None
    reward: NDArray[np.float32]
    group_reward: NDArray[np.float32]
    done: NDArray[np.bool_]
    interrupted: NDArray[np.bool_]
    memory: NDArray[np.float32] | None
    prev_discrete: NDArray[np.int32]
    mates: Rows | None
    """[rows, M] numbers of the teammates' rows, -1 where there is none; None: no agent here has a group."""

    def widen_mates(self, width: int) -> Rows:
        """Make room for `width` teammates a row and return the column.

        Who reads meanwhile keeps the narrower one, which is right for every row finished so far.
        """
        old = self.mates
        if old is not None and old.shape[1] >= width:
            return old
        wide = np.full((len(self.reward), width), -1, dtype=np.int64)
        if old is not None:
            wide[:, : old.shape[1]] = old
        self.mates = wide
        return wide


Part = tuple[Block, Rows | slice, slice | Rows]
"""A block, rows' places in it, and which of the rows asked for these are."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Some blocks, to read rows from. Blocks of several stores may be among them if their rows are alike."""

    by_number: Mapping[int, Block]
    """By row number >> shift."""
    shift: int

    def parts(self, rows: Rows | range) -> Iterator[Part]:
        """The rows, block by block. A range of rows is faster: it needs no indexing."""
        if isinstance(rows, range):
            yield from self._spans(rows)
            return
        if not len(rows):
            return
        numbers = rows >> self.shift
        offsets = rows & ((1 << self.shift) - 1)
        first = int(numbers[0])
        if (numbers == first).all():
            yield self.by_number[first], offsets, slice(None)
            return
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])).tolist()
        for start, stop in zip(starts, [*starts[1:], len(rows)]):
            which = order[start:stop]
            yield self.by_number[int(ordered[start])], offsets[which], which

    def _spans(self, rows: range) -> Iterator[Part]:
        size, done = 1 << self.shift, 0
        while done < len(rows):
            offset = rows[done] & (size - 1)
            take = min(len(rows) - done, size - offset)
            block = self.by_number[rows[done] >> self.shift]
            yield block, slice(offset, offset + take), slice(done, done + take)
            done += take

    def obs(self, rows: Rows) -> list[NDArray[np.float32]]:
        """The observations of these rows, [n, *shape] per sensor."""
        found = list(self.parts(rows))
        sensors = range(len(self.any_block().obs))
        return [self.gather(found, len(rows), lambda block, i=i: block.obs[i]) for i in sensors]  # type: ignore[misc]

    def mates(self, rows: Rows) -> Rows | None:
        """The teammates of these rows, [n, M] and -1 where there is none; None when none has a group."""
        found = [(part[0].mates, *part[1:]) for part in self.parts(rows)]
        width = max((mates.shape[1] for mates, _, _ in found if mates is not None), default=None)
        if width is None:
            return None
        out = np.full((len(rows), width), -1, dtype=np.int64)
        for mates, offsets, which in found:
            if mates is not None:
                out[which, : mates.shape[1]] = mates[offsets]
        return out[:, : int((out >= 0).sum(axis=1).max(initial=0))]

    def gather(self, found: Sequence[Part], n: int, column: Callable[[Block], NDArray[Any]]) -> NDArray[Any]:
        """One column of the n rows that `parts` found."""
        if len(found) == 1:
            block, offsets, _ = found[0]
            return column(block)[offsets]
        like = column(self.any_block())
        out = np.empty((n, *like.shape[1:]), dtype=like.dtype)
        for block, offsets, which in found:
            out[which] = column(block)[offsets]
        return out

    def any_block(self) -> Block:
        """Some block, to see what its columns are like."""
        return next(iter(self.by_number.values()))


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What one row holds."""

    obs_shapes: tuple[tuple[int, ...], ...]
    sensors: tuple[str, ...]
    continuous: int
    branches: tuple[int, ...]
    memory_size: int

    @classmethod
    def of(cls, spec: BehaviorSpec, memory_size: int = 0) -> RowLayout:
        """The layout for a behaviour; `memory_size` numbers of recurrent state."""
        return cls(
            tuple(tuple(int(n) for n in o.shape) for o in spec.observation_specs),
            tuple(str(o.name) for o in spec.observation_specs),
            int(spec.action_spec.continuous_size),
            tuple(int(n) for n in spec.action_spec.discrete_branches),
            memory_size,
        )

    @property
    def row_bytes(self) -> int:
        """Bytes of one row without teammates."""
        numbers = sum(int(np.prod(shape)) for shape in self.obs_shapes) + self.memory_size
        numbers += 2 * self.continuous + 3 * len(self.branches)
        return 4 * numbers + sum(self.branches) + 10  # two rewards and two flags

    def block_rows(self) -> int:
        """Rows per block: a power of two that makes a block of about `BLOCK_BYTES`."""
        fitting = max(1, BLOCK_BYTES // self.row_bytes)
        return min(max(1 << (fitting.bit_length() - 1), SMALLEST_BLOCK), LARGEST_BLOCK)

    def block(self, rows: int) -> Block:
        """An empty block. Zeros where a row that is not told otherwise must read as zero."""
        f, i, branches = np.float32, np.int32, len(self.branches)
        return Block(
            obs=[np.empty((rows, *shape), f) for shape in self.obs_shapes],
            continuous=np.zeros((rows, self.continuous), f),
            discrete=np.zeros((rows, branches), i),
            log_probs=np.zeros((rows, self.continuous + branches), f),
            action_mask=np.zeros((rows, sum(self.branches)), bool) if branches else None,
            reward=np.zeros(rows, f),
            group_reward=np.zeros(rows, f),
            done=np.zeros(rows, bool),
            interrupted=np.zeros(rows, bool),
            memory=np.zeros((rows, self.memory_size), f) if self.memory_size else None,
            prev_discrete=np.zeros((rows, branches), i),
            mates=None,
        )
