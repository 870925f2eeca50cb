"""Trains by an entry of rl-zoo3 with Stable-Baselines3, and scores: `python run_zoo.py '<plan as JSON>'`.

For a Python environment that has stable-baselines3, sb3-contrib and gymnasium, and not Lanista. The plan has
the keys of `Plan`; the result is one line of JSON: mean and deviation of the scored episodes, the curve, and
the seconds from the start of this process to the end of training.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
import torch
from run_sb3 import Curve
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import nn

KINDS: dict[str, Any] = {"ppo": PPO, "ppo_lstm": RecurrentPPO, "dqn": DQN, "sac": SAC, "td3": TD3}
OF_THE_RUN = {"n_envs", "n_timesteps", "normalize", "policy", "policy_kwargs", "noise_type", "noise_std"}
"""Keys of an entry that are no arguments of an algorithm."""


@dataclass(frozen=True)
class Plan:
    """What to train."""

    algorithm: str
    """As the zoo names its files."""
    environment: str
    entry: dict[str, Any]
    summary_freq: int
    seed: int
    episodes: int
    """That score what was learned, with the most likely actions."""


def scheduled(value: Any) -> Any:
    """`lin_0.001` as the zoo reads it: a rate that falls to 0 at the end."""
    if not (isinstance(value, str) and value.startswith("lin_")):
        return value
    first = float(value.removeprefix("lin_"))

    def rate(left: float) -> float:
        return first * left

    fall: Callable[[float], float] = rate
    return fall


def arguments(entry: dict[str, Any], envs: VecEnv) -> dict[str, Any]:
    """Those of the algorithm, as the zoo makes them of an entry of this repository's own files."""
    given = {key: scheduled(value) for key, value in entry.items() if key not in OF_THE_RUN}
    if "policy_kwargs" in entry:
        given["policy_kwargs"] = eval(entry["policy_kwargs"], {"nn": nn})
    if entry.get("noise_type") == "normal":
        size = envs.action_space.shape
        given["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, entry["noise_std"]))
    return given


def train(plan: Plan) -> dict[str, Any]:
    """Train and score once."""
    torch.set_num_threads(1)
    entry = plan.entry
    envs: VecEnv = make_vec_env(plan.environment, n_envs=entry.get("n_envs", 1), seed=plan.seed)
    fresh: VecEnv = make_vec_env(plan.environment, n_envs=1, seed=1000 + plan.seed)
    if entry.get("normalize"):
        envs = VecNormalize(envs, gamma=entry.get("gamma", 0.99))
        fresh = VecNormalize(fresh, training=False, norm_reward=False)
    kind = KINDS[plan.algorithm]
    model = kind(entry["policy"], envs, seed=plan.seed, device="cpu", **arguments(entry, envs))
    curve = Curve(plan.summary_freq)
    model.learn(int(entry["n_timesteps"]), callback=curve)
    seconds = time.time() - psutil.Process().create_time()
    if isinstance(envs, VecNormalize) and isinstance(fresh, VecNormalize):
        fresh.obs_rms = envs.obs_rms
    mean, std = evaluate_policy(model, fresh, n_eval_episodes=plan.episodes, deterministic=True)
    return {"mean": float(mean), "std": float(std), "curve": curve.finite(), "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(train(Plan(**json.loads(sys.argv[1])))))
