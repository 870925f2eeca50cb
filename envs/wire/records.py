"""Lists of records of one layout, written a column at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .write import delimited

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


class RecordWriter:
    """Writes field 1 of a list message again and again: one record per row of the columns."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        content = b""
        offsets = []
        for piece in pieces:
            offsets.append(len(content) + len(piece.head))
            content += piece.head + bytes(piece.count * piece.dtype.itemsize)
        record = delimited(1, content)
        ahead = len(record) - len(content)
        named = [(piece, ahead + offset) for piece, offset in zip(pieces, offsets) if piece.count]
        self._template = np.frombuffer(record, np.uint8)
        self._dtype = np.dtype(
            {
                "names": [piece.name for piece, _ in named],
                "formats": [(piece.dtype, (piece.count,)) for piece, _ in named],
                "offsets": [offset for _, offset in named],
                "itemsize": len(record),
            }
        )

    def write(self, rows: int, columns: Mapping[str, NDArray[np.generic]]) -> bytes:
        """The list's content. Columns are [rows, count]; every piece with numbers needs its own."""
        table = np.empty((rows, len(self._template)), np.uint8)
        table[:] = self._template
        records = table.view(self._dtype)[:, 0]
        for name in self._dtype.names or ():
            records[name] = columns[name]
        return table.tobytes()
