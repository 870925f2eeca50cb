"""Whether training works: trains the scenes with several seeds and scores the models that come out.

    python tests/benchmarks/learning.py
    LANISTA_PEER=path/to/python python tests/benchmarks/learning.py

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file. With LANISTA_PEER, the Python of an ML-Agents 1.1.0
(CONTRIBUTING.md says how to install one aside), the same is done with `mlagents-learn`, in the same scene,
exported as an executable, with the same settings and seeds.

Results are added to docs/results/learning.csv and learning-curves.csv. What is there already is not run
again, so that the table can grow; delete lines to repeat them. The page and its picture are written each
time.
"""

from study import COLORS, Study, Summary, Task, Way, draw, link

NAMES = {"lanista": "Lanista", "ml-agents": "ML-Agents 1.1.0"}


def task(scene: str, behavior: str, max_steps: int, goal: float) -> Task:
    """A scene, and the mean reward that a trained model is expected to reach."""
    config = f"config/ppo/{scene}.yaml"
    ways = {"lanista": Way(config), "ml-agents": Way(config, python="LANISTA_PEER")}
    return Task(scene, f"scene:{scene}", behavior, max_steps, ways, goal=goal)


def settings(task: Task) -> str:
    return f"Settings: {link(task.ways['lanista'].config)} with `max_steps: {task.max_steps}`."


def reached(task: Task) -> Summary:
    return {"reached the goal": lambda scores: f"{sum(x >= task.goal for x in scores)} of {len(scores)}"}


def main() -> None:
    study = Study("learning", [task("ball3d", "3DBall", 120_000, 95.0), task("basic", "Basic", 20_000, 0.9)])
    study.run(__doc__, seeds=range(5))
    look = {"colors": dict(zip(NAMES, COLORS)), "labels": NAMES, "size": (10.5, 3.9)}
    ylabel = "mean reward of training episodes"
    draw(study.tasks, study.points, "learning", ylabel, **look, legend=-1, goals=True)
    study.write_page(
        episodes=100,
        tables=study.sections(settings, ", goal {goal:g}", reached, labels=NAMES, digits=2),
        commands=study.commands(lambda task: ["lanista"]),
    )


if __name__ == "__main__":
    main()
