"""How several learners make one gradient: each from its part of a minibatch, and then their sum.

A loss is a mean over those rows of a minibatch that count. With c_k of them in the part of learner k, of C in
all, the mean over all is the sum over k of c_k / C times the mean over part k; and so is its gradient. Every
learner weighs its own by that and adds up over all (`torch.distributed`), and every learner then makes the
same step from the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor
from torch import distributed as dist

from .errors import TrainerError


class LearnerLostError(TrainerError):
    """A further learner has gone, or does not come to an exchange."""


class Sharing:
    """The learners of a run, as one of them sees them."""

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        entered: Callable[[], None] = lambda: None,
        failed: Callable[[RuntimeError], Exception] = lambda error: error,
    ) -> None:
        """Of `size` learners that have joined a process group, the one of this rank.

        Args:
            rank: 0 is the process that collects and acts.
            size: at least 2.
            entered: called before each exchange; so is seen who does not come to it.
            failed: the error to raise where an exchange has failed.
        """
        self.rank, self.size = rank, size
        self._entered, self._failed = entered, failed

    def rows(self, count: int) -> slice:
        """This learner's of a minibatch's `count` rows, or other units: consecutive ones, as many as others'.

        Where there are too few for all, some learners get the first one too, which then counts nothing there.
        """
        start, stop = count * self.rank // self.size, count * (self.rank + 1) // self.size
        return slice(start, stop) if stop > start else slice(0, 1)

    def has_own(self, count: int) -> bool:
        """Whether `rows` are this learner's own, and so count."""
        return count * (self.rank + 1) // self.size > count * self.rank // self.size

    def part(self, count: int) -> Part:
        """This learner's part of a minibatch of `count` rows that all count."""
        rows = self.rows(count)
        return Part(self, rows, count, (rows.stop - rows.start) / count if self.has_own(count) else 0.0)

    def whole(self) -> Part:
        """A part that needs no more than to be added to the others'."""
        return Part(self, slice(None), 0, 1.0)

    def of_first(self) -> Part:
        """What the first learner learns from alone; the others take over its gradient."""
        return Part(self, slice(None), 0, 1.0 if self.rank == 0 else 0.0)

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum of all learners' tensors, in place of this one's.

        Raises:
            Exception: a learner has gone, or does not come.
        """
        self._entered()
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            raise self._failed(error) from error
        return tensor

    def broadcast(self, tensor: Tensor) -> None:
        """Give the first learner's tensor to all others, in place.

        Raises:
            Exception: as `add_up`.
        """
        self._entered()
        try:
            dist.broadcast(tensor, 0)
        except RuntimeError as error:
            raise self._failed(error) from error


class Sharer(Protocol):
    """What learns by minibatches that learners share."""

    sharing: Sharing | None
    """None: it learns alone."""


def of_whole(part: Part | None, rows: int) -> tuple[int, slice]:
    """How many rows the whole minibatch has of which `rows` are here, and which of them these are.

    What is drawn by chance is drawn for all rows, whoever learns from which.
    """
    return (rows, slice(None)) if part is None else (part.of, part.rows)


@dataclass(frozen=True, slots=True)
class Part:
    """One learner's part of a minibatch."""

    sharing: Sharing
    rows: slice
    """Of the whole minibatch's."""
    of: int
    """How many the whole minibatch has."""
    weight: float
    """How many of all rows that count are in it, from 0 to 1."""

    def weighing(self, own: float, of: float) -> Part:
        """The same rows, of which as many count as `own`, and `of` in the whole minibatch."""
        return replace(self, weight=float(own / of) if self.weight and of else 0.0)

    def add_up(self, gradient: Tensor) -> None:
        """Make the gradient of this part, a mean over its rows, that of the whole minibatch, in place."""
        self.sharing.add_up(gradient.mul_(self.weight))

    def whole(self, *means: float) -> list[float]:
        """The means over the whole minibatch, of those over this part."""
        found: list[float]
        found = self.sharing.add_up(torch.tensor(means, dtype=torch.float64) * self.weight).tolist()
        return found

    def wholes(self, means: Mapping[str, float]) -> dict[str, float]:
        """The same by name; every learner has the same names."""
        return dict(zip(means, self.whole(*means.values()), strict=True))
