"""Joins columns of steps that arrive in parts, and stores images without a second copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ...envs.base import ObsArray
from ...envs.images import as_floats

IMAGE_AXES = 4
"""The number of axes of a column of images: [N, C, H, W]."""
SLACK = 1.25
"""The room for images, times the expected number, which trajectories exceed. The system commits memory only
as it is filled."""

AnySteps = TypeVar("AnySteps")


class BufferColumns:
    """What a buffer holds: a dataclass of arrays, None, and lists of arrays.

    Arrays of several parts are concatenated along their first axis. Those of two axes may differ in width
    where they hold row numbers, of which -1 stands for none.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    saved_names: ClassVar[Mapping[str, str]] = {}
    """The names of columns in checkpoints, by their field names, where the two differ."""

    def __len__(self) -> int:
        """The number of steps that count; some columns may hold more rows."""
        raise NotImplementedError

    def restored(self: AnySteps) -> AnySteps:
        """These steps, loaded from a checkpoint, as they can be concatenated with steps of this process.

        They are the same unless something in them belongs to one process.
        """
        return self


Columns = TypeVar("Columns", bound=BufferColumns)


def joined(parts: list[Columns]) -> Columns:
    """One block of columns out of several (at least one) of the same kind.

    The list is emptied, so that memory is not taken twice. All columns are allocated before the first part is
    released: if memory runs out, nothing is lost.
    """
    if len(parts) == 1:
        return parts.pop()
    kind = type(parts[0])
    columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(kind)}
    made = {name: _room(of_parts) for name, of_parts in columns.items()}
    parts.clear()
    for name in made:
        _fill(made[name], columns.pop(name))
    return kind(**made)


def _room(parts: list[Any]) -> Any:
    """An uninitialized column for these parts. The system commits its memory only as it is filled."""
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, list):
        return [_room(list(of_one)) for of_one in zip(*parts, strict=True)]
    # In a resumed run images may be uint8 before and float32 after, or the other way round.
    dtypes = {part.dtype for part in parts}
    shape = [sum(map(len, parts)), *first.shape[1:]]
    if len(shape) == 2:
        shape[1] = max([part.shape[1] for part in parts])
    return np.empty(shape, first.dtype if len(dtypes) == 1 else np.float32)


def _fill(column: Any, parts: list[Any]) -> None:
    """Copy the parts into their column; each leaves the list once it is copied."""
    if column is None:
        return
    if isinstance(column, list):
        of_each = [list(of_one) for of_one in zip(*parts, strict=True)]
        parts.clear()
        for one in column:
            _fill(one, of_each.pop(0))
        return
    start = 0
    parts.reverse()
    while parts:
        part = parts.pop()
        rows = column[start : start + len(part)]
        if column.ndim == 2:
            rows[:, part.shape[1] :] = -1
            rows = rows[:, : part.shape[1]]
        rows[:] = part if part.dtype == column.dtype else as_floats(part)
        start += len(part)


def copied(column: Any) -> Any:
    """A copy of a column; images stay as they are."""
    if isinstance(column, list):
        return [array if array.ndim == IMAGE_AXES else array.copy() for array in column]
    return None if column is None else column.copy()


def as_tensors(column: Any) -> Any:
    """A column as a checkpoint holds it."""
    if isinstance(column, list):
        return [torch.from_numpy(c) for c in column]
    # A copy: columns may be views of one piece of memory, which torch saves whole, and of one type only.
    return torch.from_numpy(column.copy())


def as_arrays(column: Any) -> Any:
    """A column out of a checkpoint."""
    if isinstance(column, list):
        return [c.numpy() for c in column]
    return None if column is None else column.numpy()


class ImageBuffer:
    """The images of one sensor, in order of arrival."""

    def __init__(self, expected: int) -> None:
        """Start empty; more than `expected` images are taken too, but copied when the array has to grow."""
        self._expected = expected
        self._rows: ObsArray | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def reserve(self, images: ObsArray) -> None:
        """Make room for these images; if memory runs out, nothing has changed."""
        need, rows = self._length + len(images), self._rows
        if rows is None:
            self._rows = np.empty((max(need, int(SLACK * self._expected)), *images.shape[1:]), images.dtype)
            return
        # In a resumed run images may be uint8 before and float32 after, or the other way round.
        mixed = rows.dtype != images.dtype and rows.dtype != np.float32
        if len(rows) >= need and not mixed:
            return
        capacity = len(rows) if len(rows) >= need else max(need, 3 * len(rows) // 2)
        wider: NDArray[np.float32] | ObsArray
        wider = np.empty((capacity, *rows.shape[1:]), np.float32 if mixed else rows.dtype)
        wider[: self._length] = as_floats(rows[: self._length]) if mixed else rows[: self._length]
        self._rows = wider

    def append(self, images: ObsArray) -> None:
        """Append images [n, C, H, W] for which there is room."""
        assert self._rows is not None
        rows = self._rows[self._length : self._length + len(images)]
        rows[:] = images if images.dtype == rows.dtype else as_floats(images)
        self._length += len(images)

    def images(self) -> ObsArray:
        """The images [N, C, H, W]: a view that is valid until the buffer is cleared and filled again."""
        assert self._rows is not None
        return self._rows[: self._length]

    def clear(self) -> None:
        """Discard the images but keep the memory; the next ones may have another dtype."""
        self._length = 0
        if self._rows is not None and self._rows.dtype == np.float32:
            self._rows = None
