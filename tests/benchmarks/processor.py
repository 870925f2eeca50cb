"""How long the way from an environment's step to a trainer's columns takes, in microseconds per agent-step.

    python tests/benchmarks/processor.py [--steps 1000] [--repeat 3] [--profile]

"collect" is `AgentProcessor.add_experiences`; "rollout" turns the trajectories of that time into columns.
Processor time; the best of some repetitions, since other work on the machine only ever makes it more.
"""

from __future__ import annotations

import cProfile
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests

import numpy as np
from lanista.agent_processor.processor import AgentManager
from lanista.agent_processor.rollout import build_rollout
from lanista.envs.base import Decision
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from script_options import parse_options
from specs import spec_of_shapes

Step = tuple[DecisionSteps, TerminalSteps, Decision]


@dataclass(frozen=True)
class Load:
    name: str
    agents: int
    group_size: int = 0
    continuous: int = 2
    branches: tuple[int, ...] = ()
    obs: tuple[int, ...] = (8,)
    horizon: int = 64
    ending: float = 0.01
    """Share of the agents whose episode ends in a step."""
    new_ids: bool = False
    """An agent gets a new id with every episode."""
    as_bytes: bool = False
    """Observations are bytes of images."""


LOADS = [
    Load("12 agents", 12),
    Load("1024 agents", 1024),
    Load("1024 agents, horizon 1000", 1024, horizon=1000),
    Load("12 agents in 3 groups, hybrid", 12, 4, branches=(3, 2)),
    Load("1024 agents in 256 groups, hybrid, new ids", 1024, 4, branches=(3, 2), new_ids=True),
    Load("64 agents, image 3x84x84", 64, obs=(3, 84, 84)),
    Load("64 agents, image 3x84x84 as bytes", 64, obs=(3, 84, 84), as_bytes=True),
]


class SilentSink:
    def add_stat(self, key: str, value: float, aggregation: object) -> None: ...

    def add_stats(self, key: str, values: np.ndarray, aggregation: object) -> None: ...

    def set_stat(self, key: str, value: float) -> None: ...


def spec_of(load: Load) -> BehaviorSpec:
    return spec_of_shapes([load.obs], continuous=load.continuous, branches=load.branches)


def steps_of(load: Load, count: int) -> Iterator[Step]:
    """Every agent decides in every step; some end first and start again."""
    rng = np.random.default_rng(0)
    n = load.agents
    ids = rng.permutation(n).astype(np.int32)
    groups = (np.arange(n) // load.group_size + 1 if load.group_size else np.zeros(n)).astype(np.int32)
    obs = rng.standard_normal((n, *load.obs)).astype(np.float32)
    if load.as_bytes:
        obs = rng.integers(0, 256, obs.shape, dtype=np.uint8)
    mask = [rng.random((n, size)) < 0.2 for size in load.branches] or None
    numbers = rng.standard_normal(n).astype(np.float32)
    for _ in range(count):
        decided = decision_of(load, ids, rng)
        over = np.flatnonzero(rng.random(n) < load.ending)
        terminals = TerminalSteps(
            [obs[over]], numbers[over], np.zeros(len(over), bool), ids[over], groups[over], numbers[over]
        )
        if load.new_ids:
            ids = ids.copy()
            ids[over] = np.arange(len(over)) + ids.max() + 1
        yield DecisionSteps([obs], numbers, ids, mask, groups, numbers), terminals, decided


def decision_of(load: Load, ids: np.ndarray, rng: np.random.Generator) -> Decision:
    n = len(ids)
    action = ActionTuple(
        rng.standard_normal((n, load.continuous)).astype(np.float32),
        np.zeros((n, len(load.branches)), np.int32),
    )
    log_probs = np.zeros((n, load.continuous + len(load.branches)), np.float32)
    return Decision(ids, action, action, log_probs, np.zeros(n, np.float32))


def measure(load: Load, count: int) -> tuple[float, float, int]:
    """Seconds of collecting and of rollouts, and the number of steps in the trajectories."""
    manager = AgentManager("Bench?team=0", spec_of(load), load.horizon, SilentSink())
    collecting = rolling = 0.0
    total = 0
    for i, (decisions, terminals, decided) in enumerate(steps_of(load, count)):
        start = time.thread_time()
        manager.add_experiences(decisions, terminals, 0, decided if i else None)
        collecting += time.thread_time() - start
        if i % load.horizon == load.horizon - 1:
            trajectories = manager.trajectory_queue.drain()
            start = time.thread_time()
            total += build_rollout(trajectories).steps if trajectories else 0
            rolling += time.thread_time() - start
    return collecting, rolling, total


def main() -> None:
    only = {"default": "", "help": "part of a load's name"}
    profiled = {"default": False, "help": "where the time of the loads goes"}
    options = parse_options(__doc__, steps=1000, repeat=3, only=only, profile=profiled)
    print(f"{'load':45} {'us/env step':>12} {'us/agent-step':>14} {'rollout us/step':>16}")
    for load in (load for load in LOADS if options.only in load.name):
        count = options.steps if load.obs == (8,) else options.steps // 10
        profile = cProfile.Profile() if options.profile else None
        if profile:
            profile.enable()
        runs = [measure(load, count) for _ in range(options.repeat)]
        collecting, rolling = (min(run[i] for run in runs) for i in (0, 1))
        total = runs[0][2]
        if profile:
            profile.disable()
            profile.print_stats("tottime")
        per_step = collecting / count * 1e6
        rollout_us = rolling / max(1, total) * 1e6
        print(f"{load.name:45} {per_step:12.1f} {per_step / load.agents:14.3f} {rollout_us:16.3f}")


if __name__ == "__main__":
    main()
