"""The reward signals that have networks of their own, by their settings."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from mlagents_envs.base_env import BehaviorSpec

from ...envs.validation import NonFinitePolicy
from ..buffers.demonstrations import load_demonstrations
from ..settings.models.rewards import CuriositySettings, GAILSettings, RewardSignalSettings, RNDSettings
from .base import NetworkSignal
from .curiosity import Curiosity
from .gail import GAIL
from .rnd import RND

CURIOSITY_SEED, GAIL_SEED, RND_SEED = 100, 200, 300
"""Behind the run's: each signal has its own random numbers, whatever the others are."""


def make_learned_rewards(
    spec: BehaviorSpec,
    signals: Mapping[str, RewardSignalSettings],
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
    *,
    squashed: bool,
) -> dict[str, NetworkSignal]:
    """Those among `signals` that learn themselves, by name.

    Args:
        spec: of the behaviour.
        signals: settings by name.
        device: the learner's.
        seed: the run's.
        non_finite: what to do about gradients that are no numbers.
        squashed: the policy draws continuous actions as the engine takes them.

    Raises:
        DemonstrationError: GAIL's cannot be read, or is not of this behaviour.
        UnsupportedObservationError: an observation cannot be encoded; the message names it.
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
    return made
