"""A sweep as a picture: its values as they came, and against every parameter.

The axes of a picture: where a value lies between two edges, and which values are written beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageDraw, ImageFont

from .space import Dimension, shown

if TYPE_CHECKING:
    from .report import Row


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


SCALE = 2
"""Everything is drawn that much larger and then made smaller, so that edges are smooth."""
PANEL, GAP, LEFT, TOP, BOTTOM = (340, 230), 26, 64, 74, 46
"""Pixels: a panel's plot, the space between panels, and what its labels take on the left and below."""
COLUMNS = 3
INK, FAINT, GRID = (40, 44, 52), (130, 130, 130), (230, 228, 222)
DONE, PRUNED, BEST = (48, 99, 142), (190, 186, 178), (209, 73, 91)
SIZE, LARGE = 13, 17


class Picture:
    """Draws the trials of a sweep.

    Args:
        rows: the trials, in the order in which they began.
        space: the parameters.
        names: what each is called, by its key.
        metric: what was measured.
        maximize: whether more is better.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        space: Sequence[Dimension],
        names: Mapping[str, str],
        metric: str,
        maximize: bool,
    ) -> None:
        self.rows = [row for row in rows if row.value is not None]
        self.space, self.names, self.metric = space, names, metric
        self._better = max if maximize else min
        done = [row for row in self.rows if row.outcome == "done"]
        self.best = self._better(done, key=lambda row: row.value or 0.0, default=None)

    def draw(self, title: str) -> Image.Image:
        """The picture."""
        panels = 1 + len(self.space)
        columns = 2 if panels == 4 else min(COLUMNS, panels)
        lines = -(-panels // columns)
        width = columns * (PANEL[0] + LEFT + GAP) + GAP
        height = TOP + lines * (PANEL[1] + BOTTOM + GAP)
        image = Image.new("RGB", (width * SCALE, height * SCALE), "white")
        pen = _Pen(image)
        pen.text((GAP, 20), title, INK, large=True)
        pen.text((GAP, 46), f"value: {self.metric}", FAINT)
        self._legend(pen, width - GAP, 46)
        values = Axis.over([row.value for row in self.rows if row.value is not None] or [0.0])
        for number in range(panels):
            corner = (
                GAP + LEFT + (number % columns) * (PANEL[0] + LEFT + GAP),
                TOP + (number // columns) * (PANEL[1] + BOTTOM + GAP) + GAP // 2,
            )
            if number == 0:
                self._history(pen, corner, values)
            else:
                self._against(pen, corner, values, self.space[number - 1])
        return image.resize((width, height), Image.Resampling.LANCZOS)

    def _history(self, pen: _Pen, corner: tuple[int, int], values: Axis) -> None:
        """Value by trial, and the line of the best so far."""
        numbers = Axis.over([row.number for row in self.rows] or [0, 1])
        _frame(pen, corner, numbers, values, "trial")
        so_far: float | None = None
        line: list[tuple[float, float]] = []
        for row in self.rows:
            if row.outcome != "done" or row.value is None:
                continue
            before = so_far
            so_far = row.value if so_far is None else self._better(so_far, row.value)
            x = _across(corner, numbers.place(row.number))
            if before is not None:
                line.append((x, _up(corner, values.place(before))))
            line.append((x, _up(corner, values.place(so_far))))
        if line:
            line.append((_across(corner, numbers.place(self.rows[-1].number)), line[-1][1]))
            pen.line(line, BEST, 2)
        self._dots(pen, corner, values, [(numbers.place(row.number), row) for row in self.rows])

    def _against(self, pen: _Pen, corner: tuple[int, int], values: Axis, one: Dimension) -> None:
        """Value by one parameter."""
        axis = Axis.of(one)
        _frame(pen, corner, axis, values, f"{self.names[one.key]}{' (log)' if axis.log else ''}")
        placed = [(axis.place(row.values[one.key]), row) for row in self.rows if one.key in row.values]
        self._dots(pen, corner, values, placed)

    def _dots(
        self, pen: _Pen, corner: tuple[int, int], values: Axis, placed: Sequence[tuple[float, Row]]
    ) -> None:
        order = sorted(placed, key=lambda one: (one[1] is self.best, one[1].outcome == "done"))
        for across, row in order:
            centre = (_across(corner, across), _up(corner, values.place(row.value)))
            best = row is self.best
            pen.dot(centre, 6 if best else 5, BEST if best else DONE if row.outcome == "done" else PRUNED)

    def _legend(self, pen: _Pen, right: int, y: int) -> None:
        for colour, word in ((PRUNED, "pruned"), (DONE, "done"), (BEST, "best")):
            right -= int(pen.width(word))
            pen.text((right, y), word, FAINT)
            pen.dot((right - 12, y + 8), 5, colour)
            right -= 32


def _frame(pen: _Pen, corner: tuple[int, int], across: Axis, up: Axis, name: str) -> None:
    """A panel's field, its marks and their values."""
    x, y = corner
    for share, word in up.marks():
        level = _up(corner, share)
        pen.line([(x, level), (x + PANEL[0], level)], GRID, 1)
        pen.text((x - 8, level), word, FAINT, anchor="rm")
    for share, word in across.marks():
        column = _across(corner, share)
        pen.line([(column, y), (column, y + PANEL[1])], GRID, 1)
        pen.text((column, y + PANEL[1] + 6), pen.shortened(word, 80), FAINT, anchor="ma")
    pen.line([(x, y), (x, y + PANEL[1]), (x + PANEL[0], y + PANEL[1])], FAINT, 1)
    pen.text((x + PANEL[0] / 2, y + PANEL[1] + 24), name, INK, anchor="ma")


def _across(corner: tuple[int, int], share: float) -> float:
    return corner[0] + share * PANEL[0]


def _up(corner: tuple[int, int], share: float) -> float:
    return corner[1] + (1 - share) * PANEL[1]


class _Pen:
    """Draws in the units of the finished picture."""

    def __init__(self, image: Image.Image) -> None:
        self._draw = ImageDraw.Draw(image)
        self._fonts: dict[bool, Any] = {
            large: ImageFont.load_default(SCALE * (LARGE if large else SIZE)) for large in (False, True)
        }

    def text(
        self, at: tuple[float, float], words: str, colour: Any, *, anchor: str = "la", large: bool = False
    ) -> None:
        self._draw.text(_scaled(at), words, colour, self._fonts[large], anchor=anchor)

    def width(self, words: str) -> float:
        return float(self._fonts[False].getlength(words)) / SCALE

    def shortened(self, words: str, width: float) -> str:
        """As much of a text as has room."""
        if self.width(words) <= width:
            return words
        while words and self.width(f"{words}..") > width:
            words = words[:-1]
        return f"{words}.."

    def line(self, points: Sequence[tuple[float, float]], colour: Any, width: int) -> None:
        self._draw.line([_scaled(point) for point in points], colour, width * SCALE)

    def dot(self, centre: tuple[float, float], radius: float, colour: Any) -> None:
        x, y = _scaled(centre)
        r = radius * SCALE
        self._draw.ellipse((x - r, y - r, x + r, y + r), colour, "white", SCALE)


def _scaled(point: tuple[float, float]) -> tuple[float, float]:
    return point[0] * SCALE, point[1] * SCALE
