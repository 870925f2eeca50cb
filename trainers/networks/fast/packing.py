"""Sequences of different lengths as torch packs them, and what a pass through them gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Packing(NamedTuple):
    """The order of B sequences and of their P rows: all first steps, then all second ones, and so on."""

    order: Ints
    """[B] the sequences, the longest first."""
    rows: Ints
    """[P] the rows."""
    counts: list[int]
    """How many sequences have a first step, a second one, ..."""

    @classmethod
    def of(cls, first: Ints, lengths: Ints) -> Packing:
        """Of sequences that start in the rows `first` [B] and have `lengths` [B], at least 1, rows each."""
        order = np.argsort(-lengths, kind="stable")
        steps = np.arange(lengths[order[0]])[:, None]
        present = steps < lengths[order]
        return cls(order, (first[order] + steps)[present], present.sum(1).tolist())

    @property
    def before(self) -> Ints:
        """[P] where each row's state before it is, among B first states followed by those after each row."""
        starts = np.cumsum([0, self.counts[0], *self.counts[:-1]])
        return np.concatenate([np.arange(at, at + n) for at, n in zip(starts, self.counts)])

    @property
    def padded(self) -> Ints:
        """[P] where each row is among those of B sequences of equal length, step by step."""
        return np.concatenate([np.arange(n) + t * self.counts[0] for t, n in enumerate(self.counts)])


class PackedPass(ABC):
    """A pass through P packed rows, kept for the backward pass."""

    out: Tensor
    """[S, P, H] the outputs."""

    @abstractmethod
    def backward(self, d_out: Tensor) -> Tensor:
        """Write the gradients of all parameters, from that of `out` [S, P, H], which is used up.

        Returns:
            The gradient of the inputs, [S, P, in].
        """
