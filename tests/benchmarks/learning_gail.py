"""Whether GAIL alone imitates an expert where episodes end at a goal, and where staying is what counts.

    python tests/benchmarks/learning_gail.py [--tasks cartpole ...] [--seeds 0 1 2 3 4]

An expert is trained with the environment's rewards, or is a brain that comes with Lanista, and `lanista play`
records its episodes. PPO then learns from GAIL's reward alone: from -ln(1 - D), as in ML-Agents, and with
`absorbing_states: true`, everything else being equal. The exported brains play other episodes with their
best actions, as the expert does; their score is the environment's mean reward.

Experts and recordings are kept in .cache/gail. Results are added to docs/results/gail.csv; what is there is
not run again, so that the table can grow; delete lines to repeat them. The page docs/results/gail.md is
written each time; without --seeds, only the page. Settings are chosen with seeds from 100 on, whose results
are printed and not kept.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml
from products import play, train
from results import RESULTS, ROOT, read, table, write, write_page
from script_options import parse_options

CSV = RESULTS / "gail.csv"
EXPERTS = ROOT / ".cache" / "gail"
EXPERT_SEED, PLAYED, OTHER_EPISODES = 1000, 20, 5000
"""The seed of experts, the episodes that brains play, and what is added to the seed for them."""
CHOOSING = 100
"""The first seed for choosing settings."""
FORMS = {"-ln(1 - D)": False, "absorbing states": True}
"""The forms of the reward, and their `absorbing_states`."""
CLOSE = 0.1
"""The share of the expert's score within which a score counts as the expert's."""
NETWORK = {"hidden_units": 64, "num_layers": 2, "normalize": True}
PPO: dict[str, Any] = {
    "trainer_type": "ppo",
    "hyperparameters": {
        "batch_size": 256,
        "buffer_size": 2048,
        "learning_rate": 1.0e-3,
        "num_epoch": 10,
        "max_grad_norm": 0.5,
    },
    "network_settings": NETWORK,
    "time_horizon": 256,
    "summary_freq": 10_000,
    "checkpoint_interval": 1_000_000,
}
DQN: dict[str, Any] = {
    "trainer_type": "dqn",
    "hyperparameters": {
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_rate": 6.3e-4,
        "learning_rate_schedule": "constant",
        "steps_per_update": 4,
        "gradient_steps": 4,
        "epsilon_end": 0.1,
        "epsilon_decay_steps": 6000,
        "target_update_interval": 248,
        "max_grad_norm": 10.0,
    },
    "network_settings": {"hidden_units": 256, "num_layers": 2},
    "summary_freq": 10_000,
    "checkpoint_interval": 1_000_000,
}
"""As rl-zoo3 has them for acrobot."""
DDPG: dict[str, Any] = {
    "trainer_type": "ddpg",
    "hyperparameters": {
        "batch_size": 128,
        "buffer_size": 50_000,
        "buffer_init_steps": 1000,
        "steps_per_update": 4,
        "noise_type": "ornstein_uhlenbeck",
        "noise_start": 0.5,
        "noise_end": 0.1,
        "noise_decay_steps": 30_000,
    },
    "network_settings": NETWORK,
    "summary_freq": 5_000,
    "checkpoint_interval": 1_000_000,
}


@dataclass(frozen=True)
class Task:
    """What an expert shows, and how it is learned."""

    name: str
    ends: str
    """Where its episodes end, in words."""
    environment: str
    behavior: str
    steps: int
    """Of the imitation."""
    areas: int = 8
    expert: dict[str, Any] | None = None
    """The behavior's settings that train the expert; None: the brain that comes with Lanista."""
    expert_steps: int = 0
    recorded: int = 10
    """Episodes."""
    decisions: int = 1000
    """After which a played or recorded episode is cut."""

    def learn(self, settings: dict[str, Any], seed: int, folder: Path) -> Path:
        """Train the behavior with these settings; the brain."""
        config = folder / "settings.yaml"
        config.write_text(yaml.safe_dump({"behaviors": {self.behavior: settings}}), encoding="utf-8")
        command = ["lanista-learn", config, "--env", self.environment, "--num-areas", self.areas]
        run = train([*map(str, command), "--run-id", "run", "--seed", str(seed)], folder, threads=1)
        return run / f"{self.behavior}.onnx"

    def expert_folder(self) -> Path:
        """The folder of the expert's demonstrations, which are recorded if they are not there yet."""
        folder = EXPERTS / f"{self.name}-{self.expert_steps}-{self.recorded}"
        if not folder.exists():
            with TemporaryDirectory() as name:
                made = Path(name) / "made"
                made.mkdir()
                if self.expert is not None:
                    settings = {**self.expert, "max_steps": self.expert_steps}
                    shutil.copy(self.learn(settings, EXPERT_SEED, Path(name)), made / "expert.onnx")
                self.play(
                    self._brain(made), EXPERT_SEED, self.recorded, "--record-demos", str(made / "demos")
                )
                folder.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(made, folder)
        return folder

    def _brain(self, folder: Path) -> list[str]:
        return [str(folder / "expert.onnx")] if self.expert is not None else ["--pretrained", self.name]

    def play(self, brain: Sequence[str], seed: int, episodes: int = PLAYED, *more: str) -> float:
        """The brain's mean reward."""
        where = ["--env", self.environment, "--episodes", str(episodes), "--seed", str(seed)]
        cut = ["--max-decisions", str(self.decisions)]
        return float(play(["lanista", "play", *brain, *where, *cut, *more])["mean_reward"])

    def imitate(self, form: str, seed: int) -> Row:
        """Learn from GAIL alone."""
        expert = self.expert_folder()
        gail = {"demo_path": str(expert / "demos"), "network_settings": NETWORK}
        gail |= {"use_actions": True, "engine_actions": True, "absorbing_states": FORMS[form]}
        settings = {**PPO, "max_steps": self.steps, "reward_signals": {"gail": gail}}
        others = OTHER_EPISODES + seed
        with TemporaryDirectory() as name:
            brain = self.learn(settings, seed, Path(name))
            score = self.play([str(brain)], others)
        return Row(self.name, form, seed, self.steps, self.play(self._brain(expert), others), score)


@dataclass(frozen=True)
class Row:
    """A line of gail.csv."""

    task: str
    form: str
    seed: int
    steps: int
    expert: float
    """The expert's score in the same episodes."""
    score: float

    @property
    def is_close(self) -> bool:
        """Whether the score is the expert's, or better."""
        return self.score >= self.expert - CLOSE * abs(self.expert)


TASKS = [
    Task(
        *("mountain-car", "at the goal", "gymnasium:MountainCarContinuous-v0"),
        *("MountainCarContinuous-v0", 100_000),
        expert=DDPG,
        expert_steps=40_000,
    ),
    Task(
        *("acrobot", "at the goal", "gymnasium:Acrobot-v1", "Acrobot-v1", 150_000),
        expert=DQN,
        expert_steps=50_000,
    ),
    Task(
        *("cartpole", "by failing", "gymnasium:CartPole-v1", "CartPole-v1", 100_000),
        expert=PPO,
        expert_steps=100_000,
    ),
    Task("ball3d", "by failing", "scene:ball3d", "3DBall", 150_000, areas=12),
]


def score_table(rows: Sequence[Row]) -> str:
    """A line for each task and form: scores seed by seed, and how many are the expert's."""
    lines = []
    for task in TASKS:
        for form in FORMS:
            own = [row for row in rows if (row.task, row.form, row.steps) == (task.name, form, task.steps)]
            if not own:
                continue
            scores = ", ".join(f"{row.score:.1f}" for row in own)
            close = f"{sum(row.is_close for row in own)} of {len(own)}"
            expert = f"{np.mean([row.expert for row in own]):.1f}"
            mean = f"**{np.mean([row.score for row in own]):.1f}** ({scores})"
            lines.append([task.name, task.ends, f"{task.steps:,}", form, expert, mean, close])
    heads = ["task", "episodes end", "agent-steps:", "reward", "expert:", "score:", "within 10 %:"]
    return table(heads, lines) if lines else "Not run yet."


def main() -> None:
    names = [task.name for task in TASKS]
    given = parse_options(
        __doc__,
        tasks={"default": names, "choices": names, "help": "what to imitate"},
        forms={"default": list(FORMS), "choices": list(FORMS), "help": "of the reward"},
        seeds={"default": [], "type": int, "nargs": "*", "help": "seeds to train with; none: only the page"},
    )
    for seed in given.seeds:
        for task in (task for task in TASKS if task.name in given.tasks):
            for form in given.forms:
                known = {(row.task, row.form, row.seed, row.steps) for row in read(CSV, Row)}
                if (task.name, form, seed, task.steps) in known:
                    continue
                began = time.monotonic()
                new = task.imitate(form, seed)
                if seed < CHOOSING:
                    write(CSV, Row, [*read(CSV, Row), new])  # others may have added theirs meanwhile
                print(f"{new} ({time.monotonic() - began:.0f} s)", flush=True)
    rows = sorted(read(CSV, Row), key=lambda row: (row.task, row.seed))
    write_page("gail", scores=score_table(rows))


if __name__ == "__main__":
    main()
