"""How ML-Agents reads a configuration's text: values and keys that it treats differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from ..utils.plugins import PluginError
from .base import FALSE, Settings, flag, found
from .errors import Path
from .models.behavior import DEFAULT_TRAINER, SelfPlaySettings, TrainerSettings
from .models.environment_parameters import CompletionCriteriaSettings
from .models.networks import MemorySettings, NetworkSettings
from .models.rewards import REWARD_SIGNAL_SETTINGS, BehavioralCloningSettings
from .models.run import TorchSettings
from .options import RunOptions
from .registry import find_trainer, trainer_types
from .yaml_source import Source

Remark = tuple[Path, str]
Mappings = Iterator[tuple[Path, type[Settings], Mapping[str, Any]]]

MLAGENTS_TRAINERS = ("ppo", "sac", "poca")
PASSED_OVER = (
    NetworkSettings,
    MemorySettings,
    BehavioralCloningSettings,
    SelfPlaySettings,
    CompletionCriteriaSettings,
    TorchSettings,
)
"""The sections in which ML-Agents ignores what it does not know (config.md: strictness; pitfall E1)."""


def mappings(source: Source) -> Mappings:
    """Every mapping of the text whose keys are settings, with their model."""
    yield from _within((), RunOptions, source.data)
    behaviors = source.data.get("behaviors")
    named = behaviors.items() if isinstance(behaviors, dict) else ()
    defaults = source.data.get("default_settings")
    trainer = defaults.get("trainer_type") if isinstance(defaults, dict) else None
    for name, settings in named:
        yield from _behavior(("behaviors", str(name)), settings, trainer or DEFAULT_TRAINER)
    if isinstance(defaults, dict):
        yield from _behavior(("default_settings",), defaults, DEFAULT_TRAINER)
    for path, criteria in _criteria(source.data.get("environment_parameters")):
        yield path, CompletionCriteriaSettings, criteria


def _within(path: Path, model: type[Settings], data: Any) -> Mappings:
    """A mapping and those in it whose model is fixed."""
    if not isinstance(data, dict):
        return
    yield path, model, data
    for key, child in model.children():
        if key not in ("default_settings", "hyperparameters"):
            yield from _within((*path, key), child, data.get(key))


def _behavior(path: Path, data: Any, default_trainer: str) -> Mappings:
    if not isinstance(data, dict):
        return
    yield from _within(path, TrainerSettings, data)
    try:
        kind = find_trainer(str(data.get("trainer_type", default_trainer)))
    except PluginError:  # the checks of the settings report it
        kind = None
    if kind is not None:
        yield from _within((*path, "hyperparameters"), kind.settings, data.get("hyperparameters"))
    signals = data.get("reward_signals")
    for name, signal in signals.items() if isinstance(signals, dict) else ():
        if name in REWARD_SIGNAL_SETTINGS:
            yield from _within((*path, "reward_signals", name), REWARD_SIGNAL_SETTINGS[name], signal)


def _criteria(parameters: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    for name, parameter in parameters.items() if isinstance(parameters, dict) else ():
        lessons = parameter.get("curriculum") if isinstance(parameter, dict) else None
        for number, lesson in enumerate(lessons if isinstance(lessons, list) else ()):
            criteria = lesson.get("completion_criteria") if isinstance(lesson, dict) else None
            if isinstance(criteria, dict):
                path = ("environment_parameters", str(name), "curriculum", number, "completion_criteria")
                yield path, criteria


def _values(source: Source, kind: type) -> Iterator[tuple[Path, Any]]:
    """The path and value of every key that holds a `kind`: bool, int or float."""
    for path, model, data in mappings(source):
        for key, value in data.items():
            if key in model.model_fields and _plain(model.model_fields[key].annotation) is kind:
                yield (*path, str(key)), value


def _plain(annotation: Any) -> type | None:
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        kinds = {kind for part in get_args(annotation) if (kind := _plain(part)) is not None}
        return kinds.pop() if len(kinds) == 1 else None
    return annotation if annotation in (bool, int, float) else None


# Rules ------------------------------------------------------------------------------------------------


def unknown_keys(source: Source) -> Iterator[Remark]:
    """E1: keys that ML-Agents ignores silently, and we refuse."""
    for path, model, data in mappings(source):
        for key in data if issubclass(model, PASSED_OVER) else ():
            if key not in model.model_fields:
                yield (
                    (*path, str(key)),
                    "ML-Agents passes over this key in silence, so that it never had an effect; here it is "
                    "refused, since a misspelled key is a wrong run. Correct or remove it",
                )


def own_keys(source: Source) -> Iterator[Remark]:
    """Keys with which ML-Agents could no longer read the file."""
    for path, model, data in mappings(source):
        for key in data:
            if key in model.model_fields and model.is_own(key):
                silent = issubclass(model, PASSED_OVER)
                yield (
                    (*path, str(key)),
                    f"Lanista's own key: ML-Agents {'passes over it' if silent else 'refuses it'}",
                )


def whole_numbers(source: Source) -> Iterator[Remark]:
    """E2: YAML 1.1 reads 1e4 as text."""
    for path, value in _values(source, int):
        if isinstance(value, str) and path[-1] != "max_steps":
            try:
                int(value)
            except ValueError:
                yield (
                    path,
                    f"{value} is text to YAML, and ML-Agents ends with a ValueError; here it is the "
                    "number. (1.0e4 is a number to both)",
                )


def quoted_flags(source: Source) -> Iterator[Remark]:
    """E3: to ML-Agents any text is true."""
    for path, value in _values(source, bool):
        if not isinstance(value, str) or (value and value.strip().lower() not in FALSE):
            continue
        taken, reading = ("true", "it is false") if value else ("false", "it is refused")
        yield path, f"found the text {found(value)}: ML-Agents reads it as {taken}; here {reading}"


def odd_flags(source: Source) -> Iterator[Remark]:
    """Numbers and texts that are no booleans: ML-Agents reads everything but empty and 0 as true."""
    for path, value in _values(source, bool):
        if value not in (None, "") and not _is_flag(value):
            yield path, f"ML-Agents takes {found(value)} for true; here it is refused"


def _is_flag(value: Any) -> bool:
    try:
        flag(value)
    except ValueError:
        return False
    return True


def long_intervals(source: Source) -> Iterator[Remark]:
    """E16."""
    parameters = source.data.get("environment_parameters")
    for name, parameter in parameters.items() if isinstance(parameters, dict) else ():
        inner = parameter.get("sampler_parameters") if isinstance(parameter, dict) else None
        intervals = inner.get("intervals") if isinstance(inner, dict) else None
        for number, interval in enumerate(intervals if isinstance(intervals, list) else ()):
            if isinstance(interval, list) and len(interval) > 2:
                path = ("environment_parameters", str(name), "sampler_parameters", "intervals", number)
                yield (
                    path,
                    f"ML-Agents takes {interval[:2]} and drops the rest in silence; here it is refused",
                )


def several_trainers(source: Source) -> Iterator[Remark]:
    """E4: default settings of one trainer under a behavior of another."""
    defaults, behaviors = source.data.get("default_settings"), source.data.get("behaviors")
    if not isinstance(defaults, dict) or not isinstance(behaviors, dict):
        return
    trainer = defaults.get("trainer_type", DEFAULT_TRAINER)
    for name, settings in behaviors.items():
        own = settings.get("trainer_type", trainer) if isinstance(settings, dict) else trainer
        known = own in MLAGENTS_TRAINERS and trainer in MLAGENTS_TRAINERS
        if known and own != trainer and (trainer, own) != ("poca", "ppo"):  # ppo has every key of poca
            yield (
                ("behaviors", str(name), "trainer_type"),
                f"ML-Agents refuses {own} below default settings of {trainer}, whose hyperparameters it lays "
                f"under these; here only those are that both trainers have and default_settings names",
            )


def own_trainers(source: Source) -> Iterator[Remark]:
    """Trainers that ML-Agents does not have."""
    for path, model, data in mappings(source):
        trainer = data.get("trainer_type")
        if model is TrainerSettings and trainer in trainer_types and trainer not in MLAGENTS_TRAINERS:
            yield (*path, "trainer_type"), f"ML-Agents has no trainer {trainer}: it refuses the file"


WRITTEN_RULES: list[Callable[[Source], Iterator[Remark]]] = [
    unknown_keys,
    own_keys,
    whole_numbers,
    quoted_flags,
    odd_flags,
    long_intervals,
    several_trainers,
    own_trainers,
]
