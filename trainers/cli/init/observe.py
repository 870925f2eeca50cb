"""What an environment shows of its behaviors while it is played at random for a moment."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorSpec, DecisionSteps

from ....envs.base import BehaviorName

STEPS = 300
"""The number of environment steps that are played."""
SECONDS = 3.0
"""Seconds after which playing ends sooner, once a behavior has shown itself: real-time engines are slow."""


@dataclass
class BehaviorFacts:
    """What was seen of one behavior."""

    name: str
    """The behavior's name without its team, as a configuration names it."""
    spec: BehaviorSpec
    teams: set[int] = field(default_factory=set)
    agents: int = 0
    """The most agents that asked for a decision at one time, of all teams together."""
    group: int = 0
    """The most agents that were in one group; 0 without groups."""
    rewarded: bool = False
    """Whether any agent or group earned anything."""
    largest: float = 0.0
    """The largest absolute value in a vector observation."""
    rate: float = 0.0
    """The decisions per second of all its agents together, as far as the environment and acting at random
    allow; 0: not measured."""


def observe(env: BaseEnv, steps: int = STEPS, seconds: float = SECONDS) -> dict[str, BehaviorFacts]:
    """Play at random; return what was seen, by the behaviors' names.

    Args:
        env: The environment, which is reset, and stepped at least once.
        steps: The most steps.
        seconds: See `SECONDS`.

    Raises:
        UnityException: The environment failed.
        ValueError: A behavior's team is not a whole number.
    """
    facts: dict[str, BehaviorFacts] = {}
    rng = np.random.default_rng(0)
    env.reset()
    began, decided = time.monotonic(), Counter[str]()
    for _ in range(steps):
        deciding: dict[str, int] = {}
        for full, spec in list(env.behavior_specs.items()):
            parsed = BehaviorName.parse(full)
            seen = facts.setdefault(parsed.name, BehaviorFacts(parsed.name, spec))
            seen.teams.add(parsed.team_id)
            decisions, terminals = env.get_steps(full)
            _note(seen, decisions)
            seen.rewarded |= any(
                bool(np.any(reward))
                for batch in (decisions, terminals)
                for reward in (batch.reward, batch.group_reward)
            )
            deciding[parsed.name] = deciding.get(parsed.name, 0) + len(decisions)
            if len(decisions):
                env.set_actions(full, _random_actions(spec, decisions, rng))
        for name, number in deciding.items():
            facts[name].agents = max(facts[name].agents, number)
        decided.update(deciding)
        env.step()
        if facts and time.monotonic() - began > seconds:
            break
    for name, number in decided.items():
        facts[name].rate = number / max(time.monotonic() - began, 1e-6)
    return facts


def _note(seen: BehaviorFacts, decisions: DecisionSteps) -> None:
    if not len(decisions):
        return
    groups = np.asarray(decisions.group_id)
    if np.any(groups > 0):
        seen.group = max(seen.group, int(np.bincount(groups[groups > 0]).max()))
    for sensor, values in zip(seen.spec.observation_specs, decisions.obs):
        if len(sensor.shape) == 1 and values.size:
            seen.largest = max(seen.largest, float(np.nanmax(np.abs(values))))


def _random_actions(spec: BehaviorSpec, decisions: DecisionSteps, rng: np.random.Generator) -> ActionTuple:
    """Uniform continuous actions in [-1, 1], and of every branch one of the actions that are not masked."""
    number, branches = len(decisions), spec.action_spec.discrete_branches
    continuous = rng.uniform(-1, 1, (number, spec.action_spec.continuous_size)).astype(np.float32)
    discrete = np.zeros((number, len(branches)), np.int32)
    for k, size in enumerate(branches):
        scores = rng.random((number, size))
        if decisions.action_mask is not None:
            scores -= 2.0 * np.asarray(decisions.action_mask[k])
        discrete[:, k] = scores.argmax(axis=1)
    return ActionTuple(continuous, discrete)
