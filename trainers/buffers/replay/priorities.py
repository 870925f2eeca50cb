"""Drawing by how wrong values were: prioritised experience replay (Schaul et al. 2016, arXiv 1511.05952)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .observations import Ints

SMALLEST = 1e-6
"""Added to every error, so that each step is drawn some day."""
LARGEST_SHARE = 0.9
"""A sequence's error: so much of the largest and else of the mean (Kapturowski et al. 2019, R2D2)."""


def tree_bytes(leaves: int) -> int:
    """Bytes of a `SumTree`."""
    return 16 << _depth(leaves)


def _depth(leaves: int) -> int:
    return max(1, (leaves - 1).bit_length())


class SumTree:
    """Weights of n leaves, and how many of them lie below a sum; all operations on arrays."""

    def __init__(self, leaves: int) -> None:
        self.depth = _depth(leaves)
        self._first = 1 << self.depth
        self._sums: NDArray[np.float64] = np.zeros(2 * self._first, np.float64)
        """The root at 1; below k lie 2k and 2k + 1. Always exactly the sum of the two, whatever the order
        in which leaves were set: so a tree that is built anew is the same to the last bit."""

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._sums[1])

    @property
    def leaves(self) -> NDArray[np.float64]:
        """All weights, as a view; who changes them calls `build`."""
        return self._sums[self._first :]

    def build(self) -> None:
        """Sum anew, from the leaves."""
        for first in (self._first >> level for level in range(1, self.depth + 1)):
            below = self._sums[2 * first : 4 * first]
            self._sums[first : 2 * first] = below[0::2] + below[1::2]

    def weights(self, leaves: Ints) -> NDArray[np.float64]:
        """[n] the weights of these leaves."""
        return self._sums[self._first + leaves]

    def set(self, leaves: Ints, weights: NDArray[np.float64] | float) -> None:
        """Give these leaves [n] weights of at least 0; where one is named twice its last weight counts."""
        if not len(leaves):
            return
        nodes = self._first + leaves
        self._sums[nodes] = weights
        for _ in range(self.depth):
            nodes = np.unique(nodes >> 1)
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, sums: NDArray[np.float64]) -> Ints:
        """[n] the leaves at which the running sum of the weights first exceeds `sums` [n], below the total.

        Never a leaf of weight 0, unless all are.
        """
        nodes, rest = np.ones(len(sums), np.int64), sums.copy()
        for _ in range(self.depth):
            nodes = 2 * nodes
            left = self._sums[nodes]
            right = (rest >= left) & (self._sums[nodes + 1] > 0.0)
            rest -= np.where(right, left, 0.0)
            nodes += right
        return nodes - self._first


class Priorities:
    """The priority of each sequence of a replay (of each step, without a memory)."""

    def __init__(self, units: int, alpha: float) -> None:
        """`alpha`: how much errors count; 0: not at all."""
        self.alpha = alpha
        self.tree = SumTree(units)
        self.largest = 1.0
        """The largest error so far, which new steps are given: each is to be drawn at least once."""

    def begin(self, units: Ints) -> None:
        """These hold new steps."""
        self.tree.set(units, (self.largest + SMALLEST) ** self.alpha)

    def drop(self, units: Ints) -> None:
        """These hold nothing any more."""
        self.tree.set(units, 0.0)

    def renew(self, units: Ints, errors: NDArray[np.float32]) -> None:
        """These [n] were learnt from, and their errors [n], at least 0, found.

        Of an error that is no finite number nothing is known; the unit keeps the priority that it has.
        """
        known = np.isfinite(errors)
        units, sizes = units[known], errors[known].astype(np.float64)
        self.largest = max(self.largest, float(sizes.max(initial=0.0)))
        self.tree.set(units, (sizes + SMALLEST) ** self.alpha)

    def draw(self, chances: NDArray[np.float64]) -> Ints:
        """As many units as there are numbers in [0, 1): one of each equal part of the sum."""
        parts = (np.arange(len(chances)) + chances) / len(chances)
        return self.tree.find(np.minimum(parts * self.tree.total, np.nextafter(self.tree.total, 0.0)))

    def importance(self, units: Ints, held: int, beta: float) -> NDArray[np.float32]:
        """[n] what steps of these units count, against the bias of drawing; the largest 1.

        Args:
            units: as drawn.
            held: how many units there are to draw from.
            beta: how much of the bias is corrected; 1: all.
        """
        chances = self.tree.weights(units) / self.tree.total
        importance = (held * chances) ** -beta
        scaled: NDArray[np.float32] = (importance / importance.max()).astype(np.float32)
        return scaled


def of_sequences(errors: NDArray[np.float32], real: NDArray[np.bool_], length: int) -> NDArray[np.float32]:
    """The error of each sequence of `length` steps, from its real steps' [B]."""
    sizes = np.where(real, errors, 0.0).reshape(-1, length)
    means = sizes.sum(axis=1) / np.maximum(real.reshape(-1, length).sum(axis=1), 1)
    shares: NDArray[np.float32] = LARGEST_SHARE * sizes.max(axis=1) + (1.0 - LARGEST_SHARE) * means
    return shares.astype(np.float32)
