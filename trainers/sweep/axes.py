"""The axes of a picture: where a value lies between two edges, and which values are written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .space import Dimension, shown

_MARGIN = 0.06
"""Share of an axis that stays free at each end."""
_FEW = 6
"""So many values have a mark each."""


@dataclass(frozen=True)
class Axis:
    """Maps values to 0 (left, below) ... 1 (right, above)."""

    low: float
    high: float
    log: bool = False
    choices: tuple[str, ...] = ()
    """Where values have no order, what they are called."""
    few: tuple[float, ...] = ()
    """All values, where they are so few that each can be written."""

    @classmethod
    def of(cls, one: Dimension) -> Axis:
        """The axis of a parameter, over all that it may be."""
        values = one.parameter.values
        if values is not None and not _ordered(values):
            return cls(0, len(values) - 1, choices=tuple(shown(value) for value in values))
        few = tuple(one.all or ()) if len(one.all or ()) <= _FEW else ()
        if values is not None:
            return cls(min(values), max(values), 0 < 10 * min(values) <= max(values), few=few)
        low, high = one.ends
        return cls(low, high, one.parameter.log, few=few)

    @classmethod
    def over(cls, values: Sequence[float]) -> Axis:
        """An axis that these values fill."""
        low, high = min(values), max(values)
        if low == high:
            spread = abs(low) * 0.1 or 1.0
            low, high = low - spread, high + spread
        return cls(low, high)

    def place(self, value: Any) -> float:
        """Where `value` lies."""
        number = self.choices.index(shown(value)) if self.choices else float(value)
        low, high = self.low, self.high
        if self.log:
            low, high, number = math.log(low), math.log(high), math.log(number)
        share = (number - low) / (high - low)
        return _MARGIN + (1 - 2 * _MARGIN) * share

    def marks(self) -> list[tuple[float, str]]:
        """Round values with their places."""
        if self.choices:
            return [(self.place(choice), choice) for choice in self.choices]
        round_values = _decades if self.log else _round_values
        values = self.few or round_values(self.low, self.high)
        return [(self.place(value), shown(value)) for value in values]


def _ordered(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _round_values(low: float, high: float) -> list[float]:
    """About five multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [_plain(round((first + k) * step, digits)) for k in range(count)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten; with fewer than two of them the ends."""
    powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    marks = [_plain(float(f"1e{power}")) for power in powers]
    return marks if len(marks) >= 2 else [_plain(low), _plain(high)]


def _plain(value: float) -> float:
    return int(value) if value == int(value) and abs(value) < 1e4 else value
