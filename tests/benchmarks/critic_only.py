"""What a sensor that the critic alone reads is good for: one task with it and without.

    python tests/benchmarks/critic_only.py [--trainers ppo sac td3] [--seeds 0 1 2 3 4]

Prints, for each trainer, the mean over the seeds and the range of: how near the agent is to the berries over
the whole run and in its last fifth (1: always there), and how much of the variance of the returns the critic
explains (PPO reports it), from the second of ten summaries on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict
from lanista.trainers.api import train
from lanista.trainers.callbacks.base import Callback
from lanista.trainers.callbacks.events import SummaryDue
from results import table
from script_options import parse_options

LENGTH = 10
RIPEST = 5.0


class Foraging(gymnasium.Env[Any, Any]):
    """The agent sees where the berries of a bush hang, and reaches for them: ten bushes an episode.

    What a berry is worth differs from episode to episode, and the agent cannot see it.
    """

    action_space = Box(-1.0, 1.0, (1,), np.float32)
    nearness: ClassVar[list[float]] = []
    """Of all actions so far: 1 at the berries, 0 at a distance of 1 or more."""

    def __init__(self, ripeness: bool) -> None:
        """`ripeness`: there is a sensor of this name."""
        spaces = {"bush": Box(-1.0, 1.0, (2,), np.float32)}
        if ripeness:
            spaces["ripeness"] = Box(0.0, RIPEST, (1,), np.float32)
        self.spaces = list(spaces)
        self.observation_space = Dict(spaces)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """A new worth."""
        super().reset(seed=seed)
        self.ripeness, self.time = min(float(np.exp(self.np_random.normal())), RIPEST), 0
        return self._next_bush(), {}

    def step(self, action: Any) -> Any:
        """One bush."""
        near = max(0.0, 1.0 - abs(float(action[0]) - self.place))
        self.nearness.append(near)
        self.time += 1
        return self._next_bush(), self.ripeness * near, self.time == LENGTH, False, {}

    def _next_bush(self) -> Any:
        self.place = float(self.np_random.uniform(-1.0, 1.0))
        seen = {
            "bush": np.float32([self.place, self.time / LENGTH]),
            "ripeness": np.float32([self.ripeness]),
        }
        return {name: seen[name] for name in self.spaces}


class Curve(Callback):
    """The explained variance at every summary."""

    def __init__(self) -> None:
        self.explained: list[float] = []

    def on_summary(self, event: SummaryDue) -> None:
        """Note it, where the trainer reports it."""
        if "Losses/Value Explained Variance" in event.metrics:
            self.explained.append(event.metrics["Losses/Value Explained Variance"])


TRAINERS: dict[str, dict[str, Any]] = {
    "ppo": {
        "hyperparameters": {"batch_size": 128, "buffer_size": 1024, "learning_rate": 1e-3, "beta": 1e-3},
        "max_steps": 20_000,
    },
    "sac": {"hyperparameters": {"batch_size": 64, "buffer_init_steps": 500}, "max_steps": 4_000},
    "td3": {"hyperparameters": {"batch_size": 64, "buffer_init_steps": 500}, "max_steps": 4_000},
}
AREAS = {"ppo": 16, "sac": 4, "td3": 4}


@dataclass(frozen=True)
class Result:
    """Of one run."""

    nearness: float
    last_nearness: float
    explained: float
    """NaN where it is not reported."""


def run(trainer: str, seed: int, *, seen: bool) -> Result:
    """Train once; `seen`: the critic sees how ripe the berries are."""
    network: dict[str, Any] = {"hidden_units": 32, "num_layers": 2}
    if seen:
        network["critic_only_observations"] = ["ripeness"]
    settings = TRAINERS[trainer]
    behavior = {
        "trainer_type": trainer,
        "network_settings": network,
        "time_horizon": LENGTH,
        "summary_freq": settings["max_steps"] // 10,
        **settings,
    }
    curve, Foraging.nearness = Curve(), []
    with tempfile.TemporaryDirectory() as folder:
        train(
            {
                "behaviors": {"Foraging": behavior},
                "env_settings": {"seed": seed, "num_areas": AREAS[trainer]},
                "torch_settings": {"num_threads": 1},
                "checkpoint_settings": {"results_dir": folder, "run_id": "r"},
            },
            env=lambda: Foraging(seen),
            callbacks=[curve],
        )
    near = np.array(Foraging.nearness)
    explained = float(np.mean(curve.explained[1:])) if curve.explained else float("nan")
    return Result(float(near.mean()), float(near[-len(near) // 5 :].mean()), explained)


FIGURES = ("nearness", "last_nearness", "explained")
HEADS = ("trainer", "the critic sees", "nearness", "in the last fifth", "explained variance")


def row(trainer: str, seen: str, results: Sequence[Result]) -> list[str]:
    """Mean and range of each figure over the seeds."""
    columns = [[getattr(result, figure) for result in results] for figure in FIGURES]
    cells = [f"{np.mean(column):.3f} ({min(column):.3f} to {max(column):.3f})" for column in columns]
    return [trainer, seen, *cells]


if __name__ == "__main__":
    given = parse_options(__doc__, trainers=list(TRAINERS), seeds=[0, 1, 2, 3, 4])
    rows = [
        row(trainer, label, [run(trainer, seed, seen=seen) for seed in given.seeds])
        for trainer in given.trainers
        for seen, label in ((False, "what the policy sees"), (True, "the ripeness too"))
    ]
    print(table(HEADS, rows))
