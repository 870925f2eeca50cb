"""Training with slow engines, beside what they give to ready actions: one command, one table.

    tests/peer/install.sh .cache/peer
    python tests/benchmarks/costly_engines.py [--algorithms PPO SAC] [--costs 1 3 10] [--engines 1 2 4 8]
                                              [--rounds 3] [--again]

Each engine is scene:ball3d with 12 agents that computes for so many milliseconds more in each step. "Ready
actions" sends all engines actions drawn beforehand as soon as they have answered, through the same
`EnvManager` and wire, and learns nothing. Lanista and ML-Agents 1.1.0 train with config/ppo/ball3d.yaml and
settings/sac_ball3d.yaml but for their lengths, in turns. Rates of training count from the first summary to
the last; those of PPO are an update's length apart. What docs/results/costly-engines.csv already holds is not
measured again without `--again`. Writes that file and docs/results/costly-engines.md.
"""

from __future__ import annotations

import argparse
import logging
import math
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from results import (
    LANISTA,
    PEER,
    THREADED,
    Results,
    Row,
    median,
    median_ratio,
    table,
    write_page,
)
from side_by_side import Case, parse_comparison, train_in_turns
from speed_tasks import SETTINGS, preset, settings_of
from timed_scene import executable

READY = "ready actions"
AREAS = 12
TRAINERS = (LANISTA, THREADED, PEER)
PPO, SAC = "PPO", "SAC"
ALGORITHMS = (PPO, SAC)
SAC_SUMMARIES = 4_000
"""Agent-steps from one summary to the next."""


def kind(algorithm: str, cost: float, engines: int) -> str:
    return f"{'' if algorithm == PPO else f'{algorithm}, '}{cost:g} ms a step, {engines} engines"


def arguments(cost: float) -> list[str]:
    return ["--areas", str(AREAS), "--burn", f"{cost:g}"]


def settings(algorithm: str) -> dict[str, Any]:
    """Of three summaries."""
    if algorithm == SAC:
        own, summary = settings_of(SETTINGS / "sac_ball3d.yaml"), SAC_SUMMARIES
    else:
        own = preset("ball3d", "3DBall")
        summary = own["hyperparameters"]["buffer_size"]
    return own | {"max_steps": 3 * summary, "summary_freq": summary}


def cases(given: argparse.Namespace) -> list[Case]:
    """Every algorithm with every cost and every number of engines."""
    return [
        Case(
            *(kind(algorithm, cost, engines), AREAS * engines, "ball3d", "3DBall"),
            *(settings(algorithm), arguments(cost)),
            trainers=TRAINERS if algorithm == PPO else (LANISTA, PEER),
            options=lambda trainer, engines=engines: [f"--num-envs={engines}"],
        )
        for algorithm in given.algorithms
        for cost in given.costs
        for engines in given.engines
    ]


def ready(path: Path, cost: float, engines: int, seconds: float) -> dict[str, float]:
    """Agent-steps per second of engines that get actions at once, and what that costs this process."""
    from lanista.envs.base import Decision
    from lanista.envs.manager.manager import EnvManager
    from lanista.envs.unity import UnityEnvironment
    from mlagents_envs.base_env import ActionTuple

    draws = np.random.default_rng(0).uniform(-1, 1, (64, AREAS, 2)).astype(np.float32)
    nothing = np.zeros((AREAS, 2), np.float32), np.zeros(AREAS, np.float32)

    def make(index: int) -> UnityEnvironment:
        return UnityEnvironment(str(path), index, additional_args=arguments(cost), non_finite=None)

    with EnvManager(make, engines) as manager:
        manager.start()
        steps, count = manager.reset(), -10 * engines  # what comes before 0 warms up
        start = cpu = end = math.inf
        while (now := time.perf_counter()) < end:
            if count >= 0 and start == math.inf:
                start, end, cpu, count = now, now + seconds, time.process_time(), 0
            for step in steps:
                ((name, (asking, _)),) = step.steps.items()
                action = ActionTuple(draws[count % len(draws), : len(asking)])
                manager.send(step.env, {name: Decision(asking.agent_id, action, action, *nothing)})
                count += 1
            steps = manager.wait()
        wall, used = time.perf_counter() - start, time.process_time() - cpu
    agent_steps = AREAS * count
    return {
        "steps": agent_steps,
        "steps_per_s": agent_steps / wall,
        "trainer_cpu_us": 1e6 * used / agent_steps,
    }


def measure_ready(given: argparse.Namespace, results: Results) -> None:
    """The rows of ready actions that are missing; each algorithm is compared with rows of its own."""
    unknown = dict.fromkeys(("engine_cpu_us", "peak_mib", "start_s", "others"), math.nan)
    with tempfile.TemporaryDirectory() as folder:
        path = executable(Path(folder))
        for turn in range(1, given.rounds + 1):
            for algorithm, cost, engines in product(given.algorithms, given.costs, given.engines):
                key = (kind(algorithm, cost, engines), READY, "cpu", AREAS * engines, turn, 0)
                if given.again or key not in results.rows:
                    found = ready(path, cost, engines, given.seconds)
                    results.add(Row(*key[:-1], **found, **unknown))


def comparison(given: argparse.Namespace, results: Results) -> str:
    """For each cost and number of engines the rate of ready actions, and the share of it of each trainer."""
    heads = ["", "ms a step:", "engines:", "ready actions, agent-steps/s:"]
    heads += [f"{trainer}:" for trainer in TRAINERS]
    heads += [f"times ML-Agents, {trainer}:" for trainer in TRAINERS[:2]]
    lines = []
    for algorithm, cost, engines in product(ALGORITHMS, given.costs, given.engines):
        name = kind(algorithm, cost, engines)
        of = {trainer: results.of(name, trainer, AREAS * engines) for trainer in (READY, *TRAINERS)}
        if not of[READY]:
            continue
        cells = [algorithm, f"{cost:g}", str(engines), f"{median(of[READY], 'steps_per_s'):,.0f}"]
        cells += [f"{median_ratio(of[t], of[READY], 'steps_per_s'):.0%}" if of[t] else "" for t in TRAINERS]
        times = [median_ratio(of[t], of[PEER], "steps_per_s") for t in TRAINERS[:2]]
        lines.append([*cells, *("" if math.isnan(x) else f"{x:.1f}" for x in times)])
    return table(heads, lines)


def main() -> None:
    costs = {"default": [1.0, 3.0, 10.0], "help": "milliseconds that an engine computes in each step"}
    algorithms = {"default": list(ALGORITHMS), "choices": ALGORITHMS, "help": "what trains"}
    given = parse_comparison(
        __doc__, *TRAINERS, algorithms=algorithms, costs=costs, engines=[1, 2, 4, 8], seconds=4.0
    )
    logging.disable()
    results = Results(given.out / "costly-engines.csv")
    measure_ready(given, results)
    train_in_turns(cases(given), given, results)
    print(
        write_page("costly-engines", given.out, table=comparison(given, results), busy=results.conditions())
    )


if __name__ == "__main__":
    main()
