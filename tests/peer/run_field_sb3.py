"""Trains with PPO of Stable-Baselines3: `python run_field_sb3.py '<plan as JSON>'`.

For tests/benchmarks/field.py, whose `Plan` the keys are. Needs a Python environment that has
stable-baselines3, and not Lanista. It measures nothing: the environments write down what they see.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env


def train(plan: dict[str, Any]) -> None:
    """Train once, with the class of vector environments that make_vec_env takes by itself."""
    envs = make_vec_env(f"field_environments:{plan['environment']}", n_envs=plan["copies"], seed=plan["seed"])
    model = PPO(
        "CnnPolicy" if plan["pictures"] else "MlpPolicy",
        envs,
        learning_rate=plan["learning_rate"],
        n_steps=plan["horizon"],
        batch_size=plan["batch_size"],
        n_epochs=plan["epochs"],
        gamma=plan["gamma"],
        gae_lambda=plan["lambd"],
        clip_range=plan["epsilon"],
        ent_coef=plan["beta"],
        max_grad_norm=plan["max_grad_norm"],
        seed=plan["seed"],
        device="cpu",
    )
    model.learn(plan["max_steps"])


if __name__ == "__main__":
    train(json.loads(sys.argv[1]))
