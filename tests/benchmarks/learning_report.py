"""The page and the picture of the learning benchmark, from its tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from learning import Point, Run, Task

NAMES = {"lanista": "Lanista", "ml-agents": "ML-Agents 1.1.0"}
COLOURS = {"lanista": "#d1495b", "ml-agents": "#30638e"}

PAGE = """# Learning

<!-- Made by `python tests/benchmarks/learning.py`; edit its report's text there. -->

Does training work, and as well as ML-Agents' does? Both products train in the same scene processes with the
same settings and the same seeds. Every brain is then scored by a fresh process that has only the ONNX file:
mean reward of {episodes} episodes with deterministic actions, from starts that no training saw.

![Mean reward of training episodes against steps, both products, all seeds](learning.png)

Thin lines: single seeds; thick: their mean. These are training episodes, whose actions are sampled, so a
curve lies below the score of the brain that it leads to. In `basic` a policy can settle for the nearer and
smaller of the two goals before it has found the larger; its brain then scores 0.07. With Unity's own
`time_horizon: 3` that happens to both products: to Lanista with 3 of the seeds 0 to 19 (0, 4 and 8), to
ML-Agents with 1 of the seeds 0 to 13 (11). The settings here have 64.

{tables}
## Commands

    python tests/benchmarks/learning.py
    LANISTA_PEER=path/to/python python tests/benchmarks/learning.py

The first runs Lanista alone, the second ML-Agents 1.1.0 too ([CONTRIBUTING.md](../../CONTRIBUTING.md) says
how to install it aside). Runs that [learning.csv](learning.csv) holds already are not repeated;
[learning-curves.csv](learning-curves.csv) holds the curves. One run and its score by hand, here for seed 0:

{commands}
"""


def write_report(tasks: Sequence[Task], runs: Sequence[Run], points: Sequence[Point], folder: Path) -> None:
    """Write learning.md and learning.png."""
    if not runs:
        return
    draw(tasks, points, folder / "learning.png")
    page = PAGE.format(
        episodes=100,
        tables="\n".join(_table(task, runs) for task in tasks),
        commands="\n".join(_commands(task) for task in tasks),
    )
    (folder / "learning.md").write_text(page, encoding="utf-8")


def _table(task: Task, runs: Iterable[Run]) -> str:
    chosen = [run for run in runs if run.scene == task.scene and run.max_steps == task.max_steps]
    products = [name for name in NAMES if any(run.product == name for run in chosen)]
    scores = {(run.product, run.seed): run for run in chosen}
    seeds = sorted({run.seed for run in chosen})
    lines = [
        f"## {task.scene}: {task.max_steps:,} agent-steps, goal {task.goal:g}",
        "",
        f"Settings: [{task.config}](../../{task.config}) with `max_steps: {task.max_steps}`.",
        "",
        "| seed | " + " | ".join(NAMES[p] for p in products) + " |",
        "|---|" + "---|" * len(products),
    ]
    for seed in seeds:
        cells = [_cell(scores.get((product, seed))) for product in products]
        lines.append(f"| {seed} | " + " | ".join(cells) + " |")
    reached = [_reached([r for r in chosen if r.product == p], task.goal) for p in products]
    lines.append("| reached the goal | " + " | ".join(reached) + " |")
    return "\n".join([*lines, ""])


def _cell(run: Run | None) -> str:
    return "not run" if run is None else f"{run.score:.2f} (deviation {run.std:.2f})"


def _reached(runs: Sequence[Run], goal: float) -> str:
    return f"{sum(run.score >= goal for run in runs)} of {len(runs)}"


def _commands(task: Task) -> str:
    learn = f"lanista-learn {task.config} --env scene:{task.scene} --run-id learning-{task.scene} --seed 0"
    play = f"lanista play results/learning-{task.scene}/{task.behavior}.onnx --env scene:{task.scene}"
    return (
        f"    {learn} --set behaviors.{task.behavior}.max_steps={task.max_steps}\n"
        f"    {play} --episodes 100 --seed 1000\n"
    )


def draw(tasks: Sequence[Task], points: Sequence[Point], path: Path) -> None:
    """One panel per task; both products' curves."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(tasks), figsize=(10.5, 3.9), squeeze=False, constrained_layout=True)
    for panel, task in zip(panels[0], tasks, strict=True):
        for product, colour in COLOURS.items():
            _draw_product(
                panel, [p for p in points if p.scene == task.scene and p.product == product], colour
            )
        panel.axhline(task.goal, color="0.6", linewidth=0.9, linestyle=(0, (4, 3)))
        panel.annotate(
            f"goal {task.goal:g}",
            (0, task.goal),
            xytext=(2, -11),
            color="0.4",
            fontsize=8.5,
            textcoords="offset points",
        )
        panel.set_title(task.scene, loc="left", fontweight="bold")
        panel.set_xlabel("agent-steps")
        panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        panel.set_xlim(0, task.max_steps)
        panel.grid(color="0.92")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("mean reward of training episodes")
    panels[0][-1].legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_product(panel: Any, points: Sequence[Point], colour: str) -> None:
    """Thin lines for seeds; a thick one for the mean at the steps that all of them have."""
    by_seed: dict[int, dict[int, float]] = defaultdict(dict)
    for point in points:
        by_seed[point.seed][point.step] = point.reward
    if not by_seed:
        return
    for rewards in by_seed.values():
        panel.plot(*zip(*sorted(rewards.items()), strict=True), color=colour, linewidth=0.8, alpha=0.45)
    common = sorted(set.intersection(*(set(rewards) for rewards in by_seed.values())))
    mean = [float(np.mean([rewards[step] for rewards in by_seed.values()])) for step in common]
    panel.plot(common, mean, color=colour, linewidth=2.6, label=NAMES[points[0].product])
