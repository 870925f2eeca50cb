"""Whether tasks that nobody tuned here are learned as with Stable-Baselines3, by the settings of rl-zoo3.

    LANISTA_SB3=path/to/python python tests/benchmarks/learning_field.py [--tasks ...] [--seeds 0 1 ...]

LANISTA_SB3 is the Python of an environment with stable-baselines3, sb3-contrib, gymnasium[box2d,mujoco] and
psutil; Lanista's own needs gymnasium[box2d,mujoco] too. There an entry of tests/benchmarks/settings/zoo is
taken as it stands; here as `lanista init --from-zoo` translates it (tests/benchmarks/settings/field). Every
run of Lanista is a `lanista-learn` process from the command line, and every score that of a fresh `lanista
play` process that has nothing but the exported ONNX file.

Results are added to docs/results/field-learning.csv and field-learning-curves.csv. A run that is there with
the settings of today is not made again; the page and its picture are written each time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from intervals import difference, estimate
from products import Script, run_command
from results import ROOT, table
from study import Study, Task, Way, link

SETTINGS = ROOT / "tests" / "benchmarks" / "settings"
OURS, THEIRS = "Lanista", "SB3"
ALLOWED = 0.05
"""The share of a task's range by which the interval of the difference may reach below 0."""


@dataclass(frozen=True)
class FieldTask(Task):
    """An entry of the zoo."""

    algorithm: str = ""
    span: float = 0.0
    """From what random play scores to what the task is solved by."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """As a file of the zoo has it."""

    def play_command(self, way: str, seed: int, brain: str) -> list[str]:
        """What scores the exported model: in one copy, since of several the short episodes end first."""
        command = ["lanista", "play", brain, "--env", self.environment]
        return [*command, "--episodes", str(self.episodes), "--seed", str(1000 + seed)]


def entries(algorithm: str) -> dict[str, dict[str, Any]]:
    """Of one of the zoo's files."""
    text = (SETTINGS / "zoo" / f"{algorithm}.yml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def plan(task: Task, way: str) -> dict[str, Any]:
    """What the script that trains with Stable-Baselines3 is told."""
    assert isinstance(task, FieldTask)
    return {
        "algorithm": task.algorithm,
        "environment": task.environment.removeprefix("gymnasium:"),
        "entry": dict(task.entry),
        "summary_freq": task.summary_freq,
        "episodes": task.episodes,
    }


SB3 = Script("LANISTA_SB3", "run_zoo.py", plan)


def task(name: str, algorithm: str, environment: str, span: float) -> FieldTask:
    """An entry of this repository's copy of the zoo, with the budget that it has there."""
    entry = entries(algorithm)[environment.rpartition(":")[2]]
    config = SETTINGS / "field" / f"{name}.yaml"
    return field_task(name, algorithm, environment, span, entry, config, entry.get("n_envs", 1))


def field_task(
    name: str,
    algorithm: str,
    environment: str,
    span: float,
    entry: Mapping[str, Any],
    config: Path,
    areas: int,
) -> FieldTask:
    """One that both learn: Stable-Baselines3 by the entry, Lanista by the file, in so many copies."""
    steps, ours = int(float(entry["n_timesteps"])), config.relative_to(ROOT).as_posix()
    return FieldTask(
        name,
        f"gymnasium:{environment}",
        environment.rpartition(":")[2],
        steps,
        {OURS: Way(ours), THEIRS: Way(ours, product=SB3)},
        areas=areas,
        summary_freq=steps // 25,
        algorithm=algorithm,
        span=span,
        entry=entry,
    )


TASKS = [
    task("cartpole-ppo", "ppo", "CartPole-v1", 480),
    task("acrobot-ppo", "ppo", "Acrobot-v1", 420),
    task("pendulum-ppo", "ppo", "Pendulum-v1", 1100),
    task("mountaincar-continuous-ppo", "ppo", "MountainCarContinuous-v0", 100),
    task("lunarlander-ppo", "ppo", "LunarLander-v3", 400),
    task("swimmer-ppo", "ppo", "Swimmer-v5", 350),
    task("hopper-ppo", "ppo", "Hopper-v5", 2500),
    task("memory-ppo", "ppo_lstm", "field_environments:CartPoleNoVel-v1", 480),
    task("cartpole-dqn", "dqn", "CartPole-v1", 480),
    task("acrobot-dqn", "dqn", "Acrobot-v1", 420),
    task("mountaincar-dqn", "dqn", "MountainCar-v0", 100),
    task("lunarlander-dqn", "dqn", "LunarLander-v3", 400),
    task("pendulum-sac", "sac", "Pendulum-v1", 1100),
    task("mountaincar-continuous-sac", "sac", "MountainCarContinuous-v0", 100),
    task("pendulum-td3", "td3", "Pendulum-v1", 1100),
]


def translate(task: FieldTask, file: Path) -> None:
    """Have `lanista init` write the settings of a task."""
    zoo = (SETTINGS / "zoo" / f"{task.algorithm}.yml").relative_to(ROOT)
    command = ["lanista", "init", "--env", task.environment, "--from-zoo", zoo]
    run_command([*command, "-o", file.relative_to(ROOT), "--force"])


def verdict(task: FieldTask, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Whether the interval of the difference reaches far below 0."""
    if min(len(ours), len(theirs)) < 2:
        return "not enough runs"
    return "yes" if difference(ours, theirs).low >= -ALLOWED * task.span else "no"


def row(study: Study, task: FieldTask) -> list[str]:
    """A task's line in the table; a cell is empty without runs."""
    ours, theirs = (study.scores(task, way) for way in (OURS, THEIRS))
    seconds = [median(run.seconds for run in study.runs_of(task, way)) for way in (OURS, THEIRS)]
    cells = [link(task.ways[OURS].config, task.name), f"{task.max_steps:,}", f"{len(ours)}, {len(theirs)}"]
    cells += [estimate(ours).text(1), estimate(theirs).text(1), difference(ours, theirs).text(1)]
    return [*cells, verdict(task, ours, theirs), *(f"{each:.0f}" for each in seconds)]


def comparison(study: Study, tasks: Sequence[FieldTask]) -> str:
    """The table of all tasks that both have learned."""
    heads = ["task", "steps:", "runs:", "Lanista:", "Stable-Baselines3:", "difference:", "not behind"]
    heads += ["seconds:", "theirs:"]
    done = [task for task in tasks if all(study.scores(task, way) for way in (OURS, THEIRS))]
    return table(heads, [row(study, task) for task in done]) if done else "Not run yet."


def let_modules_be_found() -> None:
    """Those of the environments that are registered here, in every process that is started."""
    modules = str(ROOT / "tests" / "peer")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [modules, os.environ.get("PYTHONPATH")]))


def main() -> None:
    let_modules_be_found()
    for each in TASKS:
        file = ROOT / each.ways[OURS].config
        if not file.exists():
            translate(each, file)
    study = Study("field-learning", TASKS)
    study.run(__doc__)
    study.draw()
    study.write_page(comparison=comparison(study, TASKS), commands=study.commands(lambda task: [OURS]))


if __name__ == "__main__":
    main()
