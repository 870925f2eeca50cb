"""Whether what `lanista init` writes learns as well as Stable-Baselines3 does with its defaults.

    LANISTA_SB3=path/to/python python tests/benchmarks/learning_init.py --seeds 0 6 7 8 9 [--tasks ...]

The settings of tests/benchmarks/settings/init were written by `lanista init` on one machine: they depend on
how fast an environment was. What it writes was chosen with seeds 1 to 5, so that others count. The rest is as
in learning_field.py. Results are added to docs/results/init-learning.csv and init-learning-curves.csv; the
page is written each time.
"""

from __future__ import annotations

from learning_field import OURS, SETTINGS, FieldTask, comparison, field_task, let_modules_be_found
from products import run_command
from results import ROOT
from study import Study

STEPS = 50_000
STEPS_OF_SAC = 20_000


def task(name: str, algorithm: str, environment: str, span: float) -> FieldTask:
    """An environment, the algorithm that `lanista init` proposes for it, and the range of its scores."""
    on_policy = algorithm == "ppo"
    policy = "CnnPolicy" if name == "catch" else "MlpPolicy"
    entry = {"policy": policy, "n_timesteps": STEPS if on_policy else STEPS_OF_SAC}
    config, areas = SETTINGS / "init" / f"{name}.yaml", 16 if on_policy else 1
    return field_task(name, algorithm, environment, span, entry, config, areas)


TASKS = [
    task("cartpole", "ppo", "CartPole-v1", 480),
    task("acrobot", "ppo", "Acrobot-v1", 420),
    task("lunarlander", "ppo", "LunarLander-v3", 400),
    task("frozenlake", "ppo", "FrozenLake-v1", 1),
    task("catch", "ppo", "field_environments:Catch-v0", 24),
    task("pendulum", "sac", "Pendulum-v1", 1100),
    task("mountaincar-continuous", "sac", "MountainCarContinuous-v0", 100),
    task("inverted-pendulum", "sac", "InvertedPendulum-v5", 1000),
]


def main() -> None:
    let_modules_be_found()
    for each in TASKS:
        file = ROOT / each.ways[OURS].config
        if not file.exists():
            run_command(["lanista", "init", "--env", each.environment, "-o", file.relative_to(ROOT)])
    study = Study("init-learning", TASKS)
    study.run(__doc__)
    study.write_page(comparison=comparison(study, TASKS), commands=study.commands(lambda task: [OURS]))


if __name__ == "__main__":
    main()
