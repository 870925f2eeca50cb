"""Prioritized experience replay (Schaul et al. 2016, arXiv 1511.05952)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .observations import Ints

EPSILON = 1e-6
"""Added to each error, so that every step is sampled eventually."""
LARGEST_SHARE = 0.9
"""The weight of a sequence's largest error; the rest is the mean's (Kapturowski et al. 2019, R2D2)."""


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
        """The root at 1; the children of k are 2k and 2k + 1, and k is always exactly their sum, whatever the
        order in which leaves were set: a rebuilt tree is the same to the last bit."""

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._sums[1])

    @property
    def leaves(self) -> NDArray[np.float64]:
        """All weights, as a view; who changes them calls `build`."""
        return self._sums[self._first :]

    def build(self) -> None:
        """Compute all sums from the leaves."""
        for first in (self._first >> level for level in range(1, self.depth + 1)):
            below = self._sums[2 * first : 4 * first]
            self._sums[first : 2 * first] = below[0::2] + below[1::2]

    def weights(self, leaves: Ints) -> NDArray[np.float64]:
        """[n] the weights of these leaves."""
        return self._sums[self._first + leaves]

    def set(self, leaves: Ints, weights: NDArray[np.float64] | float) -> None:
        """Set the weights of these leaves [n], at least 0; the last one counts of duplicates."""
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
        """`alpha`: the exponent of the errors; 0: uniform sampling."""
        self.alpha = alpha
        self.tree = SumTree(units)
        self.largest = 1.0
        """The largest error so far, which new steps get: each should be sampled at least once."""

    def add(self, units: Ints) -> None:
        """These hold new steps."""
        self.tree.set(units, (self.largest + EPSILON) ** self.alpha)

    def drop(self, units: Ints) -> None:
        """These are empty."""
        self.tree.set(units, 0.0)

    def update(self, units: Ints, errors: NDArray[np.float32]) -> None:
        """Set priorities [n] from the errors [n], at least 0, of the last gradient step.

        A unit whose error is not finite keeps its priority.
        """
        known = np.isfinite(errors)
        units, sizes = units[known], errors[known].astype(np.float64)
        self.largest = max(self.largest, float(sizes.max(initial=0.0)))
        self.tree.set(units, (sizes + EPSILON) ** self.alpha)

    def sample(self, uniform: NDArray[np.float64]) -> Ints:
        """[n] units from uniform numbers [n] in [0, 1), one from each equal part of the sum (stratified)."""
        parts = (np.arange(len(uniform)) + uniform) / len(uniform)
        return self.tree.find(np.minimum(parts * self.tree.total, np.nextafter(self.tree.total, 0.0)))

    def importance_weights(self, units: Ints, held: int, beta: float) -> NDArray[np.float32]:
        """[n] importance weights of these units, which correct the bias of sampling; the largest is 1.

        Args:
            units: as sampled.
            held: the number of units that can be sampled.
            beta: how much of the bias is corrected; 1: all.
        """
        probabilities = self.tree.weights(units) / self.tree.total
        weights = (held * probabilities) ** -beta
        scaled: NDArray[np.float32] = (weights / weights.max()).astype(np.float32)
        return scaled


def sequence_priorities(
    errors: NDArray[np.float32], real: NDArray[np.bool_], length: int
) -> NDArray[np.float32]:
    """The error of each sequence of `length` steps, from its real steps' [B]."""
    sizes = np.where(real, errors, 0.0).reshape(-1, length)
    means = sizes.sum(axis=1) / np.maximum(real.reshape(-1, length).sum(axis=1), 1)
    shares: NDArray[np.float32] = LARGEST_SHARE * sizes.max(axis=1) + (1.0 - LARGEST_SHARE) * means
    return shares.astype(np.float32)
