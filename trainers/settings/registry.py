"""The available trainers and reward signals, by the names that `trainer_type` and `reward_signals` take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

from ..utils.plugins import (
    MLAGENTS_TRAINERS,
    REWARD_SIGNALS,
    TRAINERS,
    PluginError,
    cause,
    described,
    load,
    plugins,
)
from .models.algorithms import (
    COMASettings,
    DDPGSettings,
    DQNSettings,
    MAPPOSettings,
    POCASettings,
    PPOSettings,
    SACSettings,
    TD3Settings,
)
from .models.hyperparameters import HyperparamSettings
from .models.rewards import REWARD_SIGNAL_SETTINGS, RewardSignalSettings


@dataclass(frozen=True)
class TrainerType:
    """One kind of trainer, as the settings know it."""

    settings: type[HyperparamSettings]
    """The model of its hyperparameters."""
    recurrent: bool = False
    """Whether it trains policies with a memory."""
    algorithm: str = ""
    """`package.module:name` of what makes the algorithm of a behavior, imported when a run needs it: reading
    settings must not load torch. Empty for the built-in trainers."""
    own_critic: bool = False
    """Whether its critic may have a network that differs from the policy's."""
    critic_prepares: bool = False
    """Whether such a critic normalizes observations, and cuts sequences, for itself."""
    critic_only: bool = False
    """Whether its critic reads what `network_settings.critic_only_observations` keeps from the policy."""
    learners: bool = False
    """Whether several ranks can update together: its optimizers are `CheckedAdam`s, its epochs `in_step`."""


trainer_types: dict[str, TrainerType] = {
    "ppo": TrainerType(PPOSettings, recurrent=True, own_critic=True, critic_only=True, learners=True),
    "sac": TrainerType(SACSettings, recurrent=True, own_critic=True, critic_only=True, learners=True),
    "poca": TrainerType(POCASettings, recurrent=True, own_critic=True, critic_only=True, learners=True),
    "mappo": TrainerType(MAPPOSettings, recurrent=True, own_critic=True, critic_only=True, learners=True),
    "coma": TrainerType(
        COMASettings, recurrent=True, own_critic=True, critic_prepares=True, critic_only=True, learners=True
    ),
    "dqn": TrainerType(DQNSettings, recurrent=True, learners=True),
    "ddpg": TrainerType(DDPGSettings, own_critic=True, critic_only=True, learners=True),
    "td3": TrainerType(TD3Settings, own_critic=True, critic_only=True, learners=True),
}
"""The built-in trainers. A new entry makes its name a `trainer_type`; so does a plug-in."""
OF_MLAGENTS = frozenset({"ppo", "sac", "poca"})
"""Those that ML-Agents has too: with keys that a YAML does not name they learn as there."""


def find_trainer(name: Any) -> TrainerType | None:
    """The trainer of this name, possibly a plug-in's; None if there is none.

    Raises:
        PluginError: It is a plug-in's, and cannot be used.
    """
    known = trainer_types.get(name) if isinstance(name, str) else None
    return _of_plugin(name) if known is None and isinstance(name, str) else known


def usable_trainer(name: Any) -> TrainerType | None:
    """As `find_trainer`; None too where it cannot be used, which is said once, at `trainer_type`."""
    try:
        return find_trainer(name)
    except PluginError:
        return None


def known_trainers() -> list[str]:
    """Every name that `trainer_type` takes here."""
    return list(dict.fromkeys([*trainer_types, *plugins(TRAINERS)]))


@cache
def _of_plugin(name: str) -> TrainerType | None:
    entry = plugins(TRAINERS).get(name)
    if entry is None:
        _refuse_foreign(name)
        return None
    return _given_by(entry, TrainerType, "algorithm", HyperparamSettings, "such as PPOSettings")


def _refuse_foreign(name: str) -> None:
    entry = plugins(MLAGENTS_TRAINERS).get(name)
    if entry is not None:
        raise PluginError(
            f"the plug-in {described(entry)} extends ML-Agents' own trainer classes (entry point "
            f"{MLAGENTS_TRAINERS}), which only ML-Agents can run. What a trainer for Lanista looks like is "
            f"in docs/extending.md; its entry point is {TRAINERS}."
        )


@dataclass(frozen=True)
class RewardSignal:
    """One kind of reward signal, as the settings know it."""

    settings: type[RewardSignalSettings]
    """The model of its settings."""
    provider: str = ""
    """`package.module:name` of what makes its `RewardProvider`, imported when a run needs it. Empty for the
    built-in signals."""


def find_reward_signal(name: Any) -> RewardSignal | None:
    """The reward signal of this name, possibly a plug-in's; None if there is none.

    Raises:
        PluginError: It is a plug-in's, and cannot be used.
    """
    if name in REWARD_SIGNAL_SETTINGS:
        return RewardSignal(REWARD_SIGNAL_SETTINGS[name])
    return _signal_of_plugin(name) if isinstance(name, str) else None


def known_reward_signals() -> list[str]:
    """Every name that `reward_signals` takes here."""
    return list(dict.fromkeys([*REWARD_SIGNAL_SETTINGS, *plugins(REWARD_SIGNALS)]))


@cache
def _signal_of_plugin(name: str) -> RewardSignal | None:
    entry = plugins(REWARD_SIGNALS).get(name)
    if entry is None:
        return None
    return _given_by(entry, RewardSignal, "provider", RewardSignalSettings, "or that class itself")


_Kind = TypeVar("_Kind", TrainerType, RewardSignal)


def _given_by(entry: EntryPoint, kind: type[_Kind], part: str, base: type, such_as: str) -> _Kind:
    """What a plug-in gives, or its function returns: a `kind` whose `part` names what makes it.

    Raises:
        PluginError: It cannot be loaded, or gives something else.
    """
    given: Any = load(entry)
    if not isinstance(given, kind) and callable(given):
        try:
            given = given()
        except (Exception, SystemExit) as error:
            raise PluginError(f"the plug-in {described(entry)} failed: {cause(error)}") from error
    if not isinstance(given, kind) or not getattr(given, part):
        raise PluginError(
            f"the plug-in {described(entry)} gave {given!r}, expected a "
            f"lanista.trainers.settings.{kind.__name__} that names its {part}"
        )
    if not (isinstance(given.settings, type) and issubclass(given.settings, base)):
        raise PluginError(
            f"the plug-in {described(entry)} gave a {kind.__name__} with the settings {given.settings!r}, "
            f"expected a class derived from lanista.trainers.settings.{base.__name__}, {such_as}"
        )
    return given
