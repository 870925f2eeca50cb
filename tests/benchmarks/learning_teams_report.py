"""The page and the picture of the teams' learning benchmark, from its tables."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from learning import Point, Run
    from learning_teams import TeamTask

NAMES = {
    "poca": "POCA",
    "coma": "COMA",
    "ppo": "PPO",
    "poca-bf16": "POCA in bf16",
    "ml-agents": "ML-Agents' POCA",
}
COLOURS = {"poca": "#d1495b", "coma": "#edae49", "ppo": "#30638e", "ml-agents": "#8d99ae"}

PAGE = """# Teams

<!-- Made by `python tests/benchmarks/learning_teams.py`; edit its report's text there. -->

POCA, COMA and PPO train in the same environments of groups with equal budgets of steps, the same networks
and the same seeds. Every brain is then scored by a fresh process that has only the ONNX file: what groups
(in `simple-spread`: agents) earn in an episode, on average over about 100 groups, with sampled actions, from
starts that no training saw.

![Returns of training episodes against steps, three trainers, all seeds](teams.png)

Thin lines: single seeds; thick: their mean.{peer}

In `dungeon-escape`, where who kills the dragon dies and the team earns later, POCA's mean is above the best
seed of both others: what it is made for. In `coop-push` and `simple-spread` nobody dies, and each agent sees
where everybody is. There a critic of the whole team knows little more than PPO's, which learns each moment
three times, as each member sees it; POCA and PPO are level within the spread of their seeds, with PPO's mean
above POCA's, and COMA is behind. ML-Agents' own POCA does not do better there.

{tables}
## Commands

    python tests/benchmarks/learning_teams.py
    LANISTA_PEER=path/to/python python tests/benchmarks/learning_teams.py --trainers ml-agents

Runs that [teams.csv](teams.csv) holds already are not repeated; [teams-curves.csv](teams-curves.csv) holds
the curves. One run and its score by hand, here for POCA and seed 0:

{commands}
## Speed and memory

How fast POCA is beside ML-Agents, by the number of members of a team, and what its update buffer takes:
[teams-speed.md](teams-speed.md).
"""


PEER_NOTE = """ "ML-Agents' POCA" is that of ML-Agents 1.1.0 in the same scene processes with
the same YAML: it draws minibatches step by step, Lanista by moments of whole teams."""


def write_report(
    tasks: Sequence[TeamTask], runs: Sequence[Run], points: Sequence[Point], folder: Path
) -> None:
    """Write teams.md and teams.png."""
    tasks = [task for task in tasks if any(run.scene == task.name for run in runs)]
    if not tasks:
        return
    draw(tasks, points, folder / "teams.png")
    page = PAGE.format(
        peer=PEER_NOTE if any(run.product == "ml-agents" for run in runs) else "",
        tables="\n".join(_table(task, runs) for task in tasks),
        commands="\n".join(_commands(task) for task in tasks),
    )
    (folder / "teams.md").write_text(page, encoding="utf-8")


def _table(task: TeamTask, runs: Sequence[Run]) -> str:
    chosen = [run for run in runs if run.scene == task.name and run.max_steps == task.max_steps]
    trainers = [name for name in NAMES if any(run.product == name for run in chosen)]
    scores = {(run.product, run.seed): run for run in chosen}
    lines = [
        f"## {task.name}: {task.max_steps:,} agent-steps",
        "",
        f"`--env {task.environment} --num-areas {task.areas}`; settings: "
        + ", ".join(
            f"[{NAMES[t]}](../../config/{t}/{task.settings}.yaml)"
            for t in trainers
            if t in ("poca", "coma", "ppo")
        )
        + ".",
        "",
        "| seed | " + " | ".join(NAMES[t] for t in trainers) + " |",
        "|---|" + "---:|" * len(trainers),
    ]
    for seed in sorted({run.seed for run in chosen}):
        cells = [_cell(scores.get((trainer, seed))) for trainer in trainers]
        lines.append(f"| {seed} | " + " | ".join(cells) + " |")
    of_trainers = [[r.score for r in chosen if r.product == t] for t in trainers]
    lines.append("| mean | " + " | ".join(f"**{np.mean(found):.3f}**" for found in of_trainers) + " |")
    lines.append("| best | " + " | ".join(f"{max(found):.3f}" for found in of_trainers) + " |")
    return "\n".join([*lines, ""])


def _cell(run: Run | None) -> str:
    return "not run" if run is None else f"{run.score:.3f} (deviation {run.std:.2f})"


def _commands(task: TeamTask) -> str:
    from learning_teams import EPISODES, command

    run_id = f"teams-{task.name}"
    learn = shlex.join(command(task, "poca", 0, run_id))
    play = f"lanista play results/{run_id}/{task.behavior}.onnx --env {shlex.quote(task.environment)}"
    return f"    {learn}\n    {play} --num-areas {task.areas} --episodes {EPISODES} --seed 1000 --sampled\n"


def draw(tasks: Sequence[TeamTask], points: Sequence[Point], path: Path) -> None:
    """One panel per task; all trainers' curves."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    size = (3.9 * len(tasks) + 0.6, 3.7)
    figure, panels = plt.subplots(1, len(tasks), figsize=size, squeeze=False, constrained_layout=True)
    for panel, task in zip(panels[0], tasks, strict=True):
        for trainer in COLOURS:
            chosen = [p for p in points if p.scene == task.name and p.product == trainer]
            draw_seeds(panel, chosen, NAMES[trainer], COLOURS[trainer])
        panel.set_title(task.name, loc="left", fontweight="bold")
        panel.set_xlabel("agent-steps")
        panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        panel.set_xlim(0, task.max_steps)
        panel.grid(color="0.92")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("return of training episodes")
    panels[0][0].legend(loc="best", frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_seeds(panel: Any, points: Sequence[Point], label: str, colour: str) -> None:
    """Thin lines for seeds; a thick one for the mean at the steps that all of them have."""
    by_seed: dict[int, dict[int, float]] = defaultdict(dict)
    for point in points:
        by_seed[point.seed][point.step] = point.reward
    if not by_seed:
        return
    for returns in by_seed.values():
        panel.plot(*zip(*sorted(returns.items()), strict=True), color=colour, linewidth=0.8, alpha=0.45)
    common = sorted(set.intersection(*(set(returns) for returns in by_seed.values())))
    mean = [float(np.mean([returns[step] for returns in by_seed.values()])) for step in common]
    panel.plot(common, mean, color=colour, linewidth=2.6, label=label)
