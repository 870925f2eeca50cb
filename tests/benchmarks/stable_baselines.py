"""What Stable-Baselines3 is told of a task: `tests/peer/run_sb3.py` trains and scores it there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import yaml
from products import Script
from results import ROOT

if TYPE_CHECKING:
    from study import Task

SHARED = (
    *("learning_rate", "learning_rate_schedule", "batch_size", "buffer_size", "buffer_init_steps"),
    *("steps_per_update", "tau", "target_update_interval", "epsilon_start", "epsilon_end"),
    *("epsilon_decay_steps", "noise_end", "max_grad_norm", "n_step"),
)
"""The hyperparameters that it can be told."""


def plan(task: Task, way: str, algorithm: str = "") -> dict[str, Any]:
    """The way's settings in its words; another algorithm than theirs if one is given."""
    text = (ROOT / task.ways[way].config).read_text(encoding="utf-8")
    settings = yaml.safe_load(text)["behaviors"][task.behavior]
    return {
        "algorithm": algorithm or settings["trainer_type"],
        "environment": task.environment.partition(":")[2],
        "copies": task.areas,
        "max_steps": task.max_steps,
        "summary_freq": task.summary_freq or settings["summary_freq"],
        "episodes": task.episodes,
        "gamma": settings["reward_signals"]["extrinsic"]["gamma"],
        "hidden_units": settings["network_settings"]["hidden_units"],
        "num_layers": settings["network_settings"]["num_layers"],
        "hyperparameters": {k: v for k, v in settings["hyperparameters"].items() if k in SHARED},
    }


SB3 = Script("LANISTA_SB3", "run_sb3.py", plan)
CROSSQ = Script("LANISTA_SB3", "run_sb3.py", partial(plan, algorithm="crossq"))
"""Of sb3-contrib."""
