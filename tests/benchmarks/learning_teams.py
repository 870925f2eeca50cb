"""Whether teams learn: POCA, MAPPO, COMA and PPO in the environments of groups, with equal budgets of steps.

    python tests/benchmarks/learning_teams.py [--tasks coop-push ...] [--ways poca ...] [--seeds 0 1 ...]
    LANISTA_PEER=path/to/python LANISTA_XUANCE=path/to/python python tests/benchmarks/learning_teams.py

Every run is a `lanista-learn` process from the command line, and every score that of a fresh `lanista play`
process that has nothing but the exported ONNX file and samples its actions, as Unity does by default. The
way `ml-agents` is the POCA of ML-Agents 1.1.0 in the same scenes with the same settings (in those tasks that
are scenes), `xuance-coma` the COMA of XuanCe in simple-spread (LANISTA_XUANCE names the Python of an
environment with xuance and mpe2), `poca-bf16` our POCA with `--precision bf16`.

Results are added to docs/results/teams.csv and teams-curves.csv. A run that is there with the settings of
today is not made again; the page and its picture are written each time.
"""

from typing import Any

from claims import PEER_RUNS, RUNS, claims_table, not_behind, ordered, reached
from lanista.trainers.settings.command_line import parse_command_line
from products import ML_AGENTS, Script
from results import ROOT
from study import Study, Task, Way, link

TRAINERS = {"poca": "POCA", "mappo": "MAPPO", "coma": "COMA", "ppo": "PPO"}
LABELS = {
    **TRAINERS,
    "poca-bf16": "POCA in bf16",
    "ml-agents": "ML-Agents' POCA",
    "xuance-coma": "XuanCe's COMA",
}
MEMBERS = 3
"""Agents of simple-spread. XuanCe counts the steps of all of them as one."""


def plan(task: Task, way: str) -> dict[str, Any]:
    """What XuanCe is told: our settings of COMA in its words (docs/from-xuance-and-rlhive.md)."""
    behavior = parse_command_line([str(ROOT / task.ways[way].config)]).behaviors[task.behavior]
    own, network = behavior.hyperparameters, behavior.network_settings
    hidden = [network.hidden_units]
    settings = {
        "learning_rate_actor": own.learning_rate,
        "learning_rate_critic": own.learning_rate,
        "buffer_size": own.buffer_size // MEMBERS,
        "n_minibatch": own.buffer_size // own.batch_size,
        "n_epochs": own.num_epoch,
        "gamma": behavior.reward_signals["extrinsic"].gamma,
        "gae_lambda": own.lambd,
        "ent_coef": own.beta,
        "start_greedy": own.epsilon_start,
        "end_greedy": own.epsilon_end,
        "decay_step_greedy": own.epsilon_decay_steps // MEMBERS,
        "sync_frequency": own.target_update_interval,
        "representation_hidden_size": hidden * (network.num_layers - 1),
        "actor_hidden_size": hidden,
        "critic_hidden_size": hidden,
    }
    return {
        "max_steps": task.max_steps,
        "summary_freq": behavior.summary_freq,
        "episodes": task.episodes // MEMBERS,
        "copies": task.areas,
        "settings": settings,
    }


XUANCE = Script("LANISTA_XUANCE", "run_xuance.py", plan)


def task(
    name: str, environment: str, behavior: str, max_steps: int, areas: int, settings: str = "", **keys: Any
) -> Task:
    """An environment of groups, of which 300 are scored; of runs before these were counted, about 100."""
    ways = {trainer: Way(f"config/{trainer}/{settings or name}.yaml") for trainer in TRAINERS}
    poca = ways["poca"].config
    if name == "dungeon-escape":
        ways["poca-bf16"] = Way(poca, ("--precision", "bf16"))
    keys |= {"areas": areas, "episodes": 300, "sampled": True}
    if environment.startswith("scene:"):
        ways["ml-agents"] = Way(poca, product=ML_AGENTS)
        keys |= {"score": "mean_group_reward", "curve": "Environment/Group Return"}
    else:
        ways["xuance-coma"] = Way(ways["coma"].config, product=XUANCE)
    return Task(name, environment, behavior, max_steps, ways, **keys)


def scene(name: str, behavior: str, max_steps: int, **keys: Any) -> Task:
    return task(name, f"scene:{name}?size=small", behavior, max_steps, 32, f"{name}-small", **keys)


TASKS = [
    scene("dungeon-escape", "DungeonEscape", 300_000, goal=0.9),
    scene("coop-push", "PushBlockCollab", 600_000),
    task("simple-spread", "pettingzoo:mpe2.simple_spread_v3", "agent", 400_000, 16),
]


def settings(task: Task) -> str:
    files = ", ".join(link(task.ways[way].config, label) for way, label in TRAINERS.items())
    return f"`{' '.join(task.where('poca'))}`; settings: {files}."


def main() -> None:
    study = Study("teams", TASKS, LABELS)
    study.run(__doc__)
    study.draw()
    aims = [
        ordered(study, "dungeon-escape", ["poca", "coma", "ppo"]),
        reached(study, "dungeon-escape", "coma", 0.9, 8),
        not_behind(study, "dungeon-escape", "poca", "ml-agents"),
        not_behind(study, "coop-push", "poca", "ml-agents"),
        not_behind(study, "simple-spread", "coma", "xuance-coma"),
        ordered(study, "coop-push", ["poca", "ml-agents"], {"poca": RUNS, "ml-agents": PEER_RUNS}),
    ]
    study.write_page(
        aims=claims_table(aims),
        tables=study.sections(settings),
        commands=study.commands(lambda task: ["poca"]),
    )


if __name__ == "__main__":
    main()
