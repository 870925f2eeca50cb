"""Trains a Godot game with godot-rl 0.8.2 and Stable-Baselines3: `python run_godot_rl.py '<plan as JSON>'`.

For a Python environment that has godot-rl, and not Lanista. The plan has the keys of `Plan`. Prints a line
like ML-Agents' after every summary, which the measurements read, and at the end one line of JSON: what was
learned.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from godot_rl.wrappers.stable_baselines_wrapper import StableBaselinesGodotEnv
from run_sb3 import Curve
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecMonitor


@dataclass(frozen=True)
class Plan:
    """What to train and how to score it. Everything else is as in upstream's stable_baselines3_example.py."""

    game: str
    """An exported game."""
    port: int
    """The first of `games` free ports."""
    seed: int
    max_steps: int
    """In agent-steps."""
    summary_freq: int
    episodes: int = 0
    """That score what was learned, with the most likely actions; 0: none."""
    games: int = 1
    n_steps: int = 32
    batch_size: int = 64
    options: dict[str, Any] = field(default_factory=dict)
    """Of the environment: `speedup`, `framerate`."""


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    length: float
    """Mean number of decisions of the scored episodes; NaN if there are none."""
    reward: float
    """Their mean return."""
    trained_length: float
    """The same of the episodes that ended between the last two summaries of the training."""
    trained_reward: float


class Progress(Curve):
    """The curve, printed."""

    def __init__(self, every: int) -> None:
        super().__init__(every)
        self.length = np.nan
        """Mean decisions of the episodes that ended since the point before the last."""
        self._lengths: list[int] = []
        self._began = time.monotonic()

    def _on_step(self) -> bool:
        self._lengths += [info["episode"]["l"] for info in self.locals["infos"] if "episode" in info]
        known = len(self.points)
        super()._on_step()
        if len(self.points) > known:
            self.length = float(np.mean(self._lengths)) if self._lengths else np.nan
            self._lengths = []
            step, mean = self.points[-1]
            elapsed = time.monotonic() - self._began
            print(f"Step: {step}. Time Elapsed: {elapsed:.3f} s. Mean Reward: {mean:.3f}.", flush=True)
        return True


def train(plan: Plan) -> Outcome:
    """Train, then score from starts that no training saw."""
    torch.set_num_threads(1)  # several would wait for each other and for the game's own waiting loop
    envs = VecMonitor(
        StableBaselinesGodotEnv(plan.game, plan.games, plan.seed, port=plan.port, **plan.options)
    )
    set_random_seed(plan.seed)  # PPO's own `seed` asks the environment too, which does not know the call
    model = PPO(
        *("MultiInputPolicy", envs),
        n_steps=plan.n_steps,
        batch_size=plan.batch_size,
        ent_coef=0.0001,
        learning_rate=0.0003,
    )
    curve = Progress(plan.summary_freq)
    model.learn(plan.max_steps, callback=curve)
    envs.close()
    trained = curve.length, curve.points[-1][1]
    if not plan.episodes:
        return Outcome(np.nan, np.nan, *trained)
    fresh = VecMonitor(
        StableBaselinesGodotEnv(plan.game, 1, 1000 + plan.seed, port=plan.port, **plan.options)
    )
    rewards, lengths = evaluate_policy(
        model, fresh, n_eval_episodes=plan.episodes, return_episode_rewards=True
    )
    fresh.close()
    return Outcome(float(np.mean(lengths)), float(np.mean(rewards)), *trained)


if __name__ == "__main__":
    print(json.dumps(asdict(train(Plan(**json.loads(sys.argv[1]))))))
