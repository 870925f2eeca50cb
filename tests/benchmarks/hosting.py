"""Environments in Python within the run's process, and in processes of their own: which is faster when.

    python tests/benchmarks/hosting.py [--rounds 5] [--seconds 3] [--again]

Steps environments through `EnvManager` with ready actions; nothing acts, collects or learns. The ways are
measured in turns, and ratios are medians of the ratios within a round. What docs/results/hosting.csv already
holds is not measured again without `--again`. Writes that file and docs/results/hosting.md.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from lanista.envs.base import Decision, EnvironmentStep
from lanista.envs.engines.options import EngineOptions
from lanista.envs.manager.manager import EnvManager
from lanista.envs.opening import open_environment
from lanista.envs.python.sources import make_source
from mlagents_envs.base_env import BaseEnv
from results import RESULTS, Results, Row, median, median_ratio, table, write_page
from script_options import parse_options

HERE = Path(__file__).resolve().parent
QUIET = 0.5
"""Cores that other work may keep busy without changing what a rate says."""
BUSY = (
    " On a machine so busy, a way with more processes gets more of it, and every message waits for its turn. "
    "Processor times then say more than rates do."
)


@dataclass(frozen=True)
class Case:
    """One kind of environment."""

    title: str
    path: str
    copies: int = 1


CASES = (
    Case("CartPole", "gymnasium:CartPole-v1"),
    Case("CartPole", "gymnasium:CartPole-v1", 16),
    Case("computes for 2 ms", "python:burning:Burning?compute=2"),
    Case("waits for 2 ms", "python:burning:Burning?wait=2"),
    Case("pictures, 4 x 84 x 84", "python:burning:Burning?picture=true"),
)
IN_PLACE = "in place"
WAYS: Mapping[str, int] = {IN_PLACE: 0, "1 worker": 1, "2 workers": 2, "4 workers": 4}


def measure(case: Case, workers: int, seconds: float) -> dict[str, float]:
    """Steps, steps per second, and processor time of a step here and in the workers."""

    def make(index: int) -> BaseEnv:
        if workers:
            return open_environment(
                EngineOptions(
                    path=case.path,
                    worker_id=index,
                    seed=index,
                    num_areas=case.copies,
                    images="uint8",
                    hosted=True,
                )
            )
        return make_source(case.path, index, (), case.copies, images="uint8")

    with EnvManager(make, max(1, workers)) as manager:
        manager.start()
        steps = manager.reset()
        steps, _ = step_for(manager, steps, seconds / 4)
        before, wall = seconds_used(), time.perf_counter()
        _, count = step_for(manager, steps, seconds)
        wall = time.perf_counter() - wall
        own, theirs, all_ = (now - then for now, then in zip(seconds_used(), before))
    return {
        "steps": count,
        "steps_per_s": count / wall,
        "trainer_cpu_us": 1e6 * own / count,
        "engine_cpu_us": 1e6 * theirs / count,
        "others": max(0.0, all_ - own - theirs) / wall,
    }


def step_for(
    manager: EnvManager, steps: list[EnvironmentStep], seconds: float
) -> tuple[list[EnvironmentStep], int]:
    """Step for so long; the last steps, and how many steps agents have made."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for step in steps:
            answer = {}
            for name, (asking, _) in step.steps.items():
                action = manager.behavior_specs[name].action_spec.empty_action(len(asking))
                none = np.zeros((len(asking), 1), np.float32)
                answer[name] = Decision(asking.agent_id, action, action, none, none[:, 0])
                count += len(asking)
            manager.send(step.env, answer)
        steps = manager.wait()
    return steps, count


def seconds_used() -> tuple[float, float, float]:
    """Processor seconds of this process, of its workers, and of the whole machine."""
    here = psutil.Process()
    theirs = [each.cpu_times() for each in here.children()]
    own, all_ = here.cpu_times(), psutil.cpu_times()
    return (
        own.user + own.system,
        sum(each.user + each.system for each in theirs),
        sum(all_) - all_.idle - getattr(all_, "iowait", 0.0),
    )


def run_all(given: argparse.Namespace, results: Results) -> None:
    """Measure what the rows lack, the order of the ways turning from round to round."""
    unknown = {"peak_mib": float("nan"), "start_s": float("nan")}
    for turn in range(1, given.rounds + 1):
        for case in CASES:
            for way in list(WAYS)[:: 1 if turn % 2 else -1]:
                key = (case.title, way, "cpu", case.copies, turn, 0)
                if given.again or key not in results.rows:
                    found = measure(case, WAYS[way], given.seconds)
                    row = Row(*key[:-1], **found, **unknown)
                    results.add(row)
                    print(f"{case.title} x {case.copies}, {way}: {row.steps_per_s:,.0f} steps/s", flush=True)


def rates_table(results: Results) -> str:
    """Steps per second, and times in place."""
    lines = []
    for case in CASES:
        place = results.of(case.title, IN_PLACE, case.copies)
        cells = [case.title, str(case.copies)]
        for way in WAYS:
            rows = results.of(case.title, way, case.copies)
            times = "" if way == IN_PLACE else f" ({median_ratio(rows, place, 'steps_per_s'):.2g})"
            cells.append(f"{median(rows, 'steps_per_s'):,.0f}{times}")
        lines.append(cells)
    return table(["environment", "copies:", *(f"{way}, steps/s:" for way in WAYS)], lines)


def costs_table(results: Results) -> str:
    """Processor time of a step in place, and with one worker here and there."""
    lines = []
    for case in CASES:
        place, one = (results.of(case.title, way, case.copies) for way in (IN_PLACE, "1 worker"))
        figures = [median(rows, "trainer_cpu_us") for rows in (place, one)] + [median(one, "engine_cpu_us")]
        lines.append([case.title, str(case.copies), *(f"{each:,.0f}" for each in figures)])
    return table(["environment", "copies:", "in place:", "1 worker: the run:", "the worker:"], lines)


def main() -> None:
    """Measure, and write the page."""
    given = parse_options(
        __doc__,
        rounds=5,
        seconds={"default": 3.0, "help": "of each measurement"},
        again={"default": False, "help": "measure also what the CSV holds"},
        out={"default": RESULTS, "type": Path},
    )
    logging.disable(logging.INFO)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    results = Results(given.out / "hosting.csv")
    run_all(given, results)
    rounds = max(row.round for row in results.rows.values())
    busy = BUSY if median(results.rows.values(), "others") >= QUIET else ""
    shown = {"table": rates_table(results), "costs": costs_table(results)}
    print(write_page("hosting", given.out, **shown, busy=f"Rounds: {rounds}. {results.conditions()}{busy}"))


if __name__ == "__main__":
    main()
