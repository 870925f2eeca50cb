"""Pictures of curves: for every way the interquartile mean of its runs, with a band for the interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from intervals import Curve, band

COLORS = ("#d1495b", "#30638e", "#edae49", "#00798c", "#5c4d7d", "#8d99ae", "#8cb369", "#bc6c25")
COLUMNS = 3


@dataclass(frozen=True)
class Panel:
    """One task's curves."""

    title: str
    max_steps: int
    curves: Mapping[str, Sequence[Curve]]
    """Of all runs, by the way's label."""
    goal: float | None = None


def draw(panels: Sequence[Panel], path: Path, label: str = "return of training episodes") -> None:
    """Draw them into a file; a label has the same color in all panels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    labels = dict.fromkeys(way for panel in panels for way in panel.curves)
    colors = dict(zip(labels, cycle(COLORS), strict=False))
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.9 * columns + 0.6, 3.3 * rows + 0.4), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, panel in zip(axes.flat, panels, strict=False):
        for way, curves in panel.curves.items():
            _draw_way(axis, [each for each in curves if each], way, colors[way])
        _decorate(axis, panel)
    for row in axes:
        row[0].set_ylabel(label)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_way(axis: Any, curves: Sequence[Curve], label: str, color: str) -> None:
    if not curves:
        return
    found = band(curves)
    axis.fill_between(found.steps, found.low, found.high, color=color, alpha=0.2, linewidth=0)
    axis.plot(found.steps, found.iqm, color=color, linewidth=1.9, label=f"{label} ({len(curves)})")


def _decorate(axis: Any, panel: Panel) -> None:
    if panel.goal is not None:
        axis.axhline(panel.goal, color="0.6", linewidth=0.9, linestyle=(0, (4, 3)))
        look = {"color": "0.4", "fontsize": 8.5, "textcoords": "offset points"}
        axis.annotate(f"goal {panel.goal:g}", (0, panel.goal), xytext=(2, -11), **look)
    axis.set_title(panel.title, loc="left", fontweight="bold")
    axis.set_xlabel("agent-steps")
    axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
    axis.set_xlim(0, panel.max_steps)
    axis.locator_params(axis="x", nbins=5)
    if panel.curves:
        axis.legend(loc="best", frameon=False, fontsize=8.5)
    axis.grid(color="0.92")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
