"""Whether Stable-Baselines3 learns a scene through the wrapper, and what the wrappers cost.

    LANISTA_SB3=path/to/python python tests/benchmarks/wrappers_sb3.py [--seeds 0 1 2]

LANISTA_SB3 is the Python of an environment with stable-baselines3 and Lanista. Without it, only the wrappers
are timed (Gymnasium and PettingZoo are needed), and the page is written from what is there.

Results are added to docs/results/wrappers.csv, which holds the runs, and wrappers-cost.csv. Runs that are
there already are not repeated; the cost is measured anew each time.
"""

from __future__ import annotations

import argparse
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
from learning import EPISODES, RESULTS, read, run_command, write
from mlagents_envs.base_env import ActionTuple
from numpy.typing import NDArray

RUNS_CSV, COSTS_CSV = RESULTS / "wrappers.csv", RESULTS / "wrappers-cost.csv"
SCRIPT = Path(__file__).with_name("sb3_ball3d.py")
AREAS, MAX_STEPS = 12, 120_000
SCENE = f"scene:ball3d?areas={AREAS}"
ROUNDS, AGENT_STEPS = 5, 6_000

PAGE = """# Stable-Baselines3 through the wrapper

<!-- Made by `python tests/benchmarks/wrappers_sb3.py`; edit its report's text there. -->

## What it learns

PPO of Stable-Baselines3 in `{scene}`, through [`make_sb3`](../wrappers.md#stable-baselines3), with
the hyperparameters and the network's size of [config/ppo/ball3d.yaml](../../config/ppo/ball3d.yaml) and
{steps:,} agent-steps: the same scene, settings and budget as of Lanista's own PPO in
[learning](learning.md). The score is the mean reward of {episodes} episodes with the likeliest actions, from
starts that no training saw; the most that an episode can give is 100. Stable-Baselines3 sums an
episode's 1,000 rewards of 0.1 as float32, and 99.999 comes of that.

| seed | score | deviation | training, seconds |
|---|---:|---:|---:|
{runs}

The seconds are those of a machine of two processors that other processes used at the same time.

## What the wrappers cost

Microseconds of a processor that the script's process takes for one agent's step, in the same scene, with
random actions and without learning: the median of {rounds} rounds of {length:,} agent-steps, in which the
ways take turns. The engine's own process is not in it. In PettingZoo's ways an agent whose episode has ended
waits for the others, so that fewer agents share what an exchange with the engine costs.

| Way | microseconds |
|---|---:|
{costs}

## Commands

    LANISTA_SB3=path/to/python python tests/benchmarks/wrappers_sb3.py
    path/to/python tests/benchmarks/sb3_ball3d.py '{{"seed": 0}}'

Runs that [wrappers.csv](wrappers.csv) holds already are not repeated; the costs are in
[wrappers-cost.csv](wrappers-cost.csv).
"""


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
        told = json.loads(run_command([python, "-W", "ignore", SCRIPT, json.dumps(plan)]).splitlines()[-1])
        runs.append(Run(SCENE, seed, MAX_STEPS, told["mean"], told["std"], round(told["seconds"], 1)))
        write(RUNS_CSV, Run, runs)
        print(f"seed {seed}: {told['mean']:.3f} ({told['seconds']:.0f} s)", flush=True)


def ways() -> dict[str, Callable[[], int]]:
    """What takes one step in each way, and tells how many agents acted in it."""
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


def page(runs: list[Run], costs: list[Cost]) -> str:
    """The page of results."""
    lines = [f"| {r.seed} | {r.score:.3f} | {r.std:.3f} | {r.seconds:.0f} |" for r in runs]
    if runs:
        lines.append(f"| mean | **{statistics.mean(run.score for run in runs):.3f}** | | |")
    return PAGE.format(
        scene=SCENE,
        steps=MAX_STEPS,
        episodes=EPISODES,
        rounds=ROUNDS,
        length=AGENT_STEPS,
        runs="\n".join(lines),
        costs="\n".join(f"| {cost.way} | {cost.cpu_us:.0f} |" for cost in costs),
    )


def main() -> None:
    """Run as the module says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds to train with")
    given = parser.parse_args()
    python = os.environ.get("LANISTA_SB3")
    if python:
        train(given.seeds, python)
    costs = time_ways()
    write(COSTS_CSV, Cost, costs)
    (RESULTS / "wrappers.md").write_text(page(read(RUNS_CSV, Run), costs), encoding="utf-8")


if __name__ == "__main__":
    main()
