"""Draws the live display with rich."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..utils.logging import plain
from .progress import BehaviorProgress, braille, clock_text, count_text, number_text, sparkline

_CURVE_ROWS = 5
_ROOMY_LINES = _CURVE_ROWS + 3
"""Lines that a behavior takes in the roomy layout, the empty one after it included."""
_ROOMY_WIDTH = 72
_FIGURES_WIDTH = 28
_BAR_WIDTH = 6
"""The least of a progress bar."""
_DETAILS = (
    ("episode length", "Environment/Episode Length"),
    ("entropy", "Policy/Entropy"),
    ("value loss", "Losses/Value Loss"),
)
ACCENT = "bright_cyan"
FAINT = "bright_black"
GOOD = "bright_green"


def draw(
    title: str,
    doing: str,
    behaviors: Sequence[BehaviorProgress],
    elapsed: float,
    width: int,
    height: int,
    lessons: Mapping[str, str] | None = None,
) -> RenderableType:
    """The display for a terminal of `width` x `height` characters; `elapsed` in seconds.

    `lessons`: the text for each environment parameter that has several lessons.
    """
    inner = max(width - 6, 20)
    below = _lessons(lessons or {})
    lines = len(behaviors) * _ROOMY_LINES + 3 + math.ceil(below.cell_len / inner)
    roomy = width >= _ROOMY_WIDTH and lines <= height
    heading = Text.assemble(("lanista ", f"bold {ACCENT}"), (title, "bold default"))
    fits = heading.cell_len <= inner
    body: list[RenderableType] = [] if fits else [heading]
    if not behaviors:
        body.append(Text("no behavior has appeared yet", style=FAINT))
    elif roomy:
        for index, behavior in enumerate(behaviors):
            if index:
                body.append(Text(""))
            body.append(_block(behavior, inner))
    else:
        body.append(_table(behaviors, inner))
    if lessons:
        body.append(below)
    return Panel(
        Group(*body),
        box=ROUNDED,
        border_style=FAINT,
        padding=(0, 2),
        title=heading if fits else None,
        title_align="left",
        subtitle=Text.assemble(
            (f"{doing} ", "default"), ("· ", FAINT), (f"{clock_text(elapsed)} elapsed", "default")
        ),
        subtitle_align="right",
        width=width,
    )


def _lessons(lessons: Mapping[str, str]) -> Text:
    line = Text("lesson", overflow="fold")
    for index, (parameter, lesson) in enumerate(lessons.items()):
        line.append(" · " if index else "  ", style=FAINT)
        line.append(f"{parameter} ").append(lesson, style=f"bold {ACCENT}")
    return line


def _block(behavior: BehaviorProgress, width: int) -> RenderableType:
    """A behavior with a curve of several lines and its figures beside it."""
    grid = Table.grid(padding=(0, 0), expand=True)
    grid.add_column(ratio=1)
    grid.add_row(_headline(behavior, width))
    rows = _details(behavior)
    needed = sum(max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)) + 2
    figures_width = min(max(_FIGURES_WIDTH, needed), width // 2)
    lower = Table.grid(padding=(0, 3))
    lower.add_column(width=width - figures_width - 3)
    lower.add_column(width=figures_width)
    figures = Table.grid(padding=(0, 1), expand=True)
    figures.add_column(no_wrap=True)
    figures.add_column(justify="right", overflow="fold")
    for row in rows:
        figures.add_row(*row)
    lower.add_row(_curve(behavior, width - figures_width - 3), figures)
    grid.add_row(lower)
    return grid


def _headline(behavior: BehaviorProgress, width: int) -> RenderableType:
    """The name, the bar and the steps; a name for which the bar leaves no room takes several lines."""
    steps = Text(count_text(behavior.step), style="bold")
    name = Text(plain(behavior.name), style=f"bold {ACCENT}")
    bar: RenderableType = Text("")
    if behavior.max_steps:
        bar = ProgressBar(
            total=behavior.max_steps,
            completed=min(behavior.step, behavior.max_steps),
            complete_style=ACCENT,
            finished_style=GOOD,
        )
        steps.append(f" / {count_text(behavior.max_steps)} steps ", style="")
        steps.append(f"{behavior.fraction:4.0%}", style="bold")
    else:
        steps.append(" steps", style="")
    line = Table.grid(padding=(0, 2), expand=True)
    line.add_column(overflow="fold", width=min(name.cell_len, width - steps.cell_len - 4 - _BAR_WIDTH))
    line.add_column(ratio=1)
    line.add_column(no_wrap=True, justify="right")
    line.add_row(name, bar, steps)
    return line


def _curve(behavior: BehaviorProgress, width: int) -> RenderableType:
    points = behavior.rewards.points
    if not points:
        waiting = Text("the reward's curve begins when the first episodes are over", style=FAINT)
        return Group(*[Text("")] * (_CURVE_ROWS // 2), waiting, *[Text("")] * (_CURVE_ROWS // 2))
    low, high = min(points), max(points)
    largest = max(abs(low), abs(high))
    top, bottom = number_text(high, largest), number_text(low, largest)
    margin = max(len(top), len(bottom))
    lines = braille(points, max(width - margin - 2, 4), _CURVE_ROWS)
    out = []
    for index, line in enumerate(lines):
        label = top if index == 0 else bottom if index == len(lines) - 1 and bottom != top else ""
        axis = "┤" if label else "│"
        out.append(Text.assemble((f"{label:>{margin}} {axis}", FAINT), (line, GOOD)))
    return Group(*out)


def _details(behavior: BehaviorProgress) -> list[tuple[Text, Text]]:
    """The figures beside the curve: labels and values."""
    rows = [
        ("mean reward", _reward(behavior)),
        ("steps/s", Text(count_text(behavior.rate), style="bold")),
    ]
    if behavior.max_steps is not None:
        rows.append(("time left", Text(clock_text(behavior.time_left), style="bold")))
    shown = [(label, behavior.latest[key]) for label, key in _DETAILS if key in behavior.latest]
    rows += [(label, Text(number_text(value))) for label, value in shown[: _CURVE_ROWS - 4]]
    rows.append(("checkpoint", Text(count_text(behavior.checkpoint))))
    return [(Text(label), value) for label, value in rows]


def _reward(behavior: BehaviorProgress) -> Text:
    text = Text(number_text(behavior.reward), style=f"bold {GOOD}")
    if behavior.reward is not None:
        text.append(f" ± {number_text(behavior.reward_std, behavior.reward)}", style=FAINT)
    return text


def _table(behaviors: Sequence[BehaviorProgress], width: int) -> RenderableType:
    """One line per behavior, for narrow terminals or many behaviors."""
    wide = width >= 84
    table = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style=FAINT)
    table.add_column("behavior", overflow="fold", ratio=2)
    table.add_column("steps", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("steps/s", justify="right", no_wrap=True)
    table.add_column("reward", justify="right", no_wrap=True)
    if wide:
        table.add_column("", no_wrap=True, width=16)
    table.add_column("left", justify="right", no_wrap=True)
    if wide:
        table.add_column("checkpoint", justify="right", no_wrap=True)
    for behavior in behaviors:
        cells = [
            Text(plain(behavior.name), style=f"bold {ACCENT}"),
            Text(count_text(behavior.step)),
            Text(f"{behavior.fraction:.0%}" if behavior.max_steps else ""),
            Text(count_text(behavior.rate)),
            Text(number_text(behavior.reward), style=f"bold {GOOD}"),
            Text(clock_text(behavior.time_left)),
        ]
        if wide:
            cells.insert(5, Text(sparkline(behavior.rewards.points, 16), style=GOOD))
            cells.append(Text(count_text(behavior.checkpoint)))
        table.add_row(*cells)
    return table
