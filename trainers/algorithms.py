"""Which algorithm learns for which `trainer_type`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import torch
from mlagents_envs.base_env import BehaviorSpec

from ..envs.finite import NonFinite
from .poca.poca import POCA
from .ppo.ppo import PPO
from .rewards.extrinsic import ExtrinsicReward
from .rewards.provider import RewardProvider
from .settings.behavior import TrainerSettings

Algorithm = Union[PPO, POCA]

_algorithms: dict[str, Callable[..., Any]] = {"ppo": PPO, "poca": POCA}


def make_algorithm(
    spec: BehaviorSpec, settings: TrainerSettings, device: torch.device, seed: int, non_finite: NonFinite
) -> Algorithm:
    """The networks and the update of a behaviour.

    Raises:
        UnsupportedObservationError, UnsupportedNetworkError: what this version cannot build.
    """
    algorithm: Algorithm = _algorithms[settings.trainer_type](spec, settings, device, seed, non_finite)
    return algorithm


def make_reward_providers(settings: TrainerSettings) -> dict[str, RewardProvider]:
    """The reward signals of a behaviour, by name."""
    # A team's value counts what every member earns.
    with_mates = settings.trainer_type == "poca"
    return {signal: ExtrinsicReward(with_mates) for signal in settings.reward_signals}
