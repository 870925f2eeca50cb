"""Which algorithm learns for which `trainer_type`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mlagents_envs.base_env import BehaviorSpec

from ..envs.finite import NonFinite
from .coma.actors import Actors
from .coma.coma import COMA
from .coma.policy import PlacePolicy
from .coma.settings import COMASettings
from .coma.team_reward import TeamReward
from .networks.actor import Actor
from .networks.actor_critic import ActorCritic
from .poca.poca import POCA
from .policy import Policy
from .ppo.ppo import PPO
from .rewards.extrinsic import ExtrinsicReward
from .rewards.provider import RewardProvider
from .settings.behavior import TrainerSettings

Algorithm = PPO | POCA | COMA

_algorithms: dict[str, Callable[..., Any]] = {"ppo": PPO, "poca": POCA, "coma": COMA}


def make_algorithm(
    spec: BehaviorSpec, settings: TrainerSettings, device: torch.device, seed: int, non_finite: NonFinite
) -> Algorithm:
    """The networks and the update of a behaviour.

    Raises:
        UnsupportedObservationError: an observation cannot be encoded, or one that the settings name is not
            there.
        UnsupportedActionError: COMA's agents have continuous actions.
    """
    algorithm: Algorithm = _algorithms[settings.trainer_type](spec, settings, device, seed, non_finite)
    return algorithm


def make_reward_providers(settings: TrainerSettings) -> dict[str, RewardProvider]:
    """The reward signals of a behaviour, by name."""
    hyper = settings.hyperparameters
    if isinstance(hyper, COMASettings):
        return {signal: TeamReward(hyper.reward) for signal in settings.reward_signals}
    # A team's value counts what every member earns.
    with_mates = settings.trainer_type == "poca"
    return {signal: ExtrinsicReward(with_mates) for signal in settings.reward_signals}


def make_policy(
    network: Actor | ActorCritic | Actors, spec: BehaviorSpec, seed: int, *, deterministic: bool
) -> Policy:
    """What acts by an algorithm's network, or by a copy of it."""
    kind: Any = PlacePolicy if isinstance(network, Actors) else Policy
    policy: Policy = kind(network, spec, seed, deterministic=deterministic)
    return policy
