"""Builds the reward signals that have networks of their own from their settings."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from mlagents_envs.base_env import BehaviorSpec

from ...envs.validation import NonFinitePolicy
from ..buffers.demonstrations import load_demonstrations
from ..settings.models.rewards import (
    CuriositySettings,
    GAILSettings,
    LearnedRewardSettings,
    RewardSignalSettings,
    RNDSettings,
)
from .base import NetworkSignal
from .curiosity import Curiosity
from .gail import GAIL
from .rnd import RND

CURIOSITY_SEED, GAIL_SEED, RND_SEED = 100, 200, 300
"""Added to the run's: each signal has its own random numbers, whatever the others are."""


def make_learned_rewards(
    spec: BehaviorSpec,
    signals: Mapping[str, RewardSignalSettings],
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
    *,
    squashed: bool,
) -> dict[str, NetworkSignal]:
    """Those of `signals` that are learned, by name.

    Args:
        spec: of the behavior.
        signals: settings by name.
        device: the learner's.
        seed: the run's.
        non_finite: how to handle gradients that are not finite.
        squashed: the policy samples continuous actions in the range of the engine.

    Raises:
        DemonstrationError: GAIL's cannot be read, or are of another behavior.
        UnsupportedObservationError: an observation cannot be encoded; the message names it.
        TypeError: a signal's settings have no branch here.
    """
    made: dict[str, NetworkSignal] = {}
    for name, own in signals.items():
        if isinstance(own, CuriositySettings):
            made[name] = Curiosity(spec, own, device, seed + CURIOSITY_SEED, non_finite)
        elif isinstance(own, GAILSettings):
            demos = load_demonstrations(own.demo_path, spec)
            made[name] = GAIL(spec, own, demos, device, seed + GAIL_SEED, non_finite, squashed=squashed)
        elif isinstance(own, RNDSettings):
            made[name] = RND(spec, own, device, seed + RND_SEED, non_finite)
        elif isinstance(own, LearnedRewardSettings):
            raise TypeError(f"reward_signals.{name}: nothing is built here from {type(own).__name__}")
    return made
