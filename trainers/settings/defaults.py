"""What a behavior has without writing it: from default settings, or because it follows from other keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationInfo

from .base import Settings, plain
from .errors import Path, note
from .models.behavior import TrainerSettings
from .models.networks import NetworkSettings
from .registry import OF_MLAGENTS, usable_trainer
from .yaml_source import under

IN_MLAGENTS: tuple[Path, ...] = (
    ("hyperparameters", "beta_schedule"),
    ("hyperparameters", "epsilon_schedule"),
    ("hyperparameters", "reward_signal_steps_per_update"),
    ("self_play", "team_change"),
    ("checkpoint_interval",),
)
"""Keys of a behavior that follow from others unless they are written, in ML-Agents too."""
FOLLOWING = (*IN_MLAGENTS, ("hyperparameters", "init_entcoef"))


def _following(settings: TrainerSettings, paths: Sequence[Path]) -> Iterator[tuple[Path, Settings]]:
    """Each of these keys that was not written, and the section that holds it."""
    for path in paths:
        section = settings if len(path) == 1 else getattr(settings, str(path[0]))
        known = type(section).model_fields if isinstance(section, Settings) else {}
        if path[-1] in known and path[-1] not in section.model_fields_set:
            yield path, section


def without_following(settings: TrainerSettings, tree: dict[str, Any]) -> dict[str, Any]:
    """The plain values `tree` of the settings without keys that were not written and follow from others."""
    for path, _ in _following(settings, FOLLOWING):
        section = tree if len(path) == 1 else tree[str(path[0])]
        section.pop(str(path[-1]), None)
    if "self_play" not in settings.model_fields_set and settings.self_play is None:
        tree.pop("self_play", None)  # null means something only where it is written
    return tree


def network_as_written(network: NetworkSettings) -> dict[str, Any]:
    """Plain values of the keys that were written, or set since in Python; recipes and critics add others."""
    changed = {key: plain(value) for key, value in network if isinstance(value, (dict, list)) and value}
    return {**changed, **network.as_written()}


def with_defaults(defaults: TrainerSettings, own: Any) -> Any:
    """A behavior's mapping of the YAML, laid over the default settings.

    Whether a key was written matters in a network, of which recipes and critics complete the rest, to the
    hyperparameters of Lanista's own trainers, which depend on one another, and to keys that follow from
    others. The rest is as ML-Agents has it: with all defaults.
    A behavior with another trainer than the defaults' gets only those hyperparameters that the defaults name
    and its own trainer has: a default that was not written would be the wrong algorithm's.
    """
    if not isinstance(own, dict):
        return own
    base = without_following(defaults, defaults.as_dict())
    base["network_settings"] = defaults.network_settings.as_written()
    if defaults.trainer_type not in OF_MLAGENTS:
        base["hyperparameters"] = defaults.hyperparameters.as_written()
    trainer = own.get("trainer_type", defaults.trainer_type)
    if trainer != defaults.trainer_type:
        kind = usable_trainer(trainer)
        known = kind.settings.model_fields if kind else {}
        named = defaults.hyperparameters.model_fields_set
        base["hyperparameters"] = {
            key: value for key, value in base["hyperparameters"].items() if key in named and key in known
        }
    return under(base, own)


def follow_as_mlagents(
    defaults: TrainerSettings, name: str, settings: TrainerSettings, info: ValidationInfo
) -> None:
    """Give a behavior the values that ML-Agents would, with a note, where other keys give others.

    ML-Agents completes `default_settings` before a behavior overrides them: what followed from other keys
    there stays as if it had been written. Files that it does not read, and trainings without an end, which it
    does not make, are completed by what they say.
    """
    if settings.trainer_type != defaults.trainer_type or settings.trainer_type not in OF_MLAGENTS:
        return
    if settings.endless:
        return
    for path, section in _following(settings, IN_MLAGENTS):
        key = str(path[-1])
        of_defaults = defaults if len(path) == 1 else getattr(defaults, str(path[0]))
        if of_defaults is None or (key == "checkpoint_interval" and settings.even_checkpoints):
            continue
        follows, taken = getattr(section, key), getattr(of_defaults, key)
        if follows != taken:
            section.complete(key, taken)
            note(
                info,
                f"not written, so {plain(taken)} as in default_settings, which are complete before {name} "
                f"overrides them, as in ML-Agents; by what {name} writes it would be {plain(follows)}. Write "
                "this key to choose.",
                path=("behaviors", name, *path),
            )


def write_left_out(defaults: Mapping[str, Any], settings: Any, written: dict[str, Any]) -> None:
    """Add to the plain values of `settings` the keys of the defaults that they leave out.

    Lanista's own keys are left out where they are as in ML-Agents, which is not what the defaults say.
    """
    for key, default in defaults.items():
        value = settings.get(key) if isinstance(settings, Mapping) else getattr(settings, key, None)
        if key not in written and key in getattr(type(settings), "model_fields", ()):
            written[key] = plain(value)
        elif isinstance(default, Mapping) and isinstance(written.get(key), dict):
            write_left_out(default, value, written[key])
