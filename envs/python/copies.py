"""Copies of one environment that are stepped side by side within a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def seed_of_copy(seed: int | None, copy: int) -> int | None:
    """A copy's seed: the first has the one that was given, as if it was alone. None: chance of its own."""
    if seed is None or copy == 0:
        return seed
    return int(np.random.SeedSequence((seed & 0xFFFFFFFF, copy)).generate_state(1)[0] >> 1)


class Copies:
    """Hands out copies one after the other. The first is there already, and shows of which kind they are."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        """`make`: makes the copy of this number, from 0 on."""
        self._make = make
        self._handed_out = 0
        self.first: Any = make(0)

    def __call__(self) -> Any:
        """The next one."""
        number = self._handed_out
        self._handed_out += 1
        return self._make(number) if number else self.first
