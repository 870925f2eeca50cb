"""The page and the picture of the senses' learning benchmark, from its tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from learning_teams_report import draw_seeds

if TYPE_CHECKING:
    from learning import Point, Run
    from learning_senses import SenseTask

COLOURS = ["#d1495b", "#30638e", "#8d99ae", "#edae49", "#00798c", "#5c4d7d"]
PAGE = """# Senses

<!-- Made by `python tests/benchmarks/learning_senses.py`; edit its report's text there. -->

PPO learns {what}.
Every brain is then scored by a fresh process that has only the ONNX file: its mean reward in {episodes}
episodes, with sampled actions, from starts that no training saw.

![Returns of training episodes against steps, all seeds](senses.png)

Thin lines: single seeds; thick: their mean.

{tables}
## Commands

    python tests/benchmarks/learning_senses.py

Runs that [senses.csv](senses.csv) holds already are not repeated; [senses-curves.csv](senses-curves.csv)
holds the curves. One run of each kind and its score by hand, here for seed 0:

{commands}"""


class Compared(Protocol):
    """What a panel shows."""

    @property
    def name(self) -> str:
        """Of the task."""
        ...

    @property
    def ways(self) -> Iterable[str]:
        """Of learning it."""
        ...

    @property
    def max_steps(self) -> int:
        """Agent-steps of every run."""
        ...


def write_report(
    tasks: Sequence[SenseTask], runs: Sequence[Run], points: Sequence[Point], folder: Path
) -> None:
    """Write senses.md and senses.png."""
    from learning import EPISODES

    tasks = [task for task in tasks if any(run.scene == task.name for run in runs)]
    if not tasks:
        return
    draw(tasks, points, folder / "senses.png")
    page = PAGE.format(
        what=", ".join(f"`{task.name}` with {' or '.join(_measured(task, runs))}" for task in tasks),
        episodes=EPISODES,
        tables="\n".join(_table(task, runs) for task in tasks),
        commands="\n".join(_commands(task, way) for task in tasks for way in _measured(task, runs)),
    )
    (folder / "senses.md").write_text(page, encoding="utf-8")


def _measured(task: SenseTask, runs: Sequence[Run]) -> list[str]:
    """The ways of which there are runs."""
    there = {run.product for run in runs if (run.scene, run.max_steps) == (task.name, task.max_steps)}
    return [way for way in task.ways if way in there]


def _table(task: SenseTask, runs: Sequence[Run]) -> str:
    chosen = [run for run in runs if run.scene == task.name and run.max_steps == task.max_steps]
    lines = [
        f"## {task.name}: {task.max_steps:,} agent-steps",
        "",
        f"Settings: [{task.settings}](../../{task.settings}). Expected: {task.goal}.",
        "",
        score_table(_measured(task, runs), chosen),
    ]
    return "\n".join([*lines, ""])


def score_table(ways: Sequence[str], runs: Sequence[Run], *, mean: bool = True) -> str:
    """A row for each seed, a column for each way."""
    scores = {(run.product, run.seed): run for run in runs}
    rows = {str(n): [cell(scores.get((way, n))) for way in ways] for n in sorted({r.seed for r in runs})}
    if mean:
        means = [np.mean([run.score for run in runs if run.product == way]) for way in ways]
        rows["mean"] = [f"**{value:.3f}**" for value in means]
    lines = ["| seed | " + " | ".join(ways) + " |", "|---|" + "---:|" * len(ways)]
    return "\n".join([*lines, *(f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items())])


def cell(run: Run | None) -> str:
    """A score, as tables show it."""
    return "not run" if run is None else f"{run.score:.3f} (deviation {run.std:.2f})"


def _commands(task: SenseTask, way: str) -> str:
    from learning_senses import command, play_command

    run_id = f"senses-{task.name}"
    play = play_command(task, way, 0, f"results/{run_id}/{task.behavior}.onnx")
    return f"    {shlex.join(command(task, way, 0, run_id))}\n    {shlex.join(play)}\n"


def draw(
    tasks: Sequence[Compared],
    points: Sequence[Point],
    path: Path,
    figure_name: str = "return of training episodes",
) -> None:
    """One panel per task; all ways' curves."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    size = (3.9 * len(tasks) + 0.6, 3.7)
    figure, panels = plt.subplots(1, len(tasks), figsize=size, squeeze=False, constrained_layout=True)
    for panel, task in zip(panels[0], tasks, strict=True):
        for way, colour in zip(task.ways, COLOURS):
            chosen = [p for p in points if p.scene == task.name and p.product == way]
            draw_seeds(panel, chosen, way, colour)
        panel.set_title(task.name, loc="left", fontweight="bold")
        panel.set_xlabel("agent-steps")
        panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        panel.set_xlim(0, task.max_steps)
        panel.locator_params(axis="x", nbins=5)
        panel.grid(color="0.92")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(loc="best", frameon=False)
    panels[0][0].set_ylabel(figure_name)
    figure.savefig(path, dpi=130)
    plt.close(figure)
