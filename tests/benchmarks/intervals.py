"""What several runs show together: interquartile means with bootstrap intervals, and areas under curves.

The statistics are those of rliable (Agarwal et al., "Deep Reinforcement Learning at the Edge of the
Statistical Precipice", 2021, arXiv 2108.13264), computed by SciPy: a quarter of the runs is cut off at either
end, and the interval is the 95 % percentile interval of a bootstrap, stratified by task and way: the runs of
each are drawn anew among themselves. The bootstrap's seed is fixed: the same runs give the same page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap, trim_mean

CONFIDENCE = 0.95
RESAMPLES = 50_000
"""As rliable draws by default."""
BAND_RESAMPLES = 2_000
"""For every step of a curve."""

Curve = Sequence[tuple[int, float]]
"""Steps with the mean return of the episodes that ended since the step before."""


def iqm(scores: Any, axis: int = 0) -> Any:
    """The mean of the middle half; that of all where there are fewer than four."""
    return trim_mean(scores, 0.25, axis=axis)


@dataclass(frozen=True)
class Estimate:
    """An interquartile mean and its interval."""

    runs: int
    iqm: float
    low: float
    """NaN, as `high`, where a single run leaves no interval."""
    high: float

    def text(self, digits: int = 3) -> str:
        """As tables show it."""
        if math.isnan(self.low):
            return f"{self.iqm:,.{digits}f}"
        return f"{self.iqm:,.{digits}f} [{self.low:,.{digits}f}, {self.high:,.{digits}f}]"


def estimate(scores: Sequence[float]) -> Estimate:
    """Of one score for each run, of which there is at least one."""
    low, high = _interval(np.asarray(scores, np.float64), RESAMPLES)
    return Estimate(len(scores), float(iqm(scores)), float(low), float(high))


def difference(scores: Sequence[float], others: Sequence[float]) -> Estimate:
    """Of the first runs' interquartile mean above the others': each group is drawn anew by itself."""
    ours, theirs = np.asarray(scores, np.float64), np.asarray(others, np.float64)
    runs, between = min(len(ours), len(theirs)), float(iqm(ours) - iqm(theirs))
    if runs < 2:
        return Estimate(runs, between, math.nan, math.nan)
    low, high = _drawn_anew((ours, theirs), _above, RESAMPLES)
    return Estimate(runs, between, float(low), float(high))


def _above(one: Any, other: Any, axis: int) -> Any:
    return iqm(one, axis) - iqm(other, axis)


def _interval(scores: NDArray[np.float64], resamples: int) -> tuple[Any, Any]:
    """Its ends for scores [runs, ...]."""
    if len(scores) < 2:
        nothing = np.full(scores.shape[1:], np.nan)
        return nothing, nothing
    return _drawn_anew((scores,), iqm, resamples)


def _drawn_anew(
    groups: tuple[NDArray[np.float64], ...], statistic: Callable[..., Any], resamples: int
) -> tuple[Any, Any]:
    """The ends of a statistic's bootstrap interval; the groups of runs are along the first axis."""
    found = bootstrap(
        groups,
        statistic,
        n_resamples=resamples,
        batch=1000,
        vectorized=True,
        axis=0,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return found.confidence_interval.low, found.confidence_interval.high


def area(curve: Curve, max_steps: int) -> float:
    """The mean of a curve over a budget of steps: the area under it, divided by the budget.

    A point stands for the steps since the one before it, the first also for those before it and the last for
    those after it. NaN without points.
    """
    if not curve:
        return math.nan
    steps, values = map(np.asarray, zip(*sorted(curve), strict=True))
    ends = np.minimum(steps, max_steps)
    ends[-1] = max_steps
    return float(np.diff(ends, prepend=0) @ values / max_steps)


def steps_to(curve: Curve, level: float, window: int) -> float:
    """The first step at which the mean of the points of the last `window` steps is `level` or more.

    Infinite where none is.
    """
    points = sorted(curve)
    for step, _ in points:
        last = [value for at, value in points if step - window < at <= step]
        if np.mean(last) >= level:
            return step
    return math.inf


@dataclass(frozen=True)
class Band:
    """An interquartile mean of curves with its interval at each of these steps."""

    steps: NDArray[np.float64]
    iqm: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def band(curves: Sequence[Curve], points: int = 50) -> Band:
    """Of runs' curves, at steps that all of them reach; between its points a curve is straight."""
    sorted_curves = [np.array(sorted(curve), np.float64).T for curve in curves]
    first = max(steps[0] for steps, _ in sorted_curves)
    last = min(steps[-1] for steps, _ in sorted_curves)
    steps = np.linspace(first, last, points)
    values = np.stack([np.interp(steps, *curve) for curve in sorted_curves])
    return Band(steps, iqm(values), *_interval(values, BAND_RESAMPLES))
