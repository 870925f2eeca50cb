"""What a configuration, or the description of a network, names that would be started or imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..utils.plugins import REWARD_SIGNALS, TRAINERS, plugins
from ..utils.trusted_names import Named
from .models.networks import NetworkSettings
from .models.rewards import REWARD_SIGNAL_SETTINGS
from .models.run import EnvironmentSettings
from .options import RunOptions
from .registry import trainer_types


def named_by(options: RunOptions) -> Named:
    """All that a run with these settings starts, and what reading its settings and checkpoints imports."""
    behaviors = [*options.behaviors.values(), options.default_settings]
    networks = [name for one in behaviors if one for name in named_networks(one.network_settings)]
    return Named(named_environment(options.env_settings), (*named_plugins(options.as_dict()), *networks))


def named_environment(settings: EnvironmentSettings) -> tuple[str, ...]:
    """As `Named.environment`."""
    return () if settings.env_path is None else (settings.env_path, *(settings.env_args or ()))


def named_networks(settings: NetworkSettings) -> tuple[str, ...]:
    """The classes of the user's own in a network and its critic's."""
    networks = [settings, *([settings.critic] if settings.critic is not None else [])]
    names = [name for one in networks for name in (one.body, *one.encoders.values()) if name]
    return tuple(dict.fromkeys(names))


def named_plugins(tree: Mapping[str, Any]) -> tuple[str, ...]:
    """The plug-ins that are imported where a configuration is read: `group:NAME` each.

    Args:
        tree: the configuration as it was written, of which nothing was checked.
    """
    listed = tree.get("behaviors")
    sections = [tree.get("default_settings"), *(listed.values() if isinstance(listed, Mapping) else ())]
    behaviors = [one for one in sections if isinstance(one, Mapping)]
    trainers = {str(one.get("trainer_type")) for one in behaviors} - set(trainer_types)
    signals = [one.get("reward_signals") for one in behaviors]
    others = {str(name) for one in signals if isinstance(one, Mapping) for name in one}
    named = {TRAINERS: trainers, REWARD_SIGNALS: others - set(REWARD_SIGNAL_SETTINGS)}
    return tuple(
        f"{group}:{name}" for group, names in named.items() for name in sorted(names & set(plugins(group)))
    )
