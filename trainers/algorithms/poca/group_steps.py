"""Group-steps: the steps of a group's members that belong to one time.

A step's set is the agent's own row with those of its teammates. Steps with the same set belong to one
group-step, whose value is computed once. Where sets differ (a dying member sees its teammates one step old,
members decide at different times, trajectories were cut apart) a step has a group-step of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """G sets of rows, and the W steps that belong to them, one set after another."""

    members: Ints
    """[G, n] rows in ascending order, then -1."""
    steps: Ints
    """[W] steps, those of set 0 first."""
    slots: Ints
    """[W] the index of each of these steps among the members of its set."""
    counts: Ints
    """[G] the number of steps that belong to each set."""

    def __len__(self) -> int:
        return len(self.members)

    def take(self, which: Ints) -> GroupSteps:
        """Some of the sets, in this order."""
        starts = np.cumsum(self.counts) - self.counts
        counts = self.counts[which]
        at = np.repeat(starts[which] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        members = self.members[which]
        widest = int((members >= 0).sum(1).max(initial=1))
        return GroupSteps(members[:, :widest], self.steps[at], self.slots[at], counts)

    def chunks(self, size: int) -> Iterator[GroupSteps]:
        """All sets in order, in chunks of at most `size` pairs of members, or of one set.

        The baselines of a set of n members compare n * n pairs, however few of its steps there are; smaller
        sets in the same chunk are padded to as many.
        """
        members = (self.members >= 0).sum(1)
        start = 0
        while start < len(self):
            widest = np.maximum.accumulate(members[start : start + size])
            pairs = widest**2 * np.arange(1, len(widest) + 1)
            stop = start + max(1, int(np.searchsorted(pairs, size, side="right")))
            yield self.take(np.arange(start, stop))
            start = stop


def group_by_time(own: Ints, teammates: Ints | None) -> GroupSteps:
    """Sort steps into group-steps.

    Args:
        own: [W] each step's row.
        teammates: [W, M] the rows of its teammates, -1 where there is none; None: no step has any.
    """
    sets = own[:, None] if teammates is None else np.concatenate([own[:, None], teammates], axis=1)
    none = np.iinfo(np.int64).max
    ordered = np.sort(np.where(sets < 0, none, sets), axis=1)
    members, of_step = _distinct(ordered)
    steps = np.argsort(of_step, kind="stable")
    slots = (members[of_step[steps]] < own[steps, None]).sum(1)
    members = np.where(members == none, -1, members)
    return GroupSteps(members, steps, slots, np.bincount(of_step, minlength=len(members)))


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
