"""Layouts: which byte of a record means what, worked out once for all records that look alike.

The records of a list (agents of one behavior, say) mostly differ in their numbers alone: tags, lengths,
shapes and names stand at the same places. A layout keeps those bytes as a template with a mask. All
records that match it are read at once, as a structured array over the message's own bytes.
The same idea writes lists of records, a column at a time (`RowWriter`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .wire_format import UnknownLayout, head

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.intp]
Rows = slice | Numbers

_CONTINUES = 0x80  # the bit of a varint's byte that says that another one follows
_SMALL_GAP = 64  # bytes of numbers that are masked out sooner than that a comparison is split for them
_MOST_LAYOUTS = 256  # kept for one list
_MOST_OF_ONE_LENGTH = 16


class LayoutBuilder:
    """Collects the numbers' places in a record while it is parsed; all else is template."""

    def __init__(self, data: bytes, start: int, stop: int) -> None:
        self._start = start
        self._template = np.frombuffer(data, np.uint8, stop - start, start).copy()
        self._mask = np.full(stop - start, 0xFF, np.uint8)
        self._fields: dict[str, tuple[Any, int]] = {}

    def number(self, name: str | None, start: int, stop: int, dtype: Any) -> None:
        """Add a number (or numbers) of this type, from start to stop; unnamed ones are not read."""
        self._mask[start - self._start : stop - self._start] = 0
        if name is not None:
            self._add(name, dtype, start)

    def varint(self, name: str | None, start: int, stop: int, count: int | None = None) -> None:
        """Add one varint, of any value that takes as many bytes; or `count` varints of one byte each.

        Raises:
            UnknownLayout: They are not `count` bytes, or some are longer.
        """
        places = slice(start - self._start, stop - self._start)
        self._mask[places] = _CONTINUES
        if count is not None and (stop - start != count or (self._template[places] & _CONTINUES).any()):
            raise UnknownLayout
        if name is not None:
            self._add(name, (np.uint8, (stop - start,)), start)

    def _add(self, name: str, dtype: Any, start: int) -> None:
        if name in self._fields:
            raise UnknownLayout
        self._fields[name] = (dtype, start - self._start)

    def build(self) -> "Layout":
        """The finished layout."""
        return Layout(self._template, self._mask, self._fields)


class Layout:
    """The places of the numbers in records of one kind, and the bytes that all of them share."""

    def __init__(self, template: Bytes, mask: Bytes, numbers: dict[str, tuple[Any, int]]) -> None:
        self.names = frozenset(numbers)
        self.mask = mask
        """A mask with one bits where a record's bytes are the same in all."""
        self.dtype = np.dtype(
            {
                "names": list(numbers),
                "formats": [dtype for dtype, _ in numbers.values()],
                "offsets": [offset for _, offset in numbers.values()],
                "itemsize": len(template),
            }
        )
        self._zones = [
            (slice(start, stop), mask[start:stop], template[start:stop] & mask[start:stop])
            for start, stop in _zones(mask)
        ]

    def matches(self, rows: Bytes) -> NDArray[np.bool_] | None:
        """Which rows [n, length] are of this layout; None when all are."""
        result: NDArray[np.bool_] | None = None
        for place, mask, template in self._zones:
            same = (rows[:, place] & mask) == template
            if not same.all():
                same = same.all(axis=1)
                result = same if result is None else result & same
        return result


def _zones(mask: Bytes) -> list[tuple[int, int]]:
    """The stretches of a record worth comparing: all of it but long blocks of numbers."""
    fixed = np.flatnonzero(mask)
    if len(fixed) == 0:
        return []
    ends = np.flatnonzero(np.diff(fixed) > _SMALL_GAP)
    first = [int(fixed[0]), *(int(fixed[end + 1]) for end in ends)]
    last = [*(int(fixed[end]) for end in ends), int(fixed[-1])]
    return [(start, stop + 1) for start, stop in zip(first, last)]


Parse = Callable[[bytes, int, int], Layout]
"""A function of (data, start, stop): the layout of the record there; raises UnknownLayout or Malformed."""


@dataclass(slots=True)
class GroupedAgents:
    """The records of a list, grouped by layout. Indices count the records of the list from 0."""

    groups: list[tuple[Layout, Rows, Any]] = field(default_factory=list)
    """Each layout, the records that have it, and these as a structured array of the layout's dtype."""
    unknown: list[int] = field(default_factory=list)
    """The records without a layout."""


class Layouts:
    """Every layout seen in the lists of one kind, by the records' length."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self._known: dict[int, list[Layout]] = {}

    def group(self, data: bytes, starts: Numbers, lengths: Numbers) -> GroupedAgents:
        """Group the records that start at `starts` [n] in the message and have these lengths [n].

        Raises:
            Malformed: A record is no message.
        """
        result = GroupedAgents()
        for length, which in _by_length(lengths):
            if length == 0:
                result.unknown += np.arange(len(starts))[which].tolist()
            else:
                self._group(data, starts, length, which, result)
        return result

    def _group(self, data: bytes, starts: Numbers, length: int, which: Rows, result: GroupedAgents) -> None:
        """Group the records of one length."""
        rows = _rows(data, starts[which], length)
        known = iter(self._known.get(length, [])[:_MOST_OF_ONE_LENGTH])
        for _ in range(_MOST_OF_ONE_LENGTH):
            layout = next(known, None) or self._learn(data, int(starts[which][0]), length)
            if layout is None:
                break
            same = layout.matches(rows)
            if same is None:
                result.groups.append((layout, which, rows.view(layout.dtype)[:, 0]))
                return
            if same.any():
                numbers = np.arange(len(starts))[which]
                result.groups.append((layout, numbers[same], rows[same].view(layout.dtype)[:, 0]))
                which, rows = numbers[~same], rows[~same]
        result.unknown += np.arange(len(starts))[which].tolist()

    def _learn(self, data: bytes, start: int, length: int) -> Layout | None:
        """Learn the layout of a new kind of record; discard the old ones where records never look alike."""
        try:
            layout = self._parse(data, start, start + length)
        except UnknownLayout:
            return None
        if sum(map(len, self._known.values())) >= _MOST_LAYOUTS:
            self._known.clear()
        self._known.setdefault(length, []).append(layout)
        return layout


def _by_length(lengths: Numbers) -> list[tuple[int, Rows]]:
    """Each length that occurs, and which records have it."""
    different = set(lengths.tolist())
    if len(different) == 1:
        return [(different.pop(), slice(None))]
    return [(length, np.flatnonzero(lengths == length)) for length in sorted(different)]


def _rows(data: bytes, starts: Numbers, length: int) -> Bytes:
    """The records of one length as [n, length] bytes; a view where they lie at equal distances."""
    count = len(starts)
    first = int(starts[0])
    step = int(starts[1]) - first if count > 1 else 1
    if count <= 2 or (starts[1:] - starts[:-1] == step).all():
        return np.ndarray((count, length), np.uint8, data, first, (step, 1))
    windows: Bytes = np.ndarray((len(data) - length + 1, length), np.uint8, data, 0, (1, 1))
    return windows[starts]


def ints(column: Bytes) -> NDArray[np.int32]:
    """Varints of one width, [n, width] bytes, as int32."""
    if column.shape[1] == 1:
        return column[:, 0].astype(np.int32)
    value = np.zeros(len(column), np.uint64)
    for place in range(column.shape[1]):
        value |= (column[:, place] & 0x7F).astype(np.uint64) << np.uint64(7 * place)
    return (value & np.uint64(0xFFFF_FFFF)).astype(np.uint32).view(np.int32)


FLOAT = np.dtype("<f4")
BYTE = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a record: fixed bytes, then numbers."""

    head: bytes
    """The tags, lengths and all else that the records share."""
    name: str = ""
    """The name of the column with the numbers; empty if the piece has none."""
    dtype: "np.dtype[np.float32] | np.dtype[np.uint8]" = BYTE
    count: int = 0
    """How many numbers the piece has in each record."""


class RowWriter:
    """Writes rows of one layout, all at once."""

    def __init__(self, pieces: Sequence[Piece], start: bytes = b"") -> None:
        """`start`: the bytes before the pieces of every row."""
        content = start
        named = []
        for piece in pieces:
            if piece.count:
                named.append((piece, len(content) + len(piece.head)))
            content += piece.head + bytes(piece.count * piece.dtype.itemsize)
        self._template = np.frombuffer(content, np.uint8)
        self._dtype = np.dtype(
            {
                "names": [piece.name for piece, _ in named],
                "formats": [(piece.dtype, (piece.count,)) for piece, _ in named],
                "offsets": [offset for _, offset in named],
                "itemsize": len(content),
            }
        )

    def write(self, rows: int, columns: Mapping[str, NDArray[np.generic]]) -> NDArray[np.uint8]:
        """Make the rows [rows, bytes]. Columns are [rows, count]; every piece with numbers needs its own."""
        table = np.empty((rows, len(self._template)), np.uint8)
        table[:] = self._template
        if self._dtype.names:
            records = table.view(self._dtype)[:, 0]
            for name in self._dtype.names:
                records[name] = columns[name]
        return table


class RecordWriter:
    """Writes field 1 of a list message: one record per row of the columns."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        size = sum(len(piece.head) + piece.count * piece.dtype.itemsize for piece in pieces)
        self._rows = RowWriter(pieces, head(1, size))

    def write(self, rows: int, columns: Mapping[str, NDArray[np.generic]]) -> bytes:
        """The list's content; see `RowWriter.write`."""
        return self._rows.write(rows, columns).tobytes()
