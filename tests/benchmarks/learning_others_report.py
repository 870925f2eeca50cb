"""The page docs/results/others.md: what is learnt from novelty, opponents and teachers."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from learning import EPISODES, Point, Run
from learning_senses_report import draw, score_table

SCENE = "scene:pyramids?size=small"
WAYS = {"RND": "config/ppo/pyramids-small-rnd.yaml", "rewards alone": "config/ppo/pyramids-small.yaml"}
"""Ready settings, from the repository's root."""
AGAINST = "against "
"""How the figures of shares begin."""
PAGE = """# Learning from others

<!-- Made by `python tests/benchmarks/learning_others.py`; edit its report's text there. -->

## Sparse rewards: pyramids

PPO in [pyramids](../scenes.md) in its small size, where a button far away must be found before anything is
earned, with random network distillation ([settings](../../config/ppo/pyramids-small-rnd.yaml)) and without
([settings](../../config/ppo/pyramids-small.yaml)). Every brain is scored by a fresh process that has only the
ONNX file: its mean reward in {episodes} episodes. Expected: 1.5 or more with it, under 0.5 without.

![Returns of training episodes against steps, all seeds](others.png)

{pyramids}

    python tests/benchmarks/learning_others.py
{commands}

## Opponents: board games and soccer

Self-play in PettingZoo's [turn-based games](../turn-based.md) and in [soccer-twos](../scenes.md) in its
small size. Every brain plays 200 games against each opponent, every side in turn. Expected, draws counted
half: 95 % against a random player and 60 % against one who wins or hinders one step ahead; 70 % against the
same run's brain at a quarter of its training; of tic-tac-toe 95 % not lost to a perfect player.

![Shares of the checkpoints' games against steps, all seeds](others-games.png)

{games}

    python tests/benchmarks/learning_games.py

## Teachers: behavioural cloning

Real demonstrations by people, some episodes held out, each draw others ([cloning.csv](cloning.csv)).
"Constant" is what always saying the most frequent action, or the mean action, gets. `engine_actions: false`
compares actions as ML-Agents does.

{cloning}

    python tests/benchmarks/learning_cloning.py
"""


@dataclass(frozen=True)
class Panel:
    """What the picture shows."""

    name: str
    max_steps: int
    ways: Sequence[str]


def write_report(
    runs: Sequence[Run], points: Sequence[Point], commands: Sequence[list[str]], folder: Path
) -> None:
    """Write others.md and others.png."""
    if points:
        panel = Panel("pyramids", max(run.max_steps for run in runs), list(WAYS))
        draw([panel], points, folder / "others.png")
    _draw_games(_rows(folder / "others-games-curves.csv"), folder / "others-games.png")
    page = PAGE.format(
        episodes=EPISODES,
        pyramids=_pyramids(runs),
        commands="\n".join(f"    {shlex.join(command)}" for command in commands),
        games=_games(folder / "others-games.csv"),
        cloning=_cloning(folder / "cloning.csv"),
    )
    (folder / "others.md").write_text(page, encoding="utf-8")


def _pyramids(runs: Sequence[Run]) -> str:
    return score_table(list(WAYS), runs, mean=False) if runs else "Not run yet."


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _draw_games(rows: Sequence[dict[str, str]], path: Path) -> None:
    """One panel per game; a line for each opponent."""
    shares = [row for row in rows if row["figure"].startswith(AGAINST)]
    points = [
        Point(
            scene=row["game"],
            product=row["figure"],
            seed=int(row["seed"]),
            step=round(int(row["step"]), -4),  # checkpoints of all seeds, above one another
            reward=float(row["value"]),
        )
        for row in shares
    ]
    panels = [
        Panel(
            game,
            max(point.step for point in points if point.scene == game),
            list(dict.fromkeys(point.product for point in points if point.scene == game)),
        )
        for game in dict.fromkeys(point.scene for point in points)
    ]
    if panels:
        draw(panels, points, path, "share of 200 games")


def _games(path: Path) -> str:
    rows = _rows(path)
    if not rows:
        return "Not run yet."
    lines = [
        "| game | seed | steps | against | won | drawn | lost | reached |",
        "|---|---|---:|---|---:|---:|---:|---|",
    ]
    for row in rows:
        steps = f"{int(row['max_steps']):,}"
        cells = [row["game"], row["seed"], steps, row["opponent"], row["wins"], row["draws"], row["losses"]]
        lines.append("| " + " | ".join([*cells, "yes" if row["reached"] == "True" else "no"]) + " |")
    return "\n".join(lines)


def _cloning(path: Path) -> str:
    rows = _rows(path)
    lines = [
        "| demonstration | engine_actions | measure | clone | constant | draws |",
        "|---|---|---|---:|---:|---:|",
    ]
    kinds = dict.fromkeys((row["demo"], row["engine_actions"], row["measure"]) for row in rows)
    for kind in kinds:
        chosen = [row for row in rows if (row["demo"], row["engine_actions"], row["measure"]) == kind]
        means = [np.mean([float(row[key]) for row in chosen]) for key in ("clone", "constant")]
        cells = [kind[0], kind[1].lower(), kind[2], *(f"{mean:.3f}" for mean in means), str(len(chosen))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
