"""The page and the picture of the replay trainers' learning benchmark, from its tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from learning_senses_report import draw, score_table

if TYPE_CHECKING:
    from learning import Point, Run
    from learning_replay import ReplayTask

PAGE = """# What is learnt from a replay

<!-- Made by `python tests/benchmarks/learning_replay.py`; edit its report's text there. -->

SAC, DQN, DDPG and TD3 in the scenes and in Gymnasium's environments. Every brain of Lanista is scored by a
fresh process that has only the ONNX file: its mean reward in {episodes} episodes, with the likeliest actions,
from starts that no training saw. Beside it, where the environment is Gymnasium's, Stable-Baselines3 with the
same budget, networks' sizes and hyperparameters, scored in the same number of episodes. What it has no word
for differs: its DQN is not a double one and clips gradients, its TD3 and DDPG explore first by actions drawn
evenly, then with a noise that stays (here `noise_end`).

![Returns of training episodes against steps, all seeds](replay.png)

Thin lines: single seeds; thick: their mean.

{tables}
## Commands

    LANISTA_SB3=path/to/python python tests/benchmarks/learning_replay.py

Runs that [replay.csv](replay.csv) holds already are not repeated; [replay-curves.csv](replay-curves.csv)
holds the curves. One run of each kind of Lanista's and its score by hand, here for seed 0:

{commands}"""


def write_report(
    tasks: Sequence[ReplayTask], runs: Sequence[Run], points: Sequence[Point], folder: Path
) -> None:
    """Write replay.md and replay.png."""
    from learning import EPISODES

    tasks = [task for task in tasks if any(run.scene == task.name for run in runs)]
    if not tasks:
        return
    draw(tasks, points, folder / "replay.png")
    page = PAGE.format(
        episodes=EPISODES,
        tables="\n".join(_table(task, runs) for task in tasks),
        commands="\n".join(_commands(task, way) for task in tasks for way in task.algorithms),
    )
    (folder / "replay.md").write_text(page, encoding="utf-8")


def _table(task: ReplayTask, runs: Sequence[Run]) -> str:
    chosen = [run for run in runs if run.scene == task.name and run.max_steps == task.max_steps]
    files = ", ".join(f"[{task.settings(way)}](../../{task.settings(way)})" for way in task.algorithms)
    lines = [
        f"## {task.name}: {task.max_steps:,} agent-steps",
        "",
        f"`{task.environment}`. Settings: {files}. Expected: {task.goal}.",
        "",
        score_table([way for way in task.ways if any(run.product == way for run in chosen)], chosen),
    ]
    return "\n".join([*lines, ""])


def _commands(task: ReplayTask, way: str) -> str:
    from learning_replay import command, play_command

    run_id = f"replay-{task.name}"
    play = play_command(task, 0, f"results/{run_id}/{task.behavior}.onnx")
    return f"    {shlex.join(command(task, way, 0, run_id))}\n    {shlex.join(play)}\n"
