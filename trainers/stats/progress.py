"""The progress of each behavior for the display: steps, rate, time left, and curves made of characters."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

from .earned import GROUP_REWARD, REWARD
from .summary import StatsSummary

_WINDOW = 15.0
"""Seconds over which the rate is measured: long enough to even out collecting and learning."""


class BehaviorProgress:
    """The state of one behavior's training, for a display. Times are seconds of any steady clock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.step: int = 0
        self.max_steps: int | None = None
        """Steps at which training ends; None if unknown, or if training runs until it is stopped."""
        self.checkpoint: int | None = None
        """The step of the newest checkpoint."""
        self.rewards = History()
        self._by_groups = False
        """Groups earn rewards, which then are the behavior's."""
        self.reward: float | None = None
        """Mean reward of the latest summary in which an episode ended."""
        self.reward_std: float | None = None
        self.latest: dict[str, float] = {}
        """The latest value of every other statistic."""
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, values: Mapping[str, StatsSummary]) -> None:
        """Add a summary."""
        self.latest.update({key: summary.aggregated_value for key, summary in values.items()})
        of_groups = values.get(GROUP_REWARD)
        if of_groups is not None and any(of_groups.full_dist) and not self._by_groups:
            self._by_groups, self.rewards = True, History()
        rewards = of_groups if self._by_groups else values.get(REWARD)
        if rewards is not None and rewards.num:
            self.reward, self.reward_std = rewards.mean, rewards.std
            self.rewards.add(self.reward)

    def sample(self, now: float) -> None:
        """Sample the step counter; the rate is measured between samples."""
        self._samples.append((now, self.step))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _WINDOW:
            self._samples.popleft()

    @property
    def rate(self) -> float | None:
        """Recent agent-steps per second; None while unknown."""
        if len(self._samples) < 2:
            return None
        (first, start), (last, end) = self._samples[0], self._samples[-1]
        return (end - start) / (last - first) if last > first else None

    @property
    def fraction(self) -> float:
        """How much of `max_steps` is done, between 0 and 1."""
        return min(self.step / self.max_steps, 1.0) if self.max_steps else 0.0

    @property
    def time_left(self) -> float | None:
        """Seconds until `max_steps` at the current rate; None if unknown."""
        rate = self.rate
        if not rate or self.max_steps is None or rate < 0:
            return None
        return max(self.max_steps - self.step, 0) / rate


def clock_text(seconds: float | None) -> str:
    """`1:02:03`, `2:03`; a dash for None."""
    if seconds is None:
        return "—"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def count_text(number: float | None) -> str:
    """`12,345`; a dash for None."""
    return "—" if number is None else f"{number:,.0f}"


def number_text(number: float | None, like: float | None = None) -> str:
    """About four significant digits, as many decimals as `like` would get; a dash for None and NaN."""
    if number is None or number != number:
        return "—"
    size = abs(number if like is None else like)
    if size >= 1e5 or 0 < size < 1e-3:
        return f"{number:.2e}"
    return f"{number:.{1 if size >= 100 else 2 if size >= 10 else 3}f}"


_BLOCKS = "▁▂▃▄▅▆▇█"
_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of a Braille character: [column][row from the top]."""


class History:
    """A series of at most `capacity` points: when it is full, pairs of neighbors are averaged.

    Every point then stands for twice as many values as before. Values that are not finite are ignored.
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
    """The values scaled to 0 (the lowest) to 1 (the highest); all 0.5 if they are equal."""
    if not values:
        return []
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def _resample(values: Sequence[float], count: int) -> list[float]:
    """`count` values: means of neighbors if there are more of them, else linear interpolation."""
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
