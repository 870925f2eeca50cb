"""Whether agents explore where rewards are sparse: `pyramids` with and without RND.

    python tests/benchmarks/learning_others.py [--seeds 0 1 ...] [--ways RND ...] [--jobs 2]

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file.

Results are added to docs/results/others.csv and others-curves.csv. A run that is there with the settings of
today is not made again. The page docs/results/others.md, which also shows what learning_games.py and
learning_cloning.py found, is written each time.
"""

from collections.abc import Sequence

import numpy as np
from curves import Panel, draw
from learning_cloning import CLONING_CSV, Clone
from learning_games import CURVES_CSV, MATCHES_CSV, Figure, Match
from results import RESULTS, read, table
from study import Study, Task, Way

WAYS = {
    "RND": Way("config/ppo/pyramids-small-rnd.yaml"),
    "rewards alone": Way("config/ppo/pyramids-small.yaml"),
}
PYRAMIDS = Task("pyramids", "scene:pyramids?size=small", "Pyramids", 5_000_000, WAYS, 64, sampled=True)


def draw_games(rows: Sequence[Figure]) -> None:
    """One panel per game; a line for each opponent."""
    panels = []
    for game in dict.fromkeys(row.game for row in rows):
        shares: dict[str, dict[int, list[tuple[int, float]]]] = {}
        for row in rows:
            if row.game == game and row.figure.startswith("against "):
                shares.setdefault(row.figure, {}).setdefault(row.seed, []).append((row.step, row.value))
        last = max(row.step for row in rows if row.game == game)
        panels.append(Panel(game, last, {name: list(seeds.values()) for name, seeds in shares.items()}))
    if panels:
        draw(panels, RESULTS / "others-games.png", "share of 200 games")


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
    study.draw()
    draw_games(read(CURVES_CSV, Figure))
    study.write_page(
        pyramids=study.score_table(PYRAMIDS),
        commands=study.commands(lambda task: ["RND"]),
        games=games_table(read(MATCHES_CSV, Match)),
        cloning=cloning_table(read(CLONING_CSV, Clone)),
    )


if __name__ == "__main__":
    main()
