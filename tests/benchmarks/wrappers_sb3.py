"""Whether Stable-Baselines3 learns a scene through the wrapper, and what the wrappers cost.

    LANISTA_SB3=path/to/python python tests/benchmarks/wrappers_sb3.py [--seeds 0 1 2] [--again]

LANISTA_SB3 is the Python of an environment with stable-baselines3 and Lanista. Without it, only the wrappers
are timed (Gymnasium and PettingZoo are needed), and the page is written from what is there.

Results are added to docs/results/wrappers.csv, which holds the runs, and wrappers-cost.csv. What is there
already is not measured again without `--again`.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from lanista.envs.unity import UnityEnvironment
from lanista.envs.wrappers import make_aec, make_parallel, make_vector
from mlagents_envs.base_env import ActionTuple
from numpy.typing import NDArray
from products import run_command
from results import RESULTS, read, table, write, write_page
from script_options import parse_options

RUNS_CSV, COSTS_CSV = RESULTS / "wrappers.csv", RESULTS / "wrappers-cost.csv"
SCRIPT = Path(__file__).with_name("sb3_ball3d.py")
AREAS, MAX_STEPS, EPISODES = 12, 120_000, 100
SCENE = f"scene:ball3d?areas={AREAS}"
ROUNDS, AGENT_STEPS = 5, 6_000


@dataclass(frozen=True)
class Run:
    """A line of wrappers.csv."""

    scene: str
    seed: int
    max_steps: int
    score: float
    std: float
    seconds: float


@dataclass(frozen=True)
class Cost:
    """A line of wrappers-cost.csv."""

    way: str
    agents: int
    cpu_us: float
    """Of the script's process, per agent-step."""


def train(seeds: list[int], python: str) -> None:
    """Train and score what the table lacks."""
    runs = read(RUNS_CSV, Run)
    for seed in seeds:
        if any((run.seed, run.max_steps) == (seed, MAX_STEPS) for run in runs):
            continue
        plan = {"seed": seed, "areas": AREAS, "max_steps": MAX_STEPS, "episodes": EPISODES}
        found = json.loads(run_command([python, "-W", "ignore", SCRIPT, json.dumps(plan)]).splitlines()[-1])
        runs.append(Run(SCENE, seed, MAX_STEPS, found["mean"], found["std"], round(found["seconds"], 1)))
        write(RUNS_CSV, Run, runs)
        print(f"seed {seed}: {found['mean']:.3f} ({found['seconds']:.0f} s)", flush=True)


def ways() -> dict[str, Callable[[], int]]:
    """By way, a function that takes one step and returns how many agents acted in it."""
    plain = UnityEnvironment(SCENE, seed=1)
    plain.reset()
    (name,) = plain.behavior_specs
    vector, parallel, aec = make_vector(SCENE), make_parallel(SCENE), make_aec(SCENE)
    vector.reset()
    random = np.random.default_rng(0)

    def draw(agents: int) -> NDArray[np.float32]:
        return random.uniform(-1, 1, (agents, 2)).astype(np.float32)

    def step_plain() -> int:
        waiting = len(plain.get_steps(name)[0])
        plain.set_actions(name, ActionTuple(draw(waiting)))
        plain.step()
        return waiting

    def step_vector() -> int:
        vector.step(draw(AREAS))
        return AREAS

    def step_parallel() -> int:
        if not parallel.agents:
            parallel.reset()
        acting = parallel.agents
        parallel.step(dict(zip(acting, draw(len(acting)))))
        return len(acting)

    def step_aec() -> int:
        if not aec.agents:
            aec.reset()
        _, _, terminated, truncated, _ = aec.last()
        if terminated or truncated:
            aec.step(None)
            return 0
        aec.step(draw(1)[0])
        return 1

    return {
        "`UnityEnvironment`, as it is": step_plain,
        "`UnityVectorEnv`": step_vector,
        "`UnityParallelEnv`": step_parallel,
        "`UnityAECEnv`": step_aec,
    }


def time_ways() -> list[Cost]:
    """The ways in turns."""
    found: dict[str, list[float]] = {}
    every = ways()
    for _ in range(ROUNDS):
        for way, step in every.items():
            began, acted = time.process_time(), 0
            while acted < AGENT_STEPS:
                acted += step()
            found.setdefault(way, []).append(1e6 * (time.process_time() - began) / acted)
    return [Cost(way, AREAS, round(statistics.median(each), 1)) for way, each in found.items()]


def main() -> None:
    """Run as the module says."""
    given = parse_options(
        __doc__,
        seeds={"default": [0, 1, 2], "help": "seeds to train with"},
        again={"default": False, "help": "measure the costs again"},
    )
    python = os.environ.get("LANISTA_SB3")
    if python:
        train(given.seeds, python)
    if given.again or not COSTS_CSV.exists():
        write(COSTS_CSV, Cost, time_ways())
    runs, costs = read(RUNS_CSV, Run), sorted(read(COSTS_CSV, Cost), key=lambda cost: cost.cpu_us)
    lines = [[str(r.seed), f"{r.score:.3f}", f"{r.std:.3f}", f"{r.seconds:.0f}"] for r in runs]
    if runs:
        lines.append(["mean", f"**{statistics.mean(run.score for run in runs):.3f}**", "", ""])
    write_page(
        "wrappers",
        scene=SCENE,
        steps=MAX_STEPS,
        episodes=EPISODES,
        rounds=ROUNDS,
        length=AGENT_STEPS,
        runs=table(["seed", "score:", "deviation:", "training, seconds:"], lines),
        costs=table(["Way", "microseconds:"], [[x.way, f"{x.cpu_us:.0f}"] for x in costs]),
    )


if __name__ == "__main__":
    main()
