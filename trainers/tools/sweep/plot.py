"""The plot of a sweep: its trials' values in order, and against every parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from .space import Dimension, shown
from .trial import TrialSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = (4.3, 3.0)
"""Inches of one panel."""
COLUMNS = 3
FEW = 6
"""So many values get a tick each."""
LETTERS = 40
"""That fit beside each other below a panel."""
APART = 0.2
"""The least distance of two labels, as a share of the axis."""
COLORS = {"pruned": "#bebab2", "done": "#30638e", "best": "#d1495b"}


def plot_sweep(
    trials: Sequence[TrialSummary],
    space: Sequence[Dimension],
    names: Mapping[str, str],
    metric: str,
    *,
    maximize: bool,
    title: str,
) -> Figure:
    """Draw the trials that have a value.

    Args:
        trials: in the order in which they started.
        space: the parameters.
        names: what each parameter is called, by its key.
        metric: what was measured.
        maximize: whether more is better.
        title: of the figure.
    """
    trials = [trial for trial in trials if trial.value is not None]
    better = max if maximize else min
    done = [trial for trial in trials if trial.outcome == "done"]
    best = better(done, key=lambda trial: trial.value or 0.0, default=None)
    panels = 1 + len(space)
    columns = 2 if panels == 4 else min(COLUMNS, panels)
    rows = math.ceil(panels / columns)
    figure = Figure((columns * PANEL[0], rows * PANEL[1] + 0.6), layout="constrained")
    figure.suptitle(f"{title}\nvalue: {metric}", fontsize="medium")
    axes = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    _scatter(axes[0], trials, [trial.number for trial in trials], best)
    if done:
        so_far = list(accumulate((trial.value or 0.0 for trial in done), better))
        numbers = [trial.number for trial in done]
        axes[0].step(
            [*numbers, trials[-1].number], [*so_far, so_far[-1]], "-", where="post", c=COLORS["best"]
        )
    axes[0].set_xlabel("trial")
    axes[0].xaxis.get_major_locator().set_params(integer=True)
    for axis, dimension in zip(axes[1:], space):
        drawn = [trial for trial in trials if dimension.key in trial.values]
        place = _configure(axis, dimension, names[dimension.key])
        _scatter(axis, drawn, [place(trial.values[dimension.key]) for trial in drawn], best)
    for axis in axes[panels:]:
        axis.set_visible(False)
    if trials:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower right", ncols=len(COLORS))
    return figure


def _scatter(
    axis: Axes, trials: Sequence[TrialSummary], places: Sequence[float], best: TrialSummary | None
) -> None:
    """A dot for each trial, the best one on top."""
    for order, (kind, color) in enumerate(COLORS.items()):
        chosen = [
            (place, trial.value)
            for trial, place in zip(trials, places)
            if kind == ("best" if trial is best else "done" if trial.outcome == "done" else "pruned")
        ]
        x, y = zip(*chosen) if chosen else ((), ())
        axis.scatter(x, y, s=40, c=color, edgecolors="white", label=kind, zorder=3 + order)
    axis.grid(alpha=0.3)


def _configure(axis: Axes, dimension: Dimension, name: str) -> Any:
    """Scale and ticks of a parameter's axis; returns the function from a value to its place."""
    values, listed = dimension.all, dimension.parameter.values
    numbers = listed is None or all(_is_number(value) for value in listed)
    if listed is not None and (not numbers or len(listed) <= FEW):
        labels = [shown(value) for value in (sorted(listed) if numbers else listed)]
        crowded = sum(map(len, labels)) + 2 * len(labels) > LETTERS
        axis.set_xticks(
            range(len(labels)), labels, rotation=25 * crowded, ha="right" if crowded else "center"
        )
        axis.set_xlim(-0.5, len(labels) - 0.5)
        axis.set_xlabel(name)
        return lambda value: labels.index(shown(value))
    log = dimension.parameter.log if listed is None else 0 < 10 * min(listed) <= max(listed)
    low, high = min(dimension.ends), max(dimension.ends)
    if log:
        axis.set_xscale("log")
        axis.set_xlim(low / 1.3, high * 1.3)
        axis.xaxis.set_minor_formatter(NullFormatter())
        ticks = _ticks(low, high)
        axis.set_xticks(ticks, [shown(tick) for tick in ticks])
    elif values is not None and len(values) <= FEW:
        axis.set_xticks(values, [shown(value) for value in values])
    axis.set_xlabel(f"{name} (log)" if log else name)
    return float


def _ticks(low: float, high: float) -> list[float]:
    """The ends of a logarithmic axis, and powers of ten between them whose labels do not touch others."""
    apart = APART * math.log10(high / low)
    ticks = [low]
    for power in range(math.floor(math.log10(low)) + 1, math.ceil(math.log10(high))):
        if power - math.log10(ticks[-1]) >= apart and math.log10(high) - power >= apart:
            ticks.append(10**power if power >= 0 else 10.0**power)
    return [*ticks, high]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
