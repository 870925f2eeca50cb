"""Trains with PPO of Sample Factory: `python run_field_sample_factory.py '<plan as JSON>'`.

For tests/benchmarks/field.py, whose `Plan` the keys are. Needs a Python environment that has sample-factory,
and not Lanista. It measures nothing: the environments write down what they see.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import gymnasium
from sample_factory.algo.utils.misc import ExperimentStatus
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import run_rl

WORKERS = 2
"""Processes that step environments."""


def make(name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> gymnasium.Env:
    """An environment of the name; pictures have their channels first, as it wants them."""
    extra = {"channels_first": True} if name == "Catch-v0" else {}
    return gymnasium.make(f"field_environments:{name}", **extra)


def options(plan: dict[str, Any]) -> list[str]:
    """The arguments that mean the same; what is not here is at its default."""
    rollout = plan["copies"] * plan["horizon"]
    given = {
        "env": plan["environment"],
        "experiment": "run",
        "train_dir": "train_dir",
        "device": "cpu",
        "seed": plan["seed"],
        "train_for_env_steps": plan["max_steps"],
        "num_workers": WORKERS,
        "num_envs_per_worker": plan["copies"] // WORKERS,
        "rollout": plan["horizon"],
        "batch_size": plan["batch_size"],
        "num_batches_per_epoch": rollout // plan["batch_size"],
        "num_epochs": plan["epochs"],
        "learning_rate": plan["learning_rate"],
        "gamma": plan["gamma"],
        "gae_lambda": plan["lambd"],
        "ppo_clip_ratio": plan["epsilon"],
        "exploration_loss_coeff": plan["beta"],
        "max_grad_norm": plan["max_grad_norm"],
        "use_rnn": False,
        "value_bootstrap": True,
        "normalize_input": False,
        "normalize_returns": False,
        "nonlinearity": "relu" if plan["pictures"] else "tanh",
    }
    if plan["pictures"]:
        given |= {"obs_scale": 255.0, "encoder_conv_architecture": "convnet_atari"}
    words = [f"--{name}={value}" for name, value in given.items()]
    return [*words, *(["--encoder_conv_mlp_layers", "512"] if plan["pictures"] else layers())]


def layers() -> list[str]:
    """Two layers of 64 units, for actor and critic each."""
    return ["--encoder_mlp_layers", "64", "64", "--actor_critic_share_weights=False"]


def train(plan: dict[str, Any]) -> None:
    """Train once.

    Raises:
        SystemExit: it was interrupted, or failed.
    """
    register_env(plan["environment"], make)
    parser, _ = parse_sf_args(options(plan))
    status = run_rl(parse_full_cfg(parser, options(plan)))
    if status != ExperimentStatus.SUCCESS:
        sys.exit(f"Sample Factory ended with status {status}.")


if __name__ == "__main__":
    train(json.loads(sys.argv[1]))
