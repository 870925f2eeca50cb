"""How `default_settings` get under the settings of each behavior."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..utils.plugins import PluginError
from .models.behavior import TrainerSettings
from .registry import find_trainer
from .yaml_source import under


def _hyperparameters(trainer: Any) -> Collection[str]:
    """The hyperparameters that a trainer has; of none that is refused elsewhere."""
    try:
        kind = find_trainer(trainer)
    except PluginError:
        return ()
    return kind.settings.model_fields if kind else ()


def with_defaults(defaults: TrainerSettings, own: Any) -> Any:
    """What a behavior of the YAML says, laid over the default settings.

    A behavior with another trainer than the defaults' gets only those hyperparameters that the defaults name
    and its own trainer has: a default that nobody wrote would be the wrong algorithm's.
    """
    if not isinstance(own, dict):
        return own
    base = defaults.as_dict()
    trainer = own.get("trainer_type", defaults.trainer_type)
    if trainer != defaults.trainer_type:
        known = _hyperparameters(trainer)
        named = defaults.hyperparameters.model_fields_set
        base["hyperparameters"] = {
            key: value for key, value in base["hyperparameters"].items() if key in named and key in known
        }
    return under(base, own)
