"""How many steps SAC needs by SimBa's recipe, beside plain SAC and the CrossQ of sb3-contrib.

    python tests/benchmarks/learning_simba.py [--tasks pendulum ...] [--ways SAC ...] [--seeds 0 1 ...]
    LANISTA_SB3=path/to/python python tests/benchmarks/learning_simba.py

Runs and scores are made as in learning_replay.py; LANISTA_SB3 needs sb3-contrib too, and `half-cheetah`
and `inverted-double-pendulum` mujoco. Results are added to docs/results/simba.csv and simba-curves.csv. A run
that is there with the settings of today is not made again; the page and its picture are written each time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from claims import Judgement, claims_table, missing
from intervals import Curve, estimate, iqm, steps_to
from results import table
from stable_baselines import CROSSQ
from study import Study, Task, Way, ours, settings_line

PLAIN, SIMBA, OTHER = "SAC", "SAC, SimBa", "CrossQ of sb3-contrib"
RUNS = 5
SHARE = 0.9
"""Of the way from plain SAC's first return to its last, that is to be reached."""
FEWER = 1.5
"""Times fewer steps are wanted."""
WINDOW, LAST = 0.1, 0.2
"""Parts of the budget: returns are averaged over the one, and the last return is that of the other."""


def task(
    name: str, environment: str, behavior: str, areas: int, max_steps: int, summary_freq: int, goal: float
) -> Task:
    """An environment that is learned in both ways, and by CrossQ if it is Gymnasium's."""
    ways = {PLAIN: Way(f"config/sac/{name}.yaml"), SIMBA: Way(f"config/sac/{name}-simba.yaml")}
    if environment.startswith("gymnasium:"):
        ways[OTHER] = Way(f"config/sac/{name}.yaml", product=CROSSQ)
    return Task(name, environment, behavior, max_steps, ways, areas, goal, summary_freq=summary_freq)


TASKS = [
    task("ball3d", "scene:ball3d", "3DBall", 12, 60_000, 1_200, 95),
    task("pendulum", "gymnasium:Pendulum-v1", "Pendulum-v1", 1, 10_000, 200, -200),
    task(
        *("inverted-double-pendulum", "gymnasium:InvertedDoublePendulum-v5", "InvertedDoublePendulum-v5"),
        *(1, 40_000, 1_000, 9_000),
    ),
    task("half-cheetah", "gymnasium:HalfCheetah-v5", "HalfCheetah-v5", 1, 24_000, 1_000, 1_000),
]


def level(curves: Sequence[Curve], max_steps: int) -> float:
    """What is to be reached, by the curves of plain SAC."""
    firsts = [curve[0][1] for curve in curves]
    lasts = [np.mean([value for step, value in curve if step > (1 - LAST) * max_steps]) for curve in curves]
    first, last = iqm(firsts), iqm(lasts)
    return float(first + SHARE * (last - first))


def steps(study: Study, one: Task) -> dict[str, list[float]]:
    """By way, how many each run needed; infinitely many where it did not get there."""
    curves = {way: study.curves(one, way) for way in one.ways}
    if not curves[PLAIN]:
        return {}
    wanted = level(curves[PLAIN], one.max_steps)
    window = round(WINDOW * one.max_steps)
    return {way: [steps_to(each, wanted, window) for each in found] for way, found in curves.items() if found}


def steps_table(study: Study) -> str:
    """A row for each task and way: the steps of its runs, the budget for those that did not get there."""
    rows = []
    for one in study.tasks:
        found = steps(study, one)
        for way, needed in found.items():
            bounded = np.minimum(needed, one.max_steps)
            times = iqm(np.minimum(found[PLAIN], one.max_steps)) / iqm(bounded)
            reached = f"{np.isfinite(needed).sum()} of {len(needed)}"
            rows.append([one.name, way, reached, estimate(bounded).text(0), f"{times:.2f}"])
    heads = ["task", "trainer", "runs that got there:", "agent-steps:", "times fewer than SAC:"]
    return table(heads, rows) if rows else "Not run yet."


def fewer(study: Study, one: Task) -> Judgement:
    """Whether SimBa's recipe needs as many times fewer steps as is wanted."""
    found = steps(study, one)
    lacking = missing(study, one.name, {PLAIN: RUNS, SIMBA: RUNS})
    aim = f"{one.name}: {SIMBA} needs {FEWER:g} times fewer agent-steps than {PLAIN}"
    if SIMBA not in found:
        return Judgement(aim, False, "", lacking)
    times = iqm(np.minimum(found[PLAIN], one.max_steps)) / iqm(np.minimum(found[SIMBA], one.max_steps))
    return Judgement(aim, bool(times >= FEWER), f"{times:.2f} times", lacking)


def main() -> None:
    study = Study("simba", TASKS)
    study.run(__doc__)
    study.draw()
    study.write_page(
        aims=claims_table([fewer(study, one) for one in TASKS]),
        steps=steps_table(study),
        tables=study.sections(settings_line),
        commands=study.commands(ours),
    )


if __name__ == "__main__":
    main()
