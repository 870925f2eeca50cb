"""Whether teams learn: POCA, COMA and PPO in the scenes of groups, with equal budgets of steps.

    python tests/benchmarks/learning_teams.py [--tasks coop-push dungeon-escape] [--seeds 0 1 2] [--jobs 1]
    LANISTA_PEER=path/to/python python tests/benchmarks/learning_teams.py --trainers ml-agents

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file and samples its actions, as Unity does by default. The
trainer `ml-agents` is the POCA of ML-Agents 1.1.0 in the same scenes with the same settings (in those tasks
that are scenes): it draws its minibatches step by step, ours moment by moment. `poca-bf16` is our POCA with
`--precision bf16`.

Results are added to docs/results/teams.csv and teams-curves.csv. What is there already is not run again, so
that the table can grow; delete lines to repeat them. The page and its picture are written each time.
"""

from study import MEAN, Study, Task, Way, draw, link

NAMES = {
    "poca": "POCA",
    "coma": "COMA",
    "ppo": "PPO",
    "poca-bf16": "POCA in bf16",
    "ml-agents": "ML-Agents' POCA",
}
COLORS = {"poca": "#d1495b", "coma": "#edae49", "ppo": "#30638e", "ml-agents": "#8d99ae"}
PEER_NOTE = """ "ML-Agents' POCA" is that of ML-Agents 1.1.0 in the same
scene processes with the same YAML: it samples minibatches step by step, Lanista by moments of whole teams."""


def task(name: str, environment: str, settings: str, behavior: str, max_steps: int, areas: int) -> Task:
    """An environment of groups; 300 episodes of single agents are about 100 groups'."""
    ways = {trainer: Way(f"config/{trainer}/{settings}.yaml") for trainer in ("poca", "coma", "ppo")}
    poca = ways["poca"].config
    ways["poca-bf16"] = Way(poca, ("--precision", "bf16"), optional=True)
    keys = {"areas": areas, "episodes": 300, "sampled": True}
    if environment.startswith("scene:"):
        ways["ml-agents"] = Way(poca, python="LANISTA_PEER", optional=True)
        keys |= {"score": "mean_group_reward", "curve": "Environment/Group Return"}
    return Task(name, environment, behavior, max_steps, ways, **keys)


def scene(name: str, behavior: str, max_steps: int) -> Task:
    return task(name, f"scene:{name}?size=small", f"{name}-small", behavior, max_steps, 32)


SPREAD = "simple-spread"
TASKS = [
    scene("coop-push", "PushBlockCollab", 1_500_000),
    scene("dungeon-escape", "DungeonEscape", 300_000),
    task(SPREAD, "pettingzoo:mpe2.simple_spread_v3", SPREAD, "agent", 400_000, 16),
]
SUMMARY = {**MEAN, "best": lambda scores: f"{max(scores):.3f}"}


def settings(task: Task) -> str:
    files = ", ".join(link(task.ways[way].config, NAMES[way]) for way in ("poca", "coma", "ppo"))
    return f"`--env {task.environment} --num-areas {task.areas}`; settings: {files}."


def main() -> None:
    study = Study("teams", TASKS)
    study.run(__doc__)
    draw(study.tasks, study.points, "teams", colors=COLORS, labels=NAMES, legend=0)
    study.write_page(
        peer=PEER_NOTE if any(run.product == "ml-agents" for run in study.runs) else "",
        tables=study.sections(settings, summary=lambda task: SUMMARY, labels=NAMES),
        commands=study.commands(lambda task: ["poca"]),
    )


if __name__ == "__main__":
    main()
