"""Trains XuanCe's COMA and scores what comes out: `python run_xuance.py '<plan as JSON>'`.

For a Python environment that has xuance (1.4.4 was tried), torch and mpe2, and not Lanista. The plan has the
keys of `Plan`; the last line printed is the result as JSON: mean and deviation of the scored episodes, and
the curve. Settings that the plan does not name are those of XuanCe's own file for the task.

One of those gives each environment a process. With `vectorize: DummyVecMultiAgentEnv` instead, returns fell
from -26 to -65 where they should have risen to -20 (seed 0, 400,000 agent-steps).
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import mpe2
import numpy as np
import torch

# XuanCe looks for the particle environments where PettingZoo had them before they became a package.
sys.modules["pettingzoo.mpe"] = mpe2
sys.modules["pettingzoo.mpe.simple_spread_v3"] = importlib.import_module("mpe2.simple_spread_v3")

from xuance.common import MultiAgentBaseCallback, get_arguments  # noqa: E402
from xuance.environment import make_envs  # noqa: E402
from xuance.torch.agents import COMA_Agents  # noqa: E402

AGENTS = 3


class Huber(torch.nn.HuberLoss):
    """XuanCe gives COMA one without a delta, which it never uses and newer versions of PyTorch refuse."""

    def __init__(self, reduction: str = "mean", delta: float | None = None) -> None:
        super().__init__(reduction=reduction, delta=1.0 if delta is None else delta)


torch.nn.HuberLoss = Huber


@dataclass(frozen=True)
class Plan:
    """What to train. Agent-steps count the decisions of each agent; XuanCe's own those of all as one."""

    max_steps: int
    """Agent-steps, as all numbers of steps."""
    summary_freq: int
    seed: int
    episodes: int
    """That score what was learned, with sampled actions."""
    copies: int
    settings: dict[str, Any]
    """XuanCe's, in place of those of its file."""


def mean_score(info: dict[str, Any]) -> float:
    """What an agent earned in the episode, on average."""
    return float(np.mean(list(info["episode_score"].values())))


class Curve(MultiAgentBaseCallback):
    """Mean return of the episodes that ended since the point before, by the agent-step."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.points: list[tuple[int, float]] = []
        self._steps = 0
        self._earned: list[float] = []

    def on_train_episode_info(self, **given: Any) -> None:
        self._earned.append(mean_score(given["infos"][given["env_id"]]))

    def on_train_step(self, current_step: int, **given: Any) -> None:
        self._steps += AGENTS * self.plan.copies
        if self._steps // self.plan.summary_freq > len(self.points) and self._earned:
            self.points.append((self._steps, float(np.mean(self._earned))))
            self._earned = []


def score(agent: COMA_Agents, envs: Any, episodes: int) -> list[float]:
    """Returns of episodes with sampled actions and no exploration beside that."""
    agent.egreedy = 0.0
    obs, _ = envs.reset()
    earned: list[float] = []
    while len(earned) < episodes:
        chosen = agent.get_actions(obs_dict=obs, state=envs.buf_state, test_mode=False)
        obs, _, terminated, truncated, infos = envs.step(chosen["actions"])
        for i, info in enumerate(infos):
            if all(terminated[i].values()) or truncated[i]:
                earned.append(mean_score(info))
                obs[i] = envs.buf_obs[i] = info["reset_obs"]
    return earned[:episodes]


def train(plan: Plan, folder: str) -> dict[str, Any]:
    """Train and score once; XuanCe's logs go to the folder."""
    settings = get_arguments("coma", "mpe", "simple_spread_v3")
    own = {
        **{"seed": plan.seed, "env_seed": plan.seed, "parallels": plan.copies},
        **{"render": False, "render_mode": None, "log_dir": folder, "model_dir": folder},
    }
    for name, value in {**own, **plan.settings}.items():
        setattr(settings, name, value)
    envs = make_envs(settings)
    curve = Curve(plan)
    agent = COMA_Agents(settings, envs, callback=curve)
    agent.train(plan.max_steps // (AGENTS * plan.copies))
    earned = score(agent, envs, plan.episodes)
    return {"mean": float(np.mean(earned)), "std": float(np.std(earned)), "curve": curve.points}


def main() -> None:
    """Train and score once."""
    torch.set_num_threads(1)
    plan = Plan(**json.loads(sys.argv[1]))
    with TemporaryDirectory() as folder:
        print(json.dumps(train(plan, folder)))


if __name__ == "__main__":
    main()
