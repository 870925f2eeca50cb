"""How many steps the section `demonstrations` saves an off-policy trainer.

    python tests/benchmarks/learning_demonstrations.py --seeds 0 1 2 3 4

A scripted expert is recorded for a few episodes of each task, and each seed trains with them in the replay
and without, by the same settings otherwise, until the mean return of a summary is 90 % of the way from
`floor` to the expert's. Each run is a row of docs/results/demonstrations-in-replay.csv; what is in the file
is not run again.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.envs.demonstrations.recorder import DemonstrationRecorder
from lanista.envs.engines.options import EngineOptions
from lanista.envs.opening import open_environment
from mlagents_envs.base_env import ActionTuple
from numpy.typing import NDArray
from products import curve, train
from results import RESULTS, read, table, write, write_page
from script_options import parse_options

CSV = RESULTS / "demonstrations-in-replay.csv"
EPISODES = 5
"""That are recorded."""
SHARE = 0.9
"""Of the way from a task's floor to its expert, which is to be reached."""
WITH, WITHOUT = "with demonstrations", "without"


@dataclass(frozen=True)
class Task:
    """What is learned, and from whom."""

    env: str
    behavior: str
    trainer: str
    expert: Callable[[NDArray[np.float32]], ActionTuple]
    """Its actions by what it sees, a row per agent."""
    floor: float
    """The return of a policy that does nothing of use."""
    max_steps: int
    hyper: dict[str, Any]
    network: dict[str, Any]
    gamma: float = 0.99
    summary: int = 500


def continuous(actions: NDArray[Any]) -> ActionTuple:
    return ActionTuple(continuous=actions.reshape(-1, 1).astype(np.float32))


def discrete(actions: NDArray[Any]) -> ActionTuple:
    return ActionTuple(discrete=actions.reshape(-1, 1).astype(np.int32))


DQN = {
    "batch_size": 64,
    "buffer_size": 50_000,
    "buffer_init_steps": 500,
    "learning_rate": 1e-3,
    "learning_rate_schedule": "constant",
    "tau": 0.01,
    "n_step": 3,
    "epsilon_end": 0.02,
}
SMALL = {"hidden_units": 64, "num_layers": 2, "layer_norm": True}
TASKS = {
    "MountainCarContinuous, SAC": Task(
        "gymnasium:MountainCarContinuous-v0",
        "MountainCarContinuous-v0",
        "sac",
        lambda seen: continuous(np.where(seen[:, 1] < 0, -1.0, 1.0)),
        floor=0.0,
        max_steps=20_000,
        hyper={
            "batch_size": 128,
            "buffer_size": 50_000,
            "buffer_init_steps": 1000,
            "random_initial_actions": True,
            "learning_rate": 1e-3,
            "learning_rate_schedule": "constant",
            "steps_per_update": 2,
            "init_entcoef": 0.1,
        },
        network={**SMALL, "layer_norm": False, "normalize": True, "critic": {"layer_norm": True}},
        summary=1000,
    ),
    "CartPole, DQN": Task(
        "gymnasium:CartPole-v1",
        "CartPole-v1",
        "dqn",
        lambda seen: discrete(seen @ [0.05, 0.2, 1.0, 0.5] > 0),
        floor=20.0,
        max_steps=30_000,
        hyper={**DQN, "steps_per_update": 2, "epsilon_decay_steps": 4000},
        network=SMALL,
        summary=1000,
    ),
    "Basic, DQN": Task(
        "scene:basic",
        "Basic",
        "dqn",
        lambda seen: discrete(np.full(len(seen), 2)),
        floor=0.0,
        max_steps=15_000,
        hyper={**DQN, "n_step": 1, "steps_per_update": 4, "epsilon_decay_steps": 4000},
        network=SMALL,
        gamma=0.9,
    ),
}
"""Other settings are tried with `--trial` and seeds from 100 on."""


@dataclass(frozen=True)
class Run:
    """When one training came as far as it should."""

    task: str
    way: str
    seed: int
    wanted: float
    reached: bool
    steps: int
    """Until then; those of the whole training where it never did."""
    best: float
    """The best mean return of a summary."""


def record(task: Task, folder: Path, seed: int) -> tuple[Path, float]:
    """The expert's demonstration, and its mean return."""
    env = open_environment(EngineOptions(path=task.env, seed=seed))
    finished = 0
    try:
        env.reset()
        (name,) = env.behavior_specs
        spec = env.behavior_specs[name]
        with DemonstrationRecorder(folder) as recorder:
            while finished < EPISODES:
                decisions, terminals = env.get_steps(name)
                recorder.end(name, spec, terminals)
                finished += len(terminals)
                if len(decisions):
                    action = task.expert(decisions.obs[0])
                    recorder.act(name, spec, decisions, action)
                    env.set_actions(name, action)
                env.step()
    finally:
        env.close()
    (path,) = recorder.paths
    return path, float(np.mean(read_demonstration(path).returns))


def measure(name: str, way: str, seed: int) -> Run:
    """Train once."""
    task = TASKS[name]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        demo, expert = record(task, folder / "demos", 10_000 + seed)
        wanted = task.floor + SHARE * (expert - task.floor)
        behavior: dict[str, Any] = {
            "trainer_type": task.trainer,
            "hyperparameters": task.hyper,
            "network_settings": task.network,
            "reward_signals": {"extrinsic": {"gamma": task.gamma}},
            "max_steps": task.max_steps,
            "summary_freq": task.summary,
            "time_horizon": 16,
        }
        if way == WITH:
            behavior["demonstrations"] = {"demo_path": str(demo)}
        (folder / "c.yaml").write_text(yaml.safe_dump({"behaviors": {task.behavior: behavior}}))
        command = ["lanista-learn", str(folder / "c.yaml"), "--env", task.env, "--run-id", "run"]
        run = train([*command, "--seed", str(seed)], folder, threads=1)
        points = curve(run / task.behavior, "Environment/Cumulative Reward")
    there = [step for step, value in points if value >= wanted]
    best = max((value for _, value in points), default=task.floor)
    return Run(name, way, seed, wanted, bool(there), min(there, default=task.max_steps), best)


def sections(runs: Sequence[Run]) -> str:
    """A row for each task and way."""
    rows = []
    for name in TASKS:
        for way in (WITHOUT, WITH):
            own = [run for run in runs if (run.task, run.way) == (name, way)]
            if own:
                steps = [run.steps for run in own]
                spread = f"{min(steps):,} to {max(steps):,}"
                reached = f"{sum(run.reached for run in own)} of {len(own)}"
                rows.append([name, way, reached, f"{statistics.median(steps):,.0f}", spread])
    if not rows:
        return "Not run yet."
    return table(["Task", "demonstrations", "reached:", "steps, median:", "range:"], rows)


def main() -> None:
    given = parse_options(
        __doc__,
        tasks={"default": list(TASKS), "choices": list(TASKS), "help": "what to train"},
        seeds={"default": [], "type": int, "nargs": "*", "help": "seeds to train with; none: only the page"},
        trial={"default": False, "help": "print what is found, and keep nothing"},
    )
    known = {(run.task, run.way, run.seed) for run in read(CSV, Run)}
    for seed in given.seeds:
        for name in given.tasks:
            for way in (WITHOUT, WITH):
                if given.trial or (name, way, seed) not in known:
                    found = measure(name, way, seed)
                    print(found, flush=True)
                    if not given.trial:
                        write(CSV, Run, [*read(CSV, Run), found])  # others may have added theirs meanwhile
    if not given.trial:
        write_page("demonstrations-in-replay", runs=sections(read(CSV, Run)), episodes=EPISODES)


if __name__ == "__main__":
    main()
