"""The aims of a study, judged by its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from intervals import estimate
from results import table
from study import Study

RUNS, PEER_RUNS = 10, 5
"""How many runs an aim wants of Lanista, and of what it is compared with."""


@dataclass(frozen=True)
class Judgement:
    """What the runs say of an aim."""

    aim: str
    met: bool
    """By the runs that there are."""
    found: str
    missing: str = ""
    """Runs that are still to be made."""

    def row(self) -> list[str]:
        """Its line in the table."""
        verdict = "met" if self.met else "not met"
        if self.missing:
            verdict = f"not enough runs: {self.missing}" + (f"; so far {verdict}" if self.found else "")
        return [self.aim, verdict, self.found]


def claims_table(judgements: Sequence[Judgement]) -> str:
    return table(["aim", "verdict", "found"], [each.row() for each in judgements])


def missing(study: Study, task: str, wanted: Mapping[str, int]) -> str:
    """Which ways have fewer runs than are wanted."""
    has = {way: len(study.runs_of(study.task(task), way)) for way in wanted}
    lacking = [f"{study.label(way)} {has[way]} of {n}" for way, n in wanted.items() if has[way] < n]
    return ", ".join(lacking)


def not_behind(study: Study, task: str, ours: str, peer: str) -> Judgement:
    """Whether the peer's interval lies above ours neither in the score nor in the area."""
    one = study.task(task)
    lacking = missing(study, task, {ours: RUNS, peer: PEER_RUNS})
    met, found = True, []
    if study.runs_of(one, ours) and study.runs_of(one, peer):
        for name, values in (("score", study.scores), ("area", study.areas)):
            own, other = estimate(values(one, ours)), estimate(values(one, peer))
            met &= not other.low > own.high
            found.append(f"{name} {own.text()} against {other.text()}")
    aim = f"{task}: {study.label(ours)} not behind {study.label(peer)}"
    return Judgement(aim, met, "; ".join(found), lacking)


def reached(study: Study, task: str, way: str, goal: float, times: int) -> Judgement:
    """Whether at least so many of ten runs score the goal or more."""
    scores = study.scores(study.task(task), way)[:RUNS]
    count = sum(score >= goal for score in scores)
    aim = f"{task}: {study.label(way)} scores {goal:g} or more with {times} of {RUNS} seeds"
    found = f"{count} of {len(scores)}" if scores else ""
    met = len(scores) - count <= RUNS - times  # or can still be met
    return Judgement(aim, met, found, missing(study, task, {way: RUNS}))


def ordered(
    study: Study, task: str, ways: Sequence[str], wanted: Mapping[str, int] | None = None
) -> Judgement:
    """Whether the interquartile mean of the areas falls from way to way."""
    one = study.task(task)
    areas = {way: study.areas(one, way) for way in ways}
    lacking = missing(study, task, wanted or dict.fromkeys(ways, RUNS))
    aim = f"{task}: area of {' > '.join(map(study.label, ways))}"
    if not all(areas.values()):
        return Judgement(aim, False, "", lacking)
    found = [estimate(areas[way]) for way in ways]
    met = all(a.iqm > b.iqm for a, b in pairwise(found))
    return Judgement(aim, met, ", ".join(each.text() for each in found), lacking)
