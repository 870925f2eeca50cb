"""Whether PPO learns, beside ML-Agents: scenes with vectors, images, a memory, entities and two behaviors.

    python tests/benchmarks/learning.py [--tasks ball3d ...] [--ways lanista ...] [--seeds 0 1 ...] [--jobs 2]
    LANISTA_PEER=path/to/python python tests/benchmarks/learning.py

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file. With LANISTA_PEER, the Python of an ML-Agents 1.1.0
(CONTRIBUTING.md says how to install one aside), the same is done with `mlagents-learn`, in the same scene,
exported as an executable, with the same settings and seeds.

Results are added to docs/results/learning.csv and learning-curves.csv. A run that is there with the settings
of today is not made again; the page and its picture are written each time.
"""

from claims import claims_table, not_behind, reached
from products import ML_AGENTS
from study import Study, Task, Way, link

LABELS = {
    "lanista": "Lanista",
    "ml-agents": "ML-Agents 1.1.0",
    "threaded": "Lanista, threaded",
    "gru": "Lanista, a GRU",
    "no-memory": "Lanista, no memory",
    "flat": "Lanista, one flat vector",
}
MEMORY = "behaviors.Hallway.network_settings.memory"


def task(scene: str, behavior: str, max_steps: int, *, name: str = "", **keys: object) -> Task:
    """A scene at its full size; with a number of areas, at its small one, scored with sampled actions."""
    small = "areas" in keys
    config = f"config/ppo/{scene}{'-small' if small else ''}.yaml"
    ways = {"lanista": Way(config), "ml-agents": Way(config, product=ML_AGENTS), **keys.pop("ways", {})}
    environment = f"scene:{scene}{'?size=small' if small else ''}"
    return Task(name or scene, environment, behavior, max_steps, ways, sampled=small, **keys)


HALLWAY, SORTER = "config/ppo/hallway-small.yaml", "config/ppo/sorter-small.yaml"
MEMORIES = {
    "no-memory": Way(HALLWAY, ["--set", f"{MEMORY}=null"]),
    "gru": Way(HALLWAY, ["--set", f"{MEMORY}.memory_type=gru"], optional=True),
}
FLAT = {"flat": Way(SORTER, environment="scene:sorter?size=small&senses=flat")}


def threaded(scene: str, behavior: str) -> dict[str, Way]:
    """Updates beside the environments, whose rollouts are one update older."""
    return {
        "threaded": Way(
            f"config/ppo/{scene}.yaml", ["--set", f"behaviors.{behavior}.threaded=true"], optional=True
        )
    }


TASKS = [
    task("ball3d", "3DBall", 120_000, goal=95.0, ways=threaded("ball3d", "3DBall")),
    task("basic", "Basic", 20_000, goal=0.9, ways=threaded("basic", "Basic")),
    task("grid", "GridWorld", 100_000, areas=16, goal=0.9),
    task("hallway", "Hallway", 1_000_000, areas=64),
    task("sorter", "Sorter", 600_000, areas=32, ways=FLAT),
    task("wall-jump", "BigWallJump", 800_000, areas=32, others={"SmallWallJump": 150_000}, episodes=170),
    task(
        "hallway", "Hallway", 5_000_000, name="hallway-long", areas=64, goal=0.7, ways=MEMORIES, optional=True
    ),
]
COMPARED = ["ball3d", "basic", "grid", "hallway", "sorter", "wall-jump"]


def settings(task: Task) -> str:
    return f"`{' '.join(task.where('lanista'))}`; settings: {link(task.ways['lanista'].config)}."


def main() -> None:
    study = Study("learning", TASKS, LABELS)
    study.run(__doc__)
    study.draw()
    aims = [reached(study, "grid", "lanista", 0.9, 10)]
    aims += [not_behind(study, name, "lanista", "ml-agents") for name in COMPARED]
    study.write_page(
        aims=claims_table(aims),
        tables=study.sections(settings),
        commands=study.commands(lambda task: ["lanista"]),
    )


if __name__ == "__main__":
    main()
