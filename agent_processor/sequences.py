"""Orders and paddings that trainers apply to the columns of a `Rollout`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PaddedSequences:
    """Trajectories padded at their ends to whole sequences, as a recipe for columns: P padded rows."""

    index: NDArray[np.int64]
    """[P] the step that each padded row is taken from; padding repeats the trajectory's last step."""
    real: NDArray[np.bool_]
    """[P] False for padding."""

    def column(self, steps: NDArray[Any], repeat_last: bool = False) -> NDArray[Any]:
        """A column [N, ...] as [P, ...]: padding is zeros, or repeats the last step (action masks)."""
        padded = steps[self.index]
        if not repeat_last:
            padded[~self.real] = 0
        return padded


def pad_sequences(lengths: NDArray[np.int64], sequence_length: int) -> PaddedSequences:
    """Pad trajectories of `lengths` [J], which lie one after another, to multiples of `sequence_length`."""
    padded = -(-lengths // sequence_length) * sequence_length
    starts = np.repeat(np.cumsum(padded) - padded, padded)
    within = np.arange(len(starts)) - starts
    last = np.repeat(lengths, padded) - 1
    first_step = np.repeat(np.cumsum(lengths) - lengths, padded)
    return PaddedSequences(first_step + np.minimum(within, last), within <= last)


def newest(n: int, max_length: int, sequence_length: int = 1) -> slice:
    """Which of n entries stay when no more than `max_length` may: the newest whole sequences, or all."""
    if n <= max_length:
        return slice(0, n)
    return slice(n - (max_length - max_length % sequence_length), n)


def next_steps(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N] where the step after each step stands in [N steps, J ends].

    A trajectory's last step is followed by its own entry among the J ends, as in `next_obs` of a `Rollout`.
    """
    total = int(lengths.sum())
    following = np.arange(1, total + 1, dtype=np.int64)
    following[np.cumsum(lengths) - 1] = total + np.arange(len(lengths))
    return following


def gather_mates(column: NDArray[Any], mates: NDArray[np.int64], fill: float) -> NDArray[Any]:
    """The teammates' entries [steps, M, ...] of a column [N, ...]; `fill` where `mates` [steps, M] is -1."""
    found = column[np.maximum(mates, 0)]
    found[mates < 0] = fill
    return found
