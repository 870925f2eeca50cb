"""The steps that wait for the next policy update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ...envs.base import ObsArray
from ...envs.images import as_floats
from .image_buffer import ImageBuffer

IMAGE_AXES = 4
"""Of a column of pictures: [N, C, H, W]."""


@dataclass(slots=True)
class EvaluatedSteps:
    """Columns of N steps with what the critic made of them; S reward signals."""

    obs: list[ObsArray]
    continuous: NDArray[np.float32]
    discrete: NDArray[np.int32]
    log_probs: NDArray[np.float32]
    action_mask: NDArray[np.bool_] | None
    values: NDArray[np.float32]
    """[N, S], of the critic when the steps came in."""
    returns: NDArray[np.float32]
    """[N, S]."""
    advantages: NDArray[np.float32]
    """[N], mean over the signals, not normalised."""
    real: NDArray[np.bool_] | None = None
    """[N], False for padding. With a memory the N rows are whole sequences, trajectories padded to these."""
    memory: NDArray[np.float32] | None = None
    critic_memory: NDArray[np.float32] | None = None
    """[sequences, memory_size], the actor's and the critic's states before each sequence."""

    def __len__(self) -> int:
        return len(self.advantages)

    def restored(self) -> EvaluatedSteps:
        """Nothing in them belongs to one process."""
        return self


AnySteps = TypeVar("AnySteps")


class Columns(Protocol):
    """What a buffer keeps: a data class of arrays, None, and lists of arrays.

    Arrays of several parts are joined along their first axis. Those of two axes may differ in width when they
    hold row numbers, of which -1 stands for none.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __len__(self) -> int:
        """The number of steps that count; some columns may hold more rows."""
        ...

    def restored(self: AnySteps) -> AnySteps:
        """These steps, which a checkpoint held, fit for being joined to steps of this process."""
        ...


class OnPolicySteps(Columns, Protocol):
    """What an update of the policy learns from."""

    advantages: NDArray[np.float32]
    """[N]."""
    returns: NDArray[np.float32]
    """[N, S]."""


Kept = TypeVar("Kept", bound=Columns)
Steps = TypeVar("Steps", bound=OnPolicySteps)


@dataclass(frozen=True, slots=True)
class RolloutEvaluation(Generic[Steps]):
    """What an algorithm makes of some trajectories."""

    steps: Steps
    """For the update buffer."""
    estimates: Mapping[str, NDArray[np.float32]]
    """What the critic expects of each of the trajectories' own steps [steps, S], by the statistic's name."""


def concatenate(parts: Sequence[Kept]) -> Kept:
    """One block of columns out of several (at least one) of the same kind."""
    return joined(list(parts))


def joined(parts: list[Kept]) -> Kept:
    """As `concatenate`, but the list is empty behind it, so that memory is not taken twice.

    All columns are made before the first part is let go: where memory ends, nothing is lost.
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
    """A column for these parts. The system gives its memory only as it is filled."""
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, list):
        return [_room(list(of_one)) for of_one in zip(*parts, strict=True)]
    # Pictures of a resumed run that came as bytes come as numbers now, or the other way round.
    kinds = {part.dtype for part in parts}
    shape = [sum(len(part) for part in parts), *first.shape[1:]]
    if len(shape) == 2:
        shape[1] = max(part.shape[1] for part in parts)
    return np.empty(shape, first.dtype if len(kinds) == 1 else np.float32)


def _fill(column: Any, parts: list[Any]) -> None:
    """Copy the parts into their column, each of which leaves the list when it is copied."""
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


class RolloutBuffer(Generic[Kept]):
    """Collects evaluated steps until an update takes them all.

    Pictures go at once to where they stay: joined at last, they would take their memory twice.
    """

    def __init__(self, kind: type[Kept], expected: int = 0) -> None:
        """Begin empty.

        Args:
            kind: the class of the steps, for what a checkpoint holds.
            expected: about how many steps an update takes.
        """
        self._kind = kind
        self._expected = expected
        self._parts: list[Kept] = []
        self._albums: dict[tuple[str, int], ImageBuffer] = {}
        """By column, and place in its list."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, steps: Kept) -> None:
        """Add the steps of some trajectories."""
        pictures = {
            (field.name, k): array
            for field in fields(self._kind)
            if isinstance(column := getattr(steps, field.name), list)
            for k, array in enumerate(column)
            if array.ndim == IMAGE_AXES
        }
        for place, array in pictures.items():
            self._albums.setdefault(place, ImageBuffer(self._expected)).reserve(array)
        for place, array in pictures.items():
            self._albums[place].append(array)
        self._parts.append(self._without(steps, pictures) if pictures else steps)
        self._length += len(steps)

    def _without(self, steps: Kept, pictures: Mapping[tuple[str, int], ObsArray]) -> Kept:
        """The steps with no pictures, and with copies of all else, which may be views beside these."""
        columns = {f.name: _copied(getattr(steps, f.name)) for f in fields(self._kind)}
        for (name, k), array in pictures.items():
            columns[name][k] = np.empty((0, *array.shape[1:]), array.dtype)
        return self._kind(**columns)

    def _with(self, steps: Kept, pictures: Mapping[tuple[str, int], ObsArray]) -> Kept:
        """The steps with these pictures."""
        columns = {f.name: getattr(steps, f.name) for f in fields(self._kind)}
        for (name, k), array in pictures.items():
            columns[name] = [*columns[name][:k], array, *columns[name][k + 1 :]]
        return self._kind(**columns)

    def columns(self) -> Kept:
        """All steps, in the order in which they came; the buffer must not be empty."""
        self._parts = [joined(self._parts)]
        albums = {place: album.pictures() for place, album in self._albums.items() if len(album)}
        return self._with(self._parts[0], albums)

    def clear(self) -> None:
        """Forget everything."""
        self._parts, self._length = [], 0
        for album in self._albums.values():
            album.clear()

    def state_dict(self) -> dict[str, Any]:
        """Tensors for a checkpoint; {} when empty."""
        if not self._parts:
            return {}
        steps = self.columns()
        columns = {f.name: getattr(steps, f.name) for f in fields(self._kind)}
        return {name: _tensors(column) for name, column in columns.items() if column is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.clear()
        if state:
            columns = {f.name: _arrays(state.get(f.name)) for f in fields(self._kind)}
            self.append(self._kind(**columns).restored())


def _copied(column: Any) -> Any:
    if isinstance(column, list):
        return [array if array.ndim == IMAGE_AXES else array.copy() for array in column]
    return None if column is None else column.copy()


def _tensors(column: Any) -> Any:
    if isinstance(column, list):
        return [torch.from_numpy(c) for c in column]
    # A copy: columns may be views of one piece of memory, which torch saves whole, and of one type only.
    return torch.from_numpy(column.copy())


def _arrays(column: Any) -> Any:
    if isinstance(column, list):
        return [c.numpy() for c in column]
    return None if column is None else column.numpy()
