"""Small curves made of characters: a history of bounded length, drawn in Braille dots or in blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"
_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of a Braille character: [column][row from the top]."""


class History:
    """A series that keeps its whole shape within `capacity` points: when full, neighbours are averaged.

    Every point then stands for twice as many values as before; values that are not finite are left out.
    """

    def __init__(self, capacity: int = 512) -> None:
        self.capacity = capacity
        self.points: list[float] = []
        self._per_point = 1
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        """Append a value."""
        if not math.isfinite(value):
            return
        self._sum += value
        self._count += 1
        if self._count < self._per_point:
            return
        self.points.append(self._sum / self._count)
        self._sum, self._count = 0.0, 0
        if len(self.points) >= self.capacity:
            pairs = zip(self.points[0::2], self.points[1::2])
            self.points = [(first + second) / 2 for first, second in pairs]
            self._per_point *= 2


def sparkline(values: Sequence[float], width: int) -> str:
    """One line of at most `width` block characters, lowest value to highest."""
    points = _resample(values, width) if len(values) > width else list(values)
    return "".join(_BLOCKS[round(height * (len(_BLOCKS) - 1))] for height in _heights(points))


def braille(values: Sequence[float], width: int, rows: int) -> list[str]:
    """A connected curve, `rows` lines of `width` characters (2 x 4 dots each), the highest value on top."""
    canvas = [[_BLANK] * width for _ in range(rows)]
    columns, levels = 2 * width, 4 * rows
    if len(values) == 1:
        values = [values[0], values[0]]
    heights = _heights(_resample(values, columns)) if values else []
    previous = None
    for column, height in enumerate(heights):
        level = round(height * (levels - 1))
        start = level if previous is None else previous
        step = 1 if level >= start else -1
        for dot in range(start + step if level != start else level, level + step, step):
            row, inside = divmod(levels - 1 - dot, 4)
            canvas[row][column // 2] |= _DOTS[column % 2][inside]
        previous = level
    return ["".join(map(chr, row)) for row in canvas]


def _heights(values: Sequence[float]) -> list[float]:
    """Each value between 0 (the lowest) and 1 (the highest); all in the middle where they are equal."""
    if not values:
        return []
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def _resample(values: Sequence[float], count: int) -> list[float]:
    """`count` values along the line through `values`; means where there are more of them than that."""
    if len(values) > count:
        bounds = [index * len(values) // count for index in range(count + 1)]
        return [sum(values[a:b]) / (b - a) for a, b in pairwise(bounds)]
    out = []
    for index in range(count):
        position = index * (len(values) - 1) / max(count - 1, 1)
        left = min(int(position), len(values) - 1)
        right = min(left + 1, len(values) - 1)
        out.append(values[left] + (values[right] - values[left]) * (position - left))
    return out
