"""Whether agents explore where rewards are sparse: `pyramids` with and without RND.

    python tests/benchmarks/learning_others.py [--seeds 0 1 2] [--ways RND ...] [--threads 0]

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file.

Results are added to docs/results/others.csv and others-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page docs/results/others.md, which also shows what
learning_games.py and learning_cloning.py found, is written each time.
"""

import shlex
from collections import namedtuple
from collections.abc import Sequence

import numpy as np
from learning_cloning import CLONING_CSV, Clone
from learning_games import CURVES_CSV, MATCHES_CSV, Figure, Match
from results import read, table
from study import Point, Study, Task, Way, draw, score_table

WAYS = {
    "RND": Way("config/ppo/pyramids-small-rnd.yaml"),
    "rewards alone": Way("config/ppo/pyramids-small.yaml"),
}
PYRAMIDS = Task("pyramids", "scene:pyramids?size=small", "Pyramids", 5_000_000, WAYS, 64, sampled=True)
Panel = namedtuple("Panel", ["name", "max_steps", "ways"])


def draw_games(rows: Sequence[Figure]) -> None:
    """One panel per game; a line for each opponent."""
    points = [
        # Checkpoints of all seeds, above one another
        Point(row.game, row.figure, row.seed, round(row.step, -4), row.value)
        for row in rows
        if row.figure.startswith("against ")
    ]
    panels = []
    for game in dict.fromkeys(point.scene for point in points):
        own = [point for point in points if point.scene == game]
        opponents = list(dict.fromkeys(point.product for point in own))
        panels.append(Panel(game, max(point.step for point in own), opponents))
    if panels:
        draw(panels, points, "others-games", "share of 200 games")


def games_table(rows: Sequence[Match]) -> str:
    heads = ["game", "seed", "steps:", "against", "won:", "drawn:", "lost:", "reached"]
    lines = []
    for x in rows:
        cells = [x.game, str(x.seed), f"{x.max_steps:,}", x.opponent, *map(str, (x.wins, x.draws, x.losses))]
        lines.append([*cells, "yes" if x.reached else "no"])
    return table(heads, lines) if rows else "Not run yet."


def cloning_table(rows: Sequence[Clone]) -> str:
    lines = []
    for kind in dict.fromkeys((row.demo, row.engine_actions, row.measure) for row in rows):
        chosen = [row for row in rows if (row.demo, row.engine_actions, row.measure) == kind]
        means = np.mean([[row.clone, row.constant] for row in chosen], axis=0)
        cells = [kind[0], str(kind[1]).lower(), kind[2], *(f"{mean:.3f}" for mean in means)]
        lines.append([*cells, str(len(chosen))])
    return table(["demonstration", "engine_actions", "measure", "clone:", "constant:", "draws:"], lines)


def main() -> None:
    study = Study("others", [PYRAMIDS])
    study.run(__doc__)
    draw([PYRAMIDS], study.points, "others")
    draw_games(read(CURVES_CSV, Figure))
    commands = [
        PYRAMIDS.learn_command("RND", 0, "pyramids"),
        PYRAMIDS.play_command("RND", 0, "results/pyramids/Pyramids.onnx"),
    ]
    study.write_page(
        episodes=100,
        pyramids=score_table(list(WAYS), study.runs, {}),
        commands="\n".join(f"    {shlex.join(command)}" for command in commands),
        games=games_table(read(MATCHES_CSV, Match)),
        cloning=cloning_table(read(CLONING_CSV, Clone)),
    )


if __name__ == "__main__":
    main()
