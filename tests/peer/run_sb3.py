"""Trains with Stable-Baselines3 and scores what comes out: `python run_sb3.py '<plan as JSON>'`.

For a Python environment that has stable-baselines3 and gymnasium, and not Lanista. The plan has the keys of
`Plan`; the result is one line of JSON: mean and deviation of the scored episodes, and the curve.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DDPG, DQN, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv


def kind(algorithm: str) -> Any:
    """Its class; that of CrossQ is in sb3-contrib."""
    if algorithm == "crossq":
        from sb3_contrib import CrossQ

        return CrossQ
    return {"dqn": DQN, "ddpg": DDPG, "sac": SAC, "td3": TD3}[algorithm]


@dataclass(frozen=True)
class Plan:
    """What to train, in Lanista's words."""

    algorithm: str
    environment: str
    copies: int
    max_steps: int
    summary_freq: int
    seed: int
    episodes: int
    """That score what was learned, with the most likely actions."""
    gamma: float
    hidden_units: int
    num_layers: int
    hyperparameters: dict[str, Any]


def options(plan: Plan, envs: VecEnv) -> dict[str, Any]:
    """The arguments of Stable-Baselines3 that mean the same."""
    hyper = plan.hyperparameters
    if plan.algorithm == "crossq":  # its recipe is whole: learning rate, batch and networks are its own
        keys = {"buffer_size": hyper["buffer_size"], "learning_starts": hyper.get("buffer_init_steps", 0)}
        return {**keys, "gamma": plan.gamma}
    rate = hyper["learning_rate"]
    falls = hyper.get("learning_rate_schedule", "constant") == "linear"
    given = {
        "learning_rate": (lambda left: rate * left) if falls else rate,
        "buffer_size": hyper["buffer_size"],
        "learning_starts": hyper.get("buffer_init_steps", 0),
        "batch_size": hyper["batch_size"],
        "gamma": plan.gamma,
        "train_freq": 1,
        "gradient_steps": max(1, round(plan.copies / hyper.get("steps_per_update", 1))),
        "n_steps": hyper.get("n_step", 1),
        "policy_kwargs": {"net_arch": [plan.hidden_units] * plan.num_layers},
    }
    if plan.algorithm == "dqn":
        # There the interval counts steps of the environments, here gradient steps.
        interval = hyper.get("target_update_interval", 1000) * hyper.get("steps_per_update", 1)
        if "tau" in hyper:  # there the target moves once for all gradient steps of a step, here at each
            given["tau"], interval = 1 - (1 - hyper["tau"]) ** int(given["gradient_steps"]), 1
        given["target_update_interval"] = int(interval)
        given["max_grad_norm"] = hyper.get("max_grad_norm", np.inf)
        given["exploration_initial_eps"] = hyper.get("epsilon_start", 1.0)
        given["exploration_final_eps"] = hyper.get("epsilon_end", 0.05)
        given["exploration_fraction"] = hyper.get("epsilon_decay_steps", 50000) / plan.max_steps
        return given
    given["tau"] = hyper.get("tau", 0.005)
    if plan.algorithm in ("ddpg", "td3"):
        size = envs.action_space.shape
        given["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, hyper.get("noise_end", 0.1)))
    return given


class Curve(BaseCallback):
    """Mean return of the episodes that ended since the point before, by the step; NaN where none ended."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.points: list[tuple[int, float]] = []
        self._earned: list[float] = []

    def _on_step(self) -> bool:
        self._earned += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        if self.num_timesteps // self.every > len(self.points):
            mean = float(np.mean(self._earned)) if self._earned else float("nan")
            self.points.append((self.num_timesteps, mean))
            self._earned = []
        return True

    def finite(self) -> list[tuple[int, float]]:
        """The points that have a mean."""
        return [(step, mean) for step, mean in self.points if np.isfinite(mean)]


def train(plan: Plan) -> dict[str, Any]:
    """Train and score once."""
    torch.set_num_threads(1)
    envs = make_vec_env(plan.environment, n_envs=plan.copies, seed=plan.seed)
    model = kind(plan.algorithm)("MlpPolicy", envs, seed=plan.seed, device="cpu", **options(plan, envs))
    curve = Curve(plan.summary_freq)
    model.learn(plan.max_steps, callback=curve)
    fresh = make_vec_env(plan.environment, n_envs=1, seed=1000 + plan.seed)
    mean, std = evaluate_policy(model, fresh, n_eval_episodes=plan.episodes, deterministic=True)
    return {"mean": float(mean), "std": float(std), "curve": curve.finite()}


if __name__ == "__main__":
    print(json.dumps(train(Plan(**json.loads(sys.argv[1])))))
