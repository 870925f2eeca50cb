"""Copies of one environment that are stepped side by side within a process."""

from __future__ import annotations

import numpy as np


def seed_of_copy(seed: int | None, copy: int) -> int | None:
    """A copy's seed: the first has the one that was given, as if it was alone. None: chance of its own."""
    if seed is None or copy == 0:
        return seed
    return int(np.random.SeedSequence((seed & 0xFFFFFFFF, copy)).generate_state(1)[0] >> 1)
