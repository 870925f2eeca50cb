"""Blocks: the arrays that hold rows, and how rows are read from them.

All columns of a block are views of two arrays, one of 4-byte words and one of flags, in which a row is one
piece. So reading some rows costs two gathers however many columns there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ..envs.base import ObsArray

Rows = NDArray[np.int64]
"""Numbers of rows, -1 for none."""

BLOCK_BYTES = 4 * 2**20
SMALLEST_BLOCK, LARGEST_BLOCK = 64, 8192  # rows; powers of two, as every size between them


@dataclass(slots=True, kw_only=True)
class RowColumns:
    """The contents of n rows, column by column."""

    obs: list[ObsArray]
    """The observations, per sensor [n, *shape]: float32, as all are, or uint8 where images came as bytes."""
    continuous: NDArray[np.float32]
    """The continuous actions [n, continuous_size], as sampled."""
    discrete: NDArray[np.int32]
    """The discrete actions [n, branches]."""
    log_probs: NDArray[np.float32]
    """The log-probabilities [n, continuous_size + branches] of the actions' components."""
    action_mask: NDArray[np.bool_] | None
    """A mask [n, sum of branch sizes], True where the action was forbidden; None without discrete actions."""
    reward: NDArray[np.float32]
    group_reward: NDArray[np.float32]
    done: NDArray[np.bool_]
    interrupted: NDArray[np.bool_]
    memory: NDArray[np.float32] | None
    """The recurrent state [n, memory_size] that went into the decision; None if there is none."""
    prev_discrete: NDArray[np.int32]
    """The agent's discrete action [n, branches] before this one, zeros at first."""
    exploration: NDArray[np.float32] | None = None
    """The share [n] of the policy that was chance alone (see `Decision`); None without rosters."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How a row is made up."""

    obs_shapes: tuple[tuple[int, ...], ...]
    sensors: tuple[str, ...]
    continuous: int
    branches: tuple[int, ...]
    memory_size: int
    places: int = 0
    """The number of places in a group's roster; 0: rosters are not used."""
    as_bytes: tuple[bool, ...] = ()
    """Whether each observation is kept as uint8, as engines send pictures, and not as float32; (): none is.
    Bytes fill whole words."""

    @classmethod
    def of(
        cls, spec: BehaviorSpec, memory_size: int = 0, places: int = 0, as_bytes: tuple[bool, ...] = ()
    ) -> RowLayout:
        """The layout for a behavior whose recurrent state has `memory_size` numbers."""
        return cls(
            tuple(tuple(int(n) for n in o.shape) for o in spec.observation_specs),
            tuple(str(o.name) for o in spec.observation_specs),
            int(spec.action_spec.continuous_size),
            tuple(int(n) for n in spec.action_spec.discrete_branches),
            memory_size,
            places,
            as_bytes,
        )

    def _widths(self) -> list[int]:
        """The number of words of each column, in the order of `columns`: first the observations."""
        branches = len(self.branches)
        return [
            *self._obs_widths(),
            self.continuous,
            self.continuous + branches,
            self.memory_size,
            branches,
            branches,
            1,
            1,
            1 if self.places else 0,
        ]

    def _obs_widths(self) -> list[int]:
        sizes = [prod(shape) for shape in self.obs_shapes]
        return [-(-size // 4) if bytes_ else size for size, bytes_ in zip(sizes, self._are_bytes)]

    @property
    def _are_bytes(self) -> tuple[bool, ...]:
        return self.as_bytes or (False,) * len(self.obs_shapes)

    @property
    def obs_words(self) -> int:
        """The number of words of the observations, which come first."""
        return sum(self._obs_widths())

    @property
    def words(self) -> int:
        """The number of 4-byte words of a row."""
        return sum(self._widths())

    @property
    def flags(self) -> int:
        """The number of one-byte flags of a row."""
        return 2 + sum(self.branches)

    def block_rows(self) -> int:
        """The number of rows per block: a power of two that makes a block of about `BLOCK_BYTES`."""
        fitting = max(1, BLOCK_BYTES // (4 * self.words + self.flags))
        return min(max(1 << (fitting.bit_length() - 1), SMALLEST_BLOCK), LARGEST_BLOCK)

    def columns(self, words: NDArray[np.uint32], flags: NDArray[np.bool_]) -> RowColumns:
        """The columns of n rows, as views of their `words` [n, words] and `flags` [n, flags]."""
        right = np.cumsum(self._widths()).tolist()
        spans = [slice(a, b) for a, b in zip([0, *right], right)]
        floats, ints = words.view(np.float32), words.view(np.int32)
        continuous, log_probs, memory, discrete, prev_discrete, reward, group_reward, exploration = spans[
            len(self.obs_shapes) :
        ]
        return RowColumns(
            obs=self.observations(words),
            continuous=floats[:, continuous],
            discrete=ints[:, discrete],
            log_probs=floats[:, log_probs],
            action_mask=flags[:, 2:] if self.branches else None,
            reward=floats[:, reward.start],
            group_reward=floats[:, group_reward.start],
            done=flags[:, 0],
            interrupted=flags[:, 1],
            memory=floats[:, memory] if self.memory_size else None,
            prev_discrete=ints[:, prev_discrete],
            exploration=floats[:, exploration.start] if self.places else None,
        )

    def observations(self, words: NDArray[np.uint32]) -> list[ObsArray]:
        """The observations of n rows, as views of their `words` [n, at least `obs_words`]."""
        floats, left = words.view(np.float32), 0
        columns: list[ObsArray] = []
        for shape, width, bytes_ in zip(self.obs_shapes, self._obs_widths(), self._are_bytes):
            if bytes_:
                pixels = words[:, left : left + width].view(np.uint8)[:, : prod(shape)]
                columns.append(pixels.reshape(len(words), *shape))
            else:
                columns.append(floats[:, left : left + width].reshape(len(floats), *shape))
            left += width
        return columns


class Block:
    """The columns of one block's rows. All is zero, or False, until it is written."""

    __slots__ = ("columns", "flags", "roster", "teammates", "words")

    def __init__(self, layout: RowLayout, rows: int) -> None:
        self.words: NDArray[np.uint32] = np.zeros((rows, layout.words), dtype=np.uint32)
        self.flags: NDArray[np.bool_] = np.zeros((rows, layout.flags), dtype=bool)
        self.columns = layout.columns(self.words, self.flags)
        self.teammates: Rows | None = None
        """The teammates' rows [rows, M], -1 where there is none; None: no agent here has a group."""
        self.roster: Rows | None = np.full((rows, layout.places), -1, np.int64) if layout.places else None
        """The rows [rows, places] of all members when a row began, its own included; None without rosters."""

    def widen_teammates(self, width: int) -> Rows:
        """Make room for `width` teammates a row and return the column.

        A thread that reads meanwhile keeps the narrower one, which is right for every row finished so far.
        """
        old = self.teammates
        if old is not None and old.shape[1] >= width:
            return old
        wide = np.full((len(self.words), width), -1, dtype=np.int64)
        if old is not None:
            wide[:, : old.shape[1]] = old
        self.teammates = wide
        return wide


BlockRows = tuple[Block, Rows | slice, slice | Rows]
"""A block, the places of some rows in it, and the indices of these among the rows that were asked for."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks to read rows from, of one store or of several whose layouts are the same."""

    layout: RowLayout
    by_number: Mapping[int, Block]
    """The blocks by their number, which is a row's number >> `shift`."""
    shift: int

    def split_by_block(self, rows: Rows | range) -> Iterator[BlockRows]:
        """Yield the rows block by block. A range of rows is faster: it needs no indexing."""
        if isinstance(rows, range):
            yield from self._spans(rows)
            return
        if not len(rows):
            return
        numbers = rows >> self.shift
        offsets = rows & ((1 << self.shift) - 1)
        first = int(numbers[0])
        if np.count_nonzero(numbers == first) == len(rows):
            yield self.by_number[first], offsets, slice(None)
            return
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])).tolist()
        for start, stop in zip(starts, [*starts[1:], len(rows)]):
            which = order[start:stop]
            yield self.by_number[int(ordered[start])], offsets[which], which

    def _spans(self, rows: range) -> Iterator[BlockRows]:
        size, done = 1 << self.shift, 0
        while done < len(rows):
            offset = rows[done] & (size - 1)
            take = min(len(rows) - done, size - offset)
            block = self.by_number[rows[done] >> self.shift]
            yield block, slice(offset, offset + take), slice(done, done + take)
            done += take

    def columns(self, rows: Rows) -> RowColumns:
        """All columns of these rows."""
        found = list(self.split_by_block(rows))
        words = _gather(found, len(rows), self.layout.words, np.uint32, lambda block: block.words)
        flags = _gather(found, len(rows), self.layout.flags, np.bool_, lambda block: block.flags)
        return self.layout.columns(words, flags)

    def obs(self, rows: Rows) -> list[ObsArray]:
        """The observations of these rows, [n, *shape] per sensor."""
        width = self.layout.obs_words
        found = list(self.split_by_block(rows))
        words = _gather(found, len(rows), width, np.uint32, lambda block: block.words[:, :width])
        return self.layout.observations(words)

    def teammates(self, rows: Rows) -> Rows | None:
        """The teammates of these rows, [n, M] and -1 where there is none; None when none has a group."""
        found = [(part[0].teammates, *part[1:]) for part in self.split_by_block(rows)]
        width = max((teammates.shape[1] for teammates, _, _ in found if teammates is not None), default=None)
        if width is None:
            return None
        out = np.full((len(rows), width), -1, dtype=np.int64)
        for teammates, offsets, which in found:
            if teammates is not None:
                out[which, : teammates.shape[1]] = teammates[offsets]
        return out[:, : int((out >= 0).sum(axis=1).max(initial=0))]

    def rosters(self, rows: Rows) -> Rows:
        """The rows [n, places] of all members of these rows' groups when these rows began."""
        out = np.full((len(rows), self.layout.places), -1, dtype=np.int64)
        for block, offsets, which in self.split_by_block(rows):
            if block.roster is not None:
                out[which] = block.roster[offsets]
        return out

    def dense_index(self) -> Callable[[Rows], NDArray[np.int64]]:
        """A function that gives every row of these blocks a number below `len(by_number) << shift`."""
        numbers = np.sort(np.fromiter(self.by_number, dtype=np.int64, count=len(self.by_number)))
        inside = (1 << self.shift) - 1

        def place(rows: Rows) -> NDArray[np.int64]:
            return (np.searchsorted(numbers, rows >> self.shift) << self.shift) | (rows & inside)

        return place


def _gather(
    found: Sequence[BlockRows], n: int, width: int, dtype: Any, pieces: Callable[[Block], NDArray[Any]]
) -> NDArray[Any]:
    """Gather the rows' pieces [n, width] from the blocks that hold them."""
    if len(found) == 1:
        block, offsets, _ = found[0]
        return pieces(block)[offsets]
    out = np.empty((n, width), dtype=dtype)
    for block, offsets, which in found:
        out[which] = pieces(block)[offsets]
    return out
