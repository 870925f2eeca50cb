"""Trains `scene:ball3d` with Stable-Baselines3 through the wrapper: `python sb3_ball3d.py '<plan as JSON>'`.

For a Python that has stable-baselines3 and Lanista. The result is one line of JSON: the mean and deviation of
the scored episodes, the seconds, and the curve.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from lanista.envs.wrappers import make_sb3
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

sys.path.insert(0, str(Path(__file__).parents[1] / "peer"))

from run_sb3 import Curve


@dataclass(frozen=True)
class Plan:
    """What to train and how to score it. The hyperparameters are those of config/ppo/ball3d.yaml."""

    seed: int
    areas: int = 12
    max_steps: int = 120_000
    episodes: int = 100
    summary_freq: int = 12_000


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    mean: float
    std: float
    seconds: float
    """That the training took, without the score."""
    curve: list[tuple[int, float]]
    """Mean return of the episodes that ended since the point before, by the step."""


def train(plan: Plan) -> Outcome:
    """Train, then score with the likeliest actions, from starts that no training saw."""
    scene = f"scene:ball3d?areas={plan.areas}"
    envs = VecNormalize(VecMonitor(make_sb3(scene, seed=plan.seed)), norm_reward=False, clip_obs=5.0)
    model = PPO(
        *("MlpPolicy", envs),
        learning_rate=lambda left: 3e-4 * left,
        n_steps=12_000 // plan.areas,
        batch_size=64,
        n_epochs=3,
        gamma=0.99,
        gae_lambda=0.99,
        clip_range=0.2,
        ent_coef=0.001,
        policy_kwargs={"net_arch": [128, 128], "activation_fn": torch.nn.SiLU},
        seed=plan.seed,
        device="cpu",
    )
    curve = Curve(plan.summary_freq)
    began = time.monotonic()
    model.learn(plan.max_steps, callback=curve)
    seconds = time.monotonic() - began
    envs.close()
    fresh = VecNormalize(
        VecMonitor(make_sb3(scene, seed=1000 + plan.seed)), training=False, norm_reward=False
    )
    fresh.obs_rms, fresh.clip_obs = envs.obs_rms, envs.clip_obs
    mean, std = evaluate_policy(model, fresh, n_eval_episodes=plan.episodes)
    fresh.close()
    return Outcome(float(mean), float(std), seconds, curve.finite())


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(asdict(train(Plan(**json.loads(sys.argv[1]))))))
