"""Whether sensors work: images and goals in `grid`, a memory in `hallway`, entities in `sorter`.

    python tests/benchmarks/learning_senses.py [--tasks grid hallway sorter] [--seeds 0 1 2] [--threads 0]

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file and samples its actions, as Unity does by default.

Results are added to docs/results/senses.csv and senses-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page and its picture are written each time.
"""

from study import Study, Task, Way, draw, link

GRID, HALLWAY, SORTER = (f"config/ppo/{scene}-small.yaml" for scene in ("grid", "hallway", "sorter"))
MEMORY = "behaviors.Hallway.network_settings.memory"
WAYS = {
    "grid": {"pictures and a goal": Way(GRID)},
    "hallway": {
        "an LSTM": Way(HALLWAY),
        "a GRU": Way(HALLWAY, ["--set", f"{MEMORY}.memory_type=gru"]),
        "no memory": Way(HALLWAY, ["--set", f"{MEMORY}=null"]),
    },
    "sorter": {
        "entities": Way(SORTER),
        "one flat vector": Way(SORTER, environment="scene:sorter?size=small&senses=flat"),
    },
}


def task(name: str, behavior: str, max_steps: int, areas: int, goal: str) -> Task:
    return Task(
        name, f"scene:{name}?size=small", behavior, max_steps, WAYS[name], areas, goal=goal, sampled=True
    )


TASKS = [
    task("grid", "GridWorld", 100_000, 16, "0.8 or more"),
    task("hallway", "Hallway", 5_000_000, 64, "0.7 or more, without a memory no better than chance"),
    task(
        "sorter",
        "Sorter",
        1_000_000,
        32,
        "entities above the flattened tiles by more than the spread of the seeds",
    ),
]


def settings(task: Task) -> str:
    return f"Settings: {link(next(iter(task.ways.values())).config)}. Expected: {task.goal}."


def main() -> None:
    study = Study("senses", TASKS)
    study.run(__doc__)
    draw(study.tasks, study.points, "senses")
    what = [f"`{task.name}` with {' or '.join(study.measured(task))}" for task in study.tasks]
    study.write_page(
        what=", ".join(what),
        episodes=100,
        tables=study.sections(settings),
        commands=study.commands(study.measured),
    )


if __name__ == "__main__":
    main()
