"""Group-moments: the members of a group whose steps belong to one time.

A step's set is the agent's own row with those of its teammates. Steps with the same set belong to one moment,
whose value is computed once. Where sets differ (a dying member sees its mates one step old, members decide at
different times, trajectories were cut apart) a step stands alone with the set it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """G sets of rows, and the W steps that belong to them, moment by moment."""

    members: Ints
    """[G, n] rows in ascending order, -1 behind them."""
    steps: Ints
    """[W] steps, those of moment 0 first."""
    places: Ints
    """[W] where each of these steps stands among its moment's members."""
    counts: Ints
    """[G] how many of the steps belong to each moment."""

    def __len__(self) -> int:
        return len(self.members)

    def take(self, which: Ints) -> GroupSteps:
        """Some of the moments, in this order."""
        starts = np.cumsum(self.counts) - self.counts
        counts = self.counts[which]
        at = np.repeat(starts[which] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        members = self.members[which]
        widest = int((members >= 0).sum(1).max(initial=1))
        return GroupSteps(members[:, :widest], self.steps[at], self.places[at], counts)

    def minibatches(self, order: Ints, size: int) -> Iterator[GroupSteps]:
        """The moments in this order, cut into parts of about `size` steps; what is left over is not used.

        There are as many parts as a cut into exactly `size` steps would give. A step that stands alone in a
        set of n members costs as much as n steps that share theirs: where many do, as in teams whose members
        decide at different times, a part takes up to n times the memory.
        """
        ends = np.cumsum(self.counts[order])
        number = int(ends[-1]) // size if len(ends) else 0
        cuts = np.searchsorted(ends, size * np.arange(1, number + 1), side="left") + 1
        start = 0
        for cut in cuts.tolist():
            if cut > start:
                yield self.take(order[start:cut])
            start = max(start, cut)

    def portions(self, size: int) -> Iterator[GroupSteps]:
        """All moments in order, in parts of at most `size` pairs of members, or of one moment.

        The baselines of a set of n members compare n * n pairs, and as many in each set beside it, however
        few of its steps are there.
        """
        members = (self.members >= 0).sum(1)
        start = 0
        while start < len(self):
            widest = np.maximum.accumulate(members[start : start + size])
            pairs = widest**2 * np.arange(1, len(widest) + 1)
            stop = start + max(1, int(np.searchsorted(pairs, size, side="right")))
            yield self.take(np.arange(start, stop))
            start = stop


def group_by_time(own: Ints, mates: Ints | None) -> GroupSteps:
    """Sort steps into moments.

    Args:
        own: [W] each step's row.
        mates: [W, M] the rows of its teammates, -1 where there is none; None: nobody has any.
    """
    sets = own[:, None] if mates is None else np.concatenate([own[:, None], mates], axis=1)
    none = np.iinfo(np.int64).max
    ordered = np.sort(np.where(sets < 0, none, sets), axis=1)
    members, moment = _distinct(ordered)
    steps = np.argsort(moment, kind="stable")
    places = (members[moment[steps]] < own[steps, None]).sum(1)
    members = np.where(members == none, -1, members)
    return GroupSteps(members, steps, places, np.bincount(moment, minlength=len(members)))


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The different rows [G, n] of a table [W, n], and for each of its rows which that is [W]."""
    if not len(rows):
        return rows, np.zeros(0, dtype=np.int64)
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    return ordered[new], which
