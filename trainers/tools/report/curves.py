"""The curves of a report: means and ranges over the runs of a group, thinned to what a screen can show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...stats.event_files import Curve
from .contents import Group

MOST_POINTS = 400
"""The most points of a line."""
BUDGET = 250_000
"""The most numbers on a page; one takes about eight bytes."""
MOST_LINES = 60
MOST_CHARTS = 100
_HIDDEN = ("_hist", "_std")
_FIRST = (
    "Environment/Cumulative Reward",
    "Environment/Group Cumulative Reward",
    "Self-play/ELO",
    "Environment/Episode Length",
    "Policy/Entropy",
)
SECTIONS = ("Results", "Losses", "Policy", "Other")

Numbers = NDArray[np.float64]


@dataclass
class Chart:
    """One tag of one behavior, with a line for each group that has it."""

    behavior: str
    tag: str
    lines: list[tuple[int, list[Curve]]]
    """A group's number, and the curves of its runs."""

    @property
    def section(self) -> str:
        """The heading under which the chart stands."""
        kind = self.tag.partition("/")[0]
        if (
            self.tag in _FIRST
            or kind in ("Evaluation", "Cloning")
            or self.tag.startswith("Environment/Lesson")
        ):
            return "Results"
        return kind if kind in SECTIONS else "Other"

    @property
    def order(self) -> tuple[int, int, str]:
        """The sort key of the chart: results first, and the reward first of these."""
        place = _FIRST.index(self.tag) if self.tag in _FIRST else len(_FIRST)
        return (SECTIONS.index(self.section), place, self.tag)

    def as_dict(self, points: int) -> dict[str, Any]:
        """The chart as the page's script reads it, with at most `points` points to a line."""
        grid = _grid([curve for _, curves in self.lines for curve in curves], points)
        lines = []
        for group, curves in self.lines:
            values = np.stack([_on_grid(curve, grid) for curve in curves])
            line: dict[str, Any] = {"group": group, "mean": _plain(_reduce(np.mean, values))}
            if len(curves) > 1:
                line["low"] = _plain(_reduce(np.min, values))
                line["high"] = _plain(_reduce(np.max, values))
            lines.append(line)
        return {"tag": self.tag, "x": [round(step) for step in grid.tolist()], "lines": lines}


def charts(groups: Sequence[Group], behavior: str) -> list[Chart]:
    """The charts of a behavior, in their order; of many, the first `MOST_CHARTS`."""
    found: dict[str, Chart] = {}
    for number, group in enumerate(groups[:MOST_LINES]):
        curves: dict[str, list[Curve]] = {}
        for run in group.runs:
            result = run.behaviors.get(behavior)
            for tag, curve in result.curves.by_tag.items() if result else ():
                if not tag.endswith(_HIDDEN) and len(curve.steps):
                    curves.setdefault(tag, []).append(curve)
        for tag, several in curves.items():
            found.setdefault(tag, Chart(behavior, tag, [])).lines.append((number, several))
    return sorted(found.values(), key=lambda chart: chart.order)[:MOST_CHARTS]


def points_each(drawn: Sequence[Chart]) -> int:
    """How many points a line may have so that all of them fit on a page."""
    lines = sum(3 if len(curves) > 1 else 1 for chart in drawn for _, curves in chart.lines)
    return max(8, min(MOST_POINTS, BUDGET // max(1, lines + len(drawn))))


def _grid(curves: Sequence[Curve], points: int) -> Numbers:
    """The steps of a chart: those of the summaries if there are few, else evenly spread."""
    steps = np.unique(np.concatenate([np.frombuffer(curve.steps, np.int64) for curve in curves]))
    longest = max(len(curve.steps) for curve in curves)
    if len(steps) <= points and len(steps) <= 1.5 * longest:
        return steps.astype(np.float64)
    return np.linspace(steps[0], steps[-1], max(2, min(points, longest)))


def _on_grid(curve: Curve, grid: Numbers) -> Numbers:
    """The means [len(grid)] of the values nearest to each step, interpolated between; NaN elsewhere."""
    steps = np.frombuffer(curve.steps, np.int64).astype(np.float64)
    values = np.frombuffer(curve.values, np.float64)
    finite = np.isfinite(values)
    steps, values = steps[finite], values[finite]
    if not len(steps):
        return np.full(len(grid), np.nan)
    bins = np.searchsorted((grid[1:] + grid[:-1]) / 2, steps)
    counts = np.bincount(bins, minlength=len(grid))
    occupied = counts > 0
    means = np.bincount(bins, values, len(grid))[occupied] / counts[occupied]
    return np.asarray(np.interp(grid, grid[occupied], means, left=np.nan, right=np.nan))


def _reduce(function: Any, values: Numbers) -> Numbers:
    """The results [points] of the function over the runs that have a value there."""
    out = np.full(values.shape[1], np.nan)
    some = ~np.isnan(values).all(axis=0)
    kept = np.ma.masked_invalid(values[:, some])
    out[some] = function(kept, axis=0) if some.any() else []
    return out


def _plain(values: Numbers) -> list[float | None]:
    """The values with five digits each; None for what is not finite, which JSON has not."""
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values.tolist()]
