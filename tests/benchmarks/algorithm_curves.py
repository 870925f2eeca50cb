"""The pictures of docs/algorithms: what each algorithm learned, of the runs that the studies have made.

    python tests/benchmarks/algorithm_curves.py [ALGORITHM ...]

Nothing is trained: the curves are those of docs/results/*-curves.csv whose runs are Lanista's, with the
settings of config/ALGORITHM and no further option. A task whose curves are missing has no panel, and an
algorithm without any no picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import learning
import learning_others
import learning_replay
import learning_teams
from curves import Panel, draw
from products import LANISTA, Product
from results import ROOT
from study import Study

FOLDER = ROOT / "docs" / "algorithms"
STUDIES = {
    "learning": learning.TASKS,
    "teams": learning_teams.TASKS,
    "replay": learning_replay.TASKS,
    "others": [learning_others.PYRAMIDS],
}
"""Of each page of results, what was trained."""


def algorithms() -> list[str]:
    """Those that have a page."""
    return sorted(page.stem for page in FOLDER.glob("*.md"))


def panels(algorithm: str, studies: Sequence[Study], product: Product = LANISTA) -> Iterator[Panel]:
    """What an algorithm of a product learned, task by task: a curve for each of its settings."""
    for study in studies:
        for task in study.tasks:
            found = {
                PurePosixPath(way.config).stem: curves
                for name, way in task.ways.items()
                if way.product is product and not way.options
                if PurePosixPath(way.config).parent.name == algorithm
                if (curves := study.curves(task, name))
            }
            if found:
                yield Panel(task.name, task.max_steps, found, task.goal)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algorithms", nargs="*", metavar="ALGORITHM", help="all that have a page")
    chosen = parser.parse_args().algorithms or algorithms()
    studies = [Study(name, tasks) for name, tasks in STUDIES.items()]
    for algorithm in chosen:
        drawn = list(panels(algorithm, studies))
        if drawn:
            draw(drawn, Path(FOLDER, f"{algorithm}.png"))
        print(f"{algorithm}: {', '.join(panel.title for panel in drawn) or 'no curves'}")


if __name__ == "__main__":
    main()
