"""Lists of records of one layout, written a column at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .write import head

FLOAT = np.dtype("<f4")
BYTE = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a record: fixed bytes, then numbers."""

    head: bytes
    """Tags and lengths and whatever else all records share."""
    name: str = ""
    """Of the column that the numbers come from; empty where the piece has none."""
    dtype: "np.dtype[np.float32] | np.dtype[np.uint8]" = BYTE
    count: int = 0
    """Numbers per record."""


class RowWriter:
    """Writes rows of one layout again and again, all rows at once."""

    def __init__(self, pieces: Sequence[Piece], start: bytes = b"") -> None:
        """`start`: what every row begins with, before the pieces."""
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
        """The rows [rows, bytes]. Columns are [rows, count]; every piece with numbers needs its own."""
        table = np.empty((rows, len(self._template)), np.uint8)
        table[:] = self._template
        if self._dtype.names:
            records = table.view(self._dtype)[:, 0]
            for name in self._dtype.names:
                records[name] = columns[name]
        return table


class RecordWriter:
    """Writes field 1 of a list message again and again: one record per row of the columns."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        size = sum(len(piece.head) + piece.count * piece.dtype.itemsize for piece in pieces)
        self._rows = RowWriter(pieces, head(1, size))

    def write(self, rows: int, columns: Mapping[str, NDArray[np.generic]]) -> bytes:
        """The list's content; see `RowWriter.write`."""
        return self._rows.write(rows, columns).tobytes()
