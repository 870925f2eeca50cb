"""Whether the trainers with a replay learn: SAC, DQN, DDPG and TD3, beside Stable-Baselines3 where it can.

    python tests/benchmarks/learning_replay.py [--tasks pendulum ...] [--ways SAC ...] [--seeds 0 1 ...]
    LANISTA_SB3=path/to/python python tests/benchmarks/learning_replay.py

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file. With LANISTA_SB3, the Python of an environment with
stable-baselines3 and gymnasium, the same is done there for the tasks of Gymnasium, with the budget and the
hyperparameters of the same YAML.

Results are added to docs/results/replay.csv and replay-curves.csv. A run that is there with the settings of
today is not made again; the page and its picture are written each time.
"""

from claims import claims_table, not_behind
from stable_baselines import SB3
from study import Study, Task, Way, ours, settings_line


def task(
    name: str, environment: str, behavior: str, areas: int, max_steps: int, goal: float, *algorithms: str
) -> Task:
    """An environment and the algorithms that learn it, Stable-Baselines3's too if it is Gymnasium's."""
    ways = {each: Way(f"config/{each.lower()}/{name}.yaml") for each in algorithms}
    if environment.startswith("gymnasium:"):
        ways |= {f"SB3 {each}": Way(way.config, product=SB3) for each, way in ways.items()}
    return Task(name, environment, behavior, max_steps, ways, areas, goal)


TASKS = [
    task("ball3d", "scene:ball3d", "3DBall", 12, 60_000, 95, "SAC", "TD3", "DDPG"),
    task("basic", "scene:basic", "Basic", 1, 20_000, 0.9, "DQN"),
    task("cartpole", "gymnasium:CartPole-v1", "CartPole-v1", 8, 100_000, 475, "DQN"),
    task("pendulum", "gymnasium:Pendulum-v1", "Pendulum-v1", 1, 20_000, -200, "SAC", "TD3", "DDPG"),
]


def main() -> None:
    study = Study("replay", TASKS)
    study.run(__doc__)
    study.draw()
    pairs = [(task, way) for task in TASKS for way in ours(task) if f"SB3 {way}" in task.ways]
    study.write_page(
        aims=claims_table([not_behind(study, task.name, way, f"SB3 {way}") for task, way in pairs]),
        tables=study.sections(settings_line),
        commands=study.commands(ours),
    )


if __name__ == "__main__":
    main()
