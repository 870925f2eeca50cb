"""`lanista upgrade`: converts an old configuration of ML-Agents to the current form."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..settings.base import Settings
from ..settings.errors import TrainerConfigError
from ..settings.models.behavior import SelfPlaySettings, TrainerSettings
from ..settings.models.environment_parameters import SAMPLERS
from ..settings.models.networks import MemorySettings, NetworkSettings
from ..settings.models.rewards import BehavioralCloningSettings
from ..settings.options import RunOptions
from ..settings.registry import trainer_types
from ..settings.yaml_source import read_file, read_text
from ..utils.atomic_files import atomic_write_text
from ..utils.errors import CommandError
from ..utils.logging import plain

MEMORY_KEYS = ("use_recurrent", "sequence_length", "memory_size")
SECTIONS: dict[str, type[Settings]] = {
    "self_play": SelfPlaySettings,
    "behavioral_cloning": BehavioralCloningSettings,
}
RENAMED = {"play_against_current_self_ratio": "play_against_latest_model_ratio"}
SAMPLER_NAMES = {"multirange_uniform": "multirangeuniform"}
"""Samplers that had other names."""


class UpgradeError(Exception):
    """An old configuration that cannot be read; the message says where and what was expected."""


@dataclass
class Upgraded:
    """A configuration in the current form."""

    data: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    """What was left out or changed in meaning, one sentence each."""


def is_present(data: Mapping[str, Any]) -> bool:
    """Whether a configuration already has the current form."""
    return "behaviors" in data and not {"curriculum", "parameter_randomization"} & data.keys()


def upgrade(
    data: Mapping[str, Any],
    curriculum: Mapping[str, Any] | None = None,
    samplers: Mapping[str, Any] | None = None,
) -> Upgraded:
    """Convert an old configuration.

    Args:
        data: of the trainer.
        curriculum: behavior -> measure, thresholds and the parameters' values; up to 0.16 a file of its own.
        samplers: parameter -> sampler; up to 0.16 a file of its own.

    Raises:
        UpgradeError: something does not have the form that those versions used.
    """
    result = Upgraded({})
    if "behaviors" in data:
        rest = {
            key: value for key, value in data.items() if key not in ("curriculum", "parameter_randomization")
        }
        result.data.update(rest)
        curriculum = curriculum if curriculum is not None else data.get("curriculum")
        samplers = samplers if samplers is not None else data.get("parameter_randomization")
    else:
        result.data["behaviors"] = _behaviors(data, result.notes)
    parameters = dict(_samplers(_mapping(samplers, "the samplers"), result.notes))
    for name, lessons in _curricula(_mapping(curriculum, "the curriculum")):
        if name in parameters:
            result.notes.append(f"{name} has a sampler and lessons; as in ML-Agents, the sampler stays.")
        else:
            parameters[name] = {"curriculum": lessons}
    if parameters:
        result.data["environment_parameters"] = {
            **result.data.get("environment_parameters", {}),
            **parameters,
        }
    return result


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UpgradeError(f"{what}: found {value!r}, expected a mapping")
    return value


# Behaviors up to 0.16 --------------------------------------------------------------------------------


def _behaviors(data: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    default = _mapping(data.get("default"), "default")
    return {
        str(name): _behavior(str(name), default, _mapping(settings, str(name)), notes)
        for name, settings in data.items()
        if name != "default"
    }


def _behavior(
    name: str, default: Mapping[str, Any], own: Mapping[str, Any], notes: list[str]
) -> dict[str, Any]:
    """One behavior's flat mapping over the default's, every key where it belongs now."""
    flat = {**default, **own}
    trainer = flat.pop("trainer", None)
    if trainer is None:
        raise UpgradeError(f"{name}: it doesn't specify a trainer: add `trainer: ppo` to it or to default")
    kind = trainer_types.get(trainer)
    if kind is None:
        raise UpgradeError(f"{name}: trainer: found {trainer!r}; known today: {', '.join(trainer_types)}")
    memory = _memory(flat)
    for key, model in SECTIONS.items():
        if isinstance(flat.get(key), Mapping):
            flat[key] = _section(f"{name}.{key}", flat[key], model, notes)
    sections: dict[str, dict[str, Any]] = {"hyperparameters": {}, "network_settings": {}, "": {}}
    homes = {
        "hyperparameters": kind.settings.model_fields,
        "network_settings": NetworkSettings.model_fields,
        "": TrainerSettings.model_fields,
    }
    for key, value in flat.items():
        home = next((section for section, known in homes.items() if key in known), None)
        if home is not None:
            sections[home][key] = value
        elif key in own or not _of_some_trainer(key):  # default is for all trainers
            notes.append(f"{name}.{key} means nothing to {trainer} today and is left out.")
    if memory is not None:
        sections["network_settings"]["memory"] = memory
    given = {key: sections[key] for key in ("hyperparameters", "network_settings") if sections[key]}
    return {"trainer_type": trainer, **given, **sections[""]}


def _of_some_trainer(key: str) -> bool:
    return any(key in kind.settings.model_fields for kind in trainer_types.values())


def _section(where: str, old: Mapping[str, Any], model: type[Settings], notes: list[str]) -> dict[str, Any]:
    """A section with its current keys; ML-Agents ignores the others silently."""
    renamed = {RENAMED.get(key, key): value for key, value in old.items()}
    notes += [
        f"{where}.{key} means nothing today and is left out."
        for key in renamed
        if key not in model.model_fields
    ]
    return {key: value for key, value in renamed.items() if key in model.model_fields}


def _memory(flat: dict[str, Any]) -> dict[str, Any] | None:
    """The section of the recurrent memory; removes its keys from `flat`."""
    found = {key: flat.pop(key) for key in MEMORY_KEYS if key in flat}
    if not found.pop("use_recurrent", False):
        return None
    return {key: value for key, value in found.items() if key in MemorySettings.model_fields}


# Environment parameters -------------------------------------------------------------------------------


def _samplers(samplers: Mapping[str, Any], notes: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, settings in samplers.items():
        if name == "resampling-interval":
            notes.append("resampling-interval means nothing today: a parameter is sampled in each episode.")
            continue
        flat = dict(_mapping(settings, str(name)))
        kind = flat.pop("sampler-type", flat.pop("sampler_type", None))
        kind = SAMPLER_NAMES.get(str(kind), kind)
        if kind not in SAMPLERS:
            raise UpgradeError(f"{name}: sampler-type: found {kind!r}, expected one of {', '.join(SAMPLERS)}")
        inner = _mapping(flat.pop("sampler_parameters", None), f"{name}.sampler_parameters")
        yield str(name), {"sampler_type": kind, "sampler_parameters": {**inner, **flat}}


def _curricula(curriculum: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each parameter and its lessons."""
    for behavior, settings in curriculum.items():
        section = _mapping(settings, str(behavior))
        missing = [key for key in ("measure", "thresholds", "parameters") if key not in section]
        if missing:
            raise UpgradeError(f"the curriculum of {behavior} lacks {', '.join(missing)}")
        for name, values in _mapping(section["parameters"], f"{behavior}.parameters").items():
            yield str(name), list(_lessons(str(behavior), section, str(name), values))


def _lessons(behavior: str, section: Mapping[str, Any], name: str, values: Any) -> Iterator[dict[str, Any]]:
    thresholds = section["thresholds"]
    if not isinstance(thresholds, list) or not isinstance(values, list) or len(values) != len(thresholds) + 1:
        raise UpgradeError(
            f"the curriculum of {behavior}: {name} has the values {values!r} and the thresholds "
            f"{thresholds!r}; expected lists, with one value more than thresholds"
        )
    for number, value in enumerate(values):
        lesson: dict[str, Any] = {"name": f"Lesson{number}", "value": value}
        if number < len(thresholds):
            lesson["completion_criteria"] = {
                "measure": section["measure"],
                "behavior": behavior,
                "signal_smoothing": section.get("signal_smoothing", False),
                "min_lesson_length": section.get("min_lesson_length", 1),
                "threshold": thresholds[number],
            }
        yield lesson


class _Plain(yaml.SafeDumper):
    """Repeats what several behaviors share from `default`, so that editing one does not change the others."""

    def ignore_aliases(self, data: object) -> bool:
        """No anchors."""
        return True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("old", metavar="OLD", help="a trainer configuration of ML-Agents 0.18 or earlier")
    parser.add_argument("new", metavar="NEW.yaml", type=Path, help="the file to write")
    parser.add_argument("--curriculum", metavar="FILE", help="curriculum of ML-Agents 0.16 or earlier")
    parser.add_argument("--sampler", metavar="FILE", help="samplers of ML-Agents 0.16 or earlier")
    parser.add_argument("--force", action="store_true", help="overwrite NEW.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Convert, check, write."""
    try:
        old, curriculum, samplers = (
            _read(file) for file in (arguments.old, arguments.curriculum, arguments.sampler)
        )
        assert old is not None
        if is_present(old) and curriculum is None and samplers is None:
            text, notes = Path(arguments.old).read_text(encoding="utf-8"), []
            notes.append("it has today's form already: NEW is a copy.")
        else:
            upgraded = upgrade(old, curriculum, samplers)
            text, notes = yaml.dump(upgraded.data, Dumper=_Plain, sort_keys=False), upgraded.notes
        RunOptions.from_source(read_text(text, str(arguments.new)))
    except UpgradeError as error:
        raise CommandError(f"{arguments.old} was not upgraded: {error}.") from error
    except TrainerConfigError as error:
        raise CommandError(f"{arguments.old} was not upgraded. {error}") from error
    try:
        atomic_write_text(arguments.new, text, replace=arguments.force)
    except FileExistsError as error:
        raise CommandError(
            f"{arguments.new} exists: give another name, or --force to write over it."
        ) from error
    except OSError as error:
        raise CommandError(f"{arguments.new} could not be written: {error.strerror or error}.") from error
    for note in notes:
        print(plain(f"{arguments.old}: {note}"), file=sys.stderr)
    print(f"Wrote {arguments.new}. `lanista check --explain {arguments.new}` says what it means here.")
    return 0


def _read(file: str | None) -> dict[str, Any] | None:
    return None if file is None else read_file(file).data
