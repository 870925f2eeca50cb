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
from lanista.envs.hosting.environment import HostedEnvironment
from lanista.envs.hosting.source import HostedSource
from lanista.envs.manager.manager import EnvManager
from lanista.envs.python.sources import make_source
from mlagents_envs.base_env import BaseEnv
from results import Results, Row, machine, median, median_ratio

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
QUIET = 0.5
"""Cores that other work may keep busy without changing what a rate says."""

PAGE = """# In place or hosted

Written by `python tests/benchmarks/hosting.py` from hosting.csv; every measurement in it is there.

Environments in Python, stepped within the run's process or hosted in one, two and four processes
([when to do which](../python-environments.md#in-processes-of-their-own)). Steps are those of all agents
together, with ready actions: nothing acts or learns meanwhile. In turns; medians, and behind them how many
times as fast as in place, medians of the ratios within a round. {busy}

{table}

The same in processor time, microseconds for each step of an agent: of the run's process, and of the worker.

{costs}

- **A light environment is stepped in place.** The message there and back costs more than a step of CartPole.
  Copies share it: with `--num-areas 16` it carries sixteen agents.
- **A step that computes for milliseconds is hosted**, with as many workers as there are processors to spare.
  What the message costs matters little then, and the run acts and learns meanwhile. In place it cannot.
- **A step that waits** (for a simulator, a socket, a clock) is hosted by many workers, whatever the number of
  processors: all of them wait at the same time.
- **Pictures** are the dearest to send. In place they are looked at where they are; hosted they travel as PNG
  files without compression, which is the least work at both ends.
"""


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
            source = HostedSource(case.path)
            return HostedEnvironment(source, index, seed=index, num_areas=case.copies, images="uint8")
        return make_source(case.path, index, (), case.copies, images="uint8")

    with EnvManager(make, max(1, workers)) as manager:
        manager.start()
        steps = manager.reset()
        steps, _ = go_on(manager, steps, seconds / 4)
        before, wall = seconds_used(), time.perf_counter()
        _, count = go_on(manager, steps, seconds)
        wall = time.perf_counter() - wall
        own, theirs, all_ = (now - then for now, then in zip(seconds_used(), before))
    return {
        "steps": count,
        "steps_per_s": count / wall,
        "trainer_cpu_us": 1e6 * own / count,
        "engine_cpu_us": 1e6 * theirs / count,
        "others": max(0.0, all_ - own - theirs) / wall,
    }


def go_on(
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
    for turn in range(1, given.rounds + 1):
        for case in CASES:
            for way in list(WAYS)[:: 1 if turn % 2 else -1]:
                if given.again or (case.title, way, "cpu", case.copies, turn) not in results.rows:
                    found = measure(case, WAYS[way], given.seconds)
                    nan = float("nan")
                    row = Row(
                        *(case.title, way, "cpu", case.copies, turn),
                        **found, peak_mib=nan, start_s=nan, machine=machine(),
                    )  # fmt: skip
                    results.add(row)
                    print(f"{case.title} x {case.copies}, {way}: {row.steps_per_s:,.0f} steps/s", flush=True)


def table(results: Results) -> str:
    """Steps per second, and times in place."""
    lines = [
        "| environment | copies | " + " | ".join(f"{way}, steps/s" for way in WAYS) + " |",
        "|---|---:|" + "---:|" * len(WAYS),
    ]
    for case in CASES:
        place = results.of(case.title, IN_PLACE, case.copies)
        cells = []
        for way in WAYS:
            rows = results.of(case.title, way, case.copies)
            times = "" if way == IN_PLACE else f" ({median_ratio(rows, place, 'steps_per_s'):.2g})"
            cells.append(f"{median(rows, 'steps_per_s'):,.0f}{times}")
        lines.append(f"| {case.title} | {case.copies} | {' | '.join(cells)} |")
    return "\n".join(lines)


def costs(results: Results) -> str:
    """Processor time of a step in place, and with one worker here and there."""
    lines = [
        "| environment | copies | in place | 1 worker: the run | the worker |",
        "|---|---:|---:|---:|---:|",
    ]
    for case in CASES:
        place, one = (results.of(case.title, way, case.copies) for way in (IN_PLACE, "1 worker"))
        figures = (
            median(place, "trainer_cpu_us"), median(one, "trainer_cpu_us"), median(one, "engine_cpu_us"),
        )  # fmt: skip
        lines.append(f"| {case.title} | {case.copies} | {' | '.join(f'{each:,.0f}' for each in figures)} |")
    return "\n".join(lines)


def busy(results: Results) -> str:
    """On what it was measured, and beside what."""
    rows = list(results.rows.values())
    rounds = max(row.round for row in rows)
    others = median(rows, "others")
    told = (
        f"Rounds: {rounds}. {rows[0].machine}; other work kept {others:.1f} of the cores "
        f"busy in the median measurement and {max(row.others for row in rows):.1f} in the worst."
    )
    if others < QUIET:
        return told
    return (
        f"{told} On a machine so busy, who has more processes gets more of it, and every message waits for "
        "its turn. Processor times then say more than rates do."
    )


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--again", action="store_true", help="measure also what the CSV holds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    results = Results(given.out / "hosting.csv")
    run_all(given, results)
    page = PAGE.format(table=table(results), costs=costs(results), busy=busy(results))
    (given.out / "hosting.md").write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
