"""Makes the reward signals of a behavior from its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from zlib import crc32

import torch
from mlagents_envs.base_env import BehaviorSpec

from ...envs.validation import NonFinitePolicy
from ..algorithms.base import Algorithm
from ..buffers.demonstrations import load_demonstrations
from ..networks.allocation import naming_key_of_allocation
from ..networks.modules.distributions import ENGINE_RANGE
from ..networks.observation_kinds import UnsupportedObservationError
from ..settings.models.behavior import TrainerSettings
from ..settings.models.rewards import (
    REWARD_SIGNAL_SETTINGS,
    CuriositySettings,
    GAILSettings,
    LearnedRewardSettings,
    RewardSignalSettings,
    RNDSettings,
)
from ..settings.registry import find_reward_signal
from ..utils import distributed
from ..utils.errors import TrainerError
from ..utils.plugins import cause, imported
from .base import LearnedReward, NetworkSignal, RewardProvider
from .curiosity import Curiosity
from .dac import DAC
from .extrinsic import ExtrinsicReward, TeamReward
from .gail import GAIL
from .rnd import RND

CURIOSITY_SEED, GAIL_SEED, RND_SEED = 100, 200, 300
"""Added to the run's: each signal has its own random numbers, whatever the others are."""


def make_reward_providers(
    algorithm: Algorithm,
    spec: BehaviorSpec,
    settings: TrainerSettings,
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
) -> dict[str, RewardProvider]:
    """The reward signals of a behavior, by name, in their order.

    Rewards of the environment may belong to the whole team; intrinsic and imitation rewards to each agent.

    Raises:
        DemonstrationError: one that a signal needs cannot be read, or is of another behavior.
        TrainerError: a plug-in's signal cannot be made.
    """
    signals = settings.reward_signals
    providers: dict[str, RewardProvider] = {
        **make_learned_rewards(spec, signals, device, seed, non_finite, action_range=_action_range(algorithm))
    }
    for name, signal in signals.items():
        if name not in REWARD_SIGNAL_SETTINGS:
            providers[name] = _provider_of_plugin(name, spec, signal, device, seed, non_finite)
    return {name: providers[name] if name in providers else _of_environment(algorithm) for name in signals}


def _provider_of_plugin(
    name: str,
    spec: BehaviorSpec,
    settings: RewardSignalSettings,
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
) -> RewardProvider:
    """The reward signal of a plug-in. Its seed is its own, whatever other signals there are.

    Raises:
        TrainerError: it cannot be imported or made, or is no `RewardProvider` that can be trained here.
    """
    signal = find_reward_signal(name)
    place = signal.provider if signal is not None else ""
    make = imported(f"The provider of the reward signal {name}", place)
    try:
        provider: RewardProvider = make(spec, settings, device, seed + crc32(name.encode()), non_finite)
    except Exception as error:
        message = f"The reward signal {name}, which is {place!r}, failed: {cause(error)}."
        raise TrainerError(message) from error
    if (problem := _unfit(provider, settings)) is not None:
        raise TrainerError(f"The reward signal {name}, which is {place!r}, {problem}.")
    return provider


def _unfit(provider: RewardProvider, settings: RewardSignalSettings) -> str | None:
    """Why a plug-in's provider cannot be trained with; None if it can."""
    if not callable(getattr(provider, "evaluate", None)) or not hasattr(provider, "ignores_done"):
        return "has no evaluate(rollout) and ignores_done, which docs/extending.md describes"
    if not isinstance(provider, LearnedReward):
        return None
    if not isinstance(settings, LearnedRewardSettings):
        return "learns, so its settings must be a class derived from LearnedRewardSettings"
    if distributed.world_size() > 1 and not isinstance(provider, NetworkSignal):
        return "learns by itself, so several learners cannot update it together: train with --learners 1"
    return None


def _of_environment(algorithm: Algorithm) -> RewardProvider:
    traits = algorithm.traits
    if traits.team_reward is not None:
        return TeamReward(traits.team_reward)
    # A team's value counts what every member earns.
    return ExtrinsicReward(with_teammates=traits.needs_teammates)


def _action_range(algorithm: Algorithm) -> float | None:
    """What of its policy's continuous actions is 1 for the engine; None: they are the engine's."""
    head = getattr(algorithm.network, "actions", None)
    return None if getattr(head, "squashed", False) else getattr(head, "action_range", ENGINE_RANGE)


def make_learned_rewards(
    spec: BehaviorSpec,
    signals: Mapping[str, RewardSignalSettings],
    device: torch.device,
    seed: int,
    non_finite: NonFinitePolicy,
    *,
    action_range: float | None,
) -> dict[str, NetworkSignal]:
    """Those of the built-in `signals` that are learned, by name.

    Args:
        spec: of the behavior.
        signals: settings by name.
        device: the learner's.
        seed: the run's.
        non_finite: how to handle gradients that are not finite.
        action_range: what of the policy's continuous actions is 1 for the engine; None: they are the
            engine's.

    Raises:
        DemonstrationError: GAIL's cannot be read, or are of another behavior.
        UnsupportedObservationError: an observation cannot be encoded; the message names it.
        TypeError: a signal's settings have no branch here.
    """
    made: dict[str, NetworkSignal] = {}
    for name, signal in signals.items():
        if name not in REWARD_SIGNAL_SETTINGS:
            continue
        allocation = naming_key_of_allocation(
            f"reward_signals.{name}.network_settings", signal.network_settings
        )
        with allocation, _naming_signal(name):
            if isinstance(signal, CuriositySettings):
                made[name] = Curiosity(spec, signal, device, seed + CURIOSITY_SEED, non_finite)
            elif isinstance(signal, GAILSettings):
                demos = load_demonstrations(signal.demo_path, spec, signal.partial_demos)
                made[name] = (DAC if signal.absorbing_states else GAIL)(
                    spec, signal, demos, device, seed + GAIL_SEED, non_finite, action_range=action_range
                )
            elif isinstance(signal, RNDSettings):
                made[name] = RND(spec, signal, device, seed + RND_SEED, non_finite)
            elif isinstance(signal, LearnedRewardSettings):
                raise TypeError(f"reward_signals.{name}: nothing is built here from {type(signal).__name__}")
    return made


@contextmanager
def _naming_signal(name: str) -> Iterator[None]:
    """Name the signal in what is said about an observation that its networks do not read."""
    try:
        yield
    except UnsupportedObservationError as error:
        raise UnsupportedObservationError(f"reward_signals.{name}: {error}") from error
