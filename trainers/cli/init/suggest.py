"""Which settings suit what a behavior has shown.

They are those with which the ready configurations in config/ learn, by what these have in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...settings.models.networks import EncoderType
from .bounds import HORIZON, PICTURE, Bounds, power_above
from .observe import BehaviorFacts

Tree = dict[str, Any]
ON_POLICY = ("ppo", "poca", "mappo")
OF_TEAMS = ("poca", "mappo")
TRAINERS = (*ON_POLICY, "sac", "td3", "dqn")
"""The trainers that a configuration can be written for."""
FEW_AGENTS = 2
"""The number of agents that counts as few: they give few steps, from which a replay learns more."""
FAST = 100_000.0
"""Decisions per second of an environment from which on more steps teach more in a minute than more epochs."""
NARROW, WIDE = 50, 300
"""Observed numbers above which layers get wider, and wider still."""


@dataclass(frozen=True)
class Suggestion:
    """The settings of one behavior, and why."""

    facts: BehaviorFacts
    settings: Tree
    """The settings as in the YAML."""
    reason: str
    """The reason for the trainer."""
    bounds: Bounds
    """How many steps have room in memory."""
    bounded: frozenset[str]
    """The hyperparameters that are lower because of the bounds."""


class UnsuitableTrainerError(ValueError):
    """The trainer that was asked for cannot learn such a behavior."""


def suggest(
    facts: BehaviorFacts,
    *,
    copies: int = 1,
    trainer: str | None = None,
    opponents: bool,
    behaviors: int = 1,
) -> Suggestion:
    """The settings for a behavior.

    Args:
        facts: What was seen.
        copies: How many copies of what was seen will be trained in.
        trainer: One of `TRAINERS`; None: the one that suits.
        opponents: Whether teams play against each other.
        behaviors: How many learn at the same time, and share the memory.

    Raises:
        UnsuitableTrainerError: The trainer does not take the behavior's actions.
    """
    reason = "as asked for"
    if trainer is None:
        trainer, reason = _trainer(facts, opponents)
    else:
        _require_actions(facts, trainer)
    agents = max(facts.agents, 1) * copies
    on_policy = trainer in ON_POLICY
    steps, network = _max_steps(facts, on_policy, opponents), _network(facts)
    hyper = _on_policy(facts, agents, opponents) if on_policy else _replay(trainer, agents, steps)
    is_team = trainer in OF_TEAMS
    if on_policy and _is_costly(facts, opponents) and facts.spec.action_spec.continuous_size:
        network["action_range"] = 1.0
    bounds = Bounds.of(facts.spec, network, on_policy=on_policy, is_team=is_team, behaviors=behaviors)
    bounded = bounds.apply(hyper, agents)
    if on_policy:  # an update begins with more than that, and trajectories that end together would fill it
        hyper["buffer_size"] -= hyper["batch_size"]
    settings: Tree = {
        "trainer_type": trainer,
        "hyperparameters": hyper,
        "network_settings": network,
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0}},
        "max_steps": steps,
        "time_horizon": bounds.horizon(agents) if on_policy else 16,
        "summary_freq": steps // 50,
        "checkpoint_interval": steps // 10,
    }
    if opponents:
        settings["self_play"] = {"save_steps": steps // 100, "team_change": steps // 50, "window": 10}
    return Suggestion(facts, settings, reason, bounds, bounded)


def _trainer(facts: BehaviorFacts, opponents: bool) -> tuple[str, str]:
    if facts.group > 1:
        return "poca", "since the agents are in groups; mappo learns with groups too"
    only_continuous = not facts.spec.action_spec.discrete_branches
    if only_continuous and 0 < facts.agents <= FEW_AGENTS and not opponents:
        return "sac", "since few agents give few steps, which it uses many times; ppo where steps are cheap"
    other = (
        "sac or td3" if only_continuous else "sac" if facts.spec.action_spec.continuous_size else "dqn or sac"
    )
    return "ppo", f"which suits most tasks; {other} where steps are slow"


def _require_actions(facts: BehaviorFacts, trainer: str) -> None:
    """Refuse a trainer for one kind of actions where there are others."""
    actions = facts.spec.action_spec
    if trainer == "dqn" and actions.continuous_size:
        raise UnsuitableTrainerError(
            f"{facts.name} has continuous actions, and dqn takes discrete ones alone. Use ppo or sac"
        )
    if trainer == "td3" and actions.discrete_branches:
        raise UnsuitableTrainerError(
            f"{facts.name} has discrete actions, and td3 takes continuous ones alone. Use ppo or sac"
        )


def _is_wide(facts: BehaviorFacts) -> bool:
    """Whether a large network sees the observations, which learns better in small steps."""
    return _numbers(facts) > NARROW or bool(_sides(facts))


def _max_steps(facts: BehaviorFacts, on_policy: bool, opponents: bool) -> int:
    if opponents:
        return 5_000_000
    hard = facts.group > 1 or bool(_sides(facts))
    return (2_000_000 if hard else 500_000) if on_policy else 500_000 if hard else 100_000


def _is_costly(facts: BehaviorFacts, opponents: bool) -> bool:
    """Whether to learn much from each step: steps are few, and no other player changes what they teach."""
    return facts.group <= 1 and not opponents and facts.rate < FAST


def _on_policy(facts: BehaviorFacts, agents: int, opponents: bool) -> Tree:
    """The settings of a buffer in which each agent has a whole time horizon.

    Costly steps are learned from in many epochs of small minibatches, as Stable-Baselines3 does by default;
    others in few of large ones, eight to a buffer.
    """
    wave = power_above(HORIZON * agents)
    common = {"beta": 0.005, "epsilon": 0.2, "lambd": 0.95, "max_grad_norm": 0.5}
    if _is_costly(facts, opponents):
        buffer = max(512, wave)
        costly: Tree = {
            "batch_size": max(64, buffer // 32),
            "buffer_size": buffer,
            "learning_rate": 3.0e-4,
            "learning_rate_schedule": "constant",
            "num_epoch": 10,
            **common,
        }
        return costly | ({"ratio": "joint"} if facts.spec.action_spec.continuous_size else {})
    buffer = max(8192 if facts.group > 1 or opponents else 2048, wave)
    return {
        "batch_size": buffer // 8,
        "buffer_size": buffer,
        "learning_rate": 3.0e-4 if opponents or _is_wide(facts) else 1.0e-3,
        "learning_rate_schedule": "constant" if opponents else "linear",
        "num_epoch": 3,
        **common,
    }


def _replay(trainer: str, agents: int, steps: int) -> Tree:
    """The settings of a replay, with one gradient step to as many steps as agents make at a time."""
    common: Tree = {
        "batch_size": 128,
        "buffer_size": 50_000,
        "buffer_init_steps": 1000,
        "learning_rate": 1.0e-3,
        "steps_per_update": agents,
    }
    if trainer == "dqn":
        return {
            **common,
            "target_update_interval": 250,
            "epsilon_end": 0.02,
            "epsilon_decay_steps": steps // 10,
        }
    common = {**common, "random_initial_actions": True, "tau": 0.005}
    if trainer == "sac":
        return {**common, "init_entcoef": 0.5}
    return {
        **common,
        "noise_type": "gaussian",
        "noise_start": 0.3,
        "noise_end": 0.05,
        "noise_decay_steps": steps // 2,
    }


def _network(facts: BehaviorFacts) -> Tree:
    """The settings of layers as wide as what is seen; normalized where a vector leaves [-1, 1]."""
    numbers, sides = _numbers(facts), _sides(facts)
    network: Tree = {
        "normalize": facts.largest > 1.0,
        "hidden_units": 128 if numbers <= NARROW else 256 if numbers <= WIDE else 512,
        "num_layers": 2,
    }
    if sides:
        network["vis_encode_type"] = _encoder(min(sides)).value
    return network


def _numbers(facts: BehaviorFacts) -> int:
    """How many numbers an agent observes beside images."""
    shapes = [sensor.shape for sensor in facts.spec.observation_specs]
    return sum(math.prod(shape) for shape in shapes if len(shape) < PICTURE)


def _sides(facts: BehaviorFacts) -> list[int]:
    """The shorter side of each image, in pixels."""
    shapes = [sensor.shape for sensor in facts.spec.observation_specs]
    return [min(shape[1:]) for shape in shapes if len(shape) == PICTURE]


def _encoder(side: int) -> EncoderType:
    """The encoder for images of which no height or width is less than `side` pixels."""
    if side >= 20:
        return EncoderType.SIMPLE
    return EncoderType.MATCH3 if side >= 5 else EncoderType.FULLY_CONNECTED
