"""Whether the trainers with a replay learn: SAC, DQN, DDPG and TD3, beside Stable-Baselines3 where it can.

    python tests/benchmarks/learning_replay.py [--tasks ball3d basic cartpole pendulum] [--seeds 0 1 2]
    LANISTA_SB3=path/to/python python tests/benchmarks/learning_replay.py

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file. With LANISTA_SB3, the Python of an environment with
stable-baselines3 and gymnasium, the same is done there for the tasks of Gymnasium, with the budget and the
hyperparameters of the same YAML.

Results are added to docs/results/replay.csv and replay-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page and its picture are written each time.
"""

import argparse
import json
import os

import yaml
from study import ROOT, Point, Run, Study, Task, Way, draw, link, measure, run_command

SB3 = "SB3 "
"""Before an algorithm's name: Stable-Baselines3's."""


def task(
    name: str, environment: str, behavior: str, areas: int, max_steps: int, goal: str, *algorithms: str
) -> Task:
    """An environment and the algorithms that learn it, Stable-Baselines3's too if it is Gymnasium's."""
    ways = {each: Way(f"config/{each.lower()}/{name}.yaml") for each in algorithms}
    if environment.startswith("gymnasium:"):
        ways |= {SB3 + each: Way(ways[each].config, python="LANISTA_SB3") for each in algorithms}
    return Task(name, environment, behavior, max_steps, ways, areas, goal)


TASKS = [
    task("ball3d", "scene:ball3d", "3DBall", 12, 60_000, "95 or more", "SAC"),
    task("basic", "scene:basic", "Basic", 1, 20_000, "0.9 or more", "DQN"),
    task("cartpole", "gymnasium:CartPole-v1", "CartPole-v1", 8, 100_000, "475 or more", "DQN"),
    task(
        "pendulum", "gymnasium:Pendulum-v1", "Pendulum-v1", 1, 20_000, "-200 or better", "SAC", "TD3", "DDPG"
    ),
]


def measure_any(task: Task, way: str, seed: int, given: argparse.Namespace) -> tuple[Run, list[Point]]:
    """Train once and score, with Stable-Baselines3 where the way is its own."""
    if not way.startswith(SB3):
        return measure(task, way, seed, given)
    text = (ROOT / task.ways[way].config).read_text(encoding="utf-8")
    settings = yaml.safe_load(text)["behaviors"][task.behavior]
    plan = {
        "algorithm": settings["trainer_type"],
        "environment": task.environment.partition(":")[2],
        "copies": task.areas,
        "max_steps": task.max_steps,
        "summary_freq": settings["summary_freq"],
        "seed": seed,
        "episodes": task.episodes,
        "gamma": settings["reward_signals"]["extrinsic"]["gamma"],
        "hidden_units": settings["network_settings"]["hidden_units"],
        "num_layers": settings["network_settings"]["num_layers"],
        "hyperparameters": settings["hyperparameters"],
    }
    script = ROOT / "tests" / "peer" / "run_sb3.py"
    found = json.loads(run_command([os.environ["LANISTA_SB3"], script, json.dumps(plan)]).splitlines()[-1])
    points = [Point(task.name, way, seed, *p) for p in found["curve"]]
    return Run(task.name, way, seed, task.max_steps, found["mean"], found["std"]), points


def ours(task: Task) -> list[str]:
    """The ways of Lanista."""
    return [way for way in task.ways if not way.startswith(SB3)]


def settings(task: Task) -> str:
    files = ", ".join(link(task.ways[way].config) for way in ours(task))
    return f"`{task.environment}`. Settings: {files}. Expected: {task.goal}."


def main() -> None:
    study = Study("replay", TASKS, measure_any)
    study.run(__doc__, threads=1)
    draw(study.tasks, study.points, "replay")
    study.write_page(episodes=100, tables=study.sections(settings), commands=study.commands(ours))


if __name__ == "__main__":
    main()
