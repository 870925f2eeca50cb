"""Validation errors as messages that name the place, what was found and what is allowed.

Also where an unknown key belongs, and configurations of ML-Agents' first versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..utils.errors import nearest
from .base import UNKNOWN_KEY, Settings, found
from .errors import Path, Problem, TrainerConfigError, dotted
from .models.behavior import DEFAULT_TRAINER, TrainerSettings
from .models.environment_parameters import SAMPLER_KEYS, EnvironmentParameterSettings
from .models.hyperparameters import HyperparamSettings
from .models.rewards import REWARD_SIGNAL_SETTINGS
from .registry import trainer_types, usable_trainer
from .yaml_source import Source

BEHAVIOR = "NAME"
"""Stands for a behavior's name where none is listed, or several are."""
NEAR = 0.8
"""How alike a key and one of another section are to be confused."""


def place_of(root: type[Settings], data: dict[str, Any], path: Path, value: Any) -> str:
    """Where the unknown key at `path` belongs, as a sentence after a space; empty where nothing is near.

    Args:
        root: the model of the whole configuration.
        data: the whole configuration.
        path: of the key.
        value: what stands there.
    """
    key = str(path[-1])
    defaults = nearest(key, ["default_settings"]) is not None
    if len(path) == 1 and not defaults and (section := _section_of(value)):
        what = "settings of a behavior" if section == "behaviors" else "an environment parameter"
        return f" It holds {what}: put it under `{section}:`, as {dotted((section, key))}."
    sections = list(_sections(root, data, path))
    having = [where for where, known in sections if key in known and where != path[:-1]]
    if having:
        return _belongs(min(having, key=lambda where: _distance(where, path)), path)
    own = next((known for where, known in sections if where == path[:-1]), [])
    if nearest(key, own) is None:
        places = {name: where for where, known in reversed(sections) for name in known}
        meant = nearest(key, places, NEAR)
        if meant is not None:
            return f" Did you mean `{dotted((*places[meant], meant))}`?"
    return ""


def _section_of(value: Any) -> str:
    """Which section's entry a mapping at the top level is."""
    keys = value.keys() if isinstance(value, dict) else set()
    if TrainerSettings.model_fields.keys() & keys:
        return "behaviors"
    parameter = EnvironmentParameterSettings.model_fields.keys() | SAMPLER_KEYS
    return "environment_parameters" if parameter & keys else ""


def _belongs(home: Path, path: Path) -> str:
    """That a key at `path` belongs into the section `home`."""
    if home[:-1] == path[:-1]:
        return f" It belongs under `{home[-1]}`."
    where = f" It belongs to {dotted((*home, path[-1]))}"
    if home[:2] != ("behaviors", BEHAVIOR):
        return f"{where}."
    everywhere = dotted(("default_settings", *home[2:], path[-1]))
    return f"{where}, with the behavior's name in place of {BEHAVIOR}, or for all behaviors to {everywhere}."


def _distance(home: Path, path: Path) -> int:
    """How many sections lie between two places."""
    shared = 0
    for one, other in zip(home, path[:-1], strict=False):
        if one != other:
            break
        shared += 1
    return len(home) + len(path) - 1 - 2 * shared


def _sections(root: type[Settings], data: dict[str, Any], path: Path) -> Iterator[tuple[Path, list[str]]]:
    """The sections where the key at `path` may belong, and their keys; of the behaviors one."""
    behaviors = data.get("behaviors")
    named = behaviors if isinstance(behaviors, dict) else {}
    if path[0] == "default_settings":
        yield from _of_behavior(("default_settings",), data["default_settings"], data)
    else:
        own = path[1] if path[0] == "behaviors" and len(path) > 2 else None
        name = own or (next(iter(named)) if len(named) == 1 else BEHAVIOR)
        yield from _of_behavior(("behaviors", name), named.get(name), data)
    yield (), root.written()
    for name, model in root.children():
        if model is not TrainerSettings:
            yield (name,), model.written()


def _of_behavior(place: Path, written: Any, data: dict[str, Any]) -> Iterator[tuple[Path, list[str]]]:
    yield place, TrainerSettings.written()
    for name, model in TrainerSettings.children():
        known = _hyperparameters(written, data) if model is HyperparamSettings else model
        yield (*place, name), known.written()
        yield from (((*place, name, inner), below.written()) for inner, below in known.children())
    for name, signal in REWARD_SIGNAL_SETTINGS.items():
        yield (*place, "reward_signals", name), signal.written()


def _hyperparameters(written: Any, data: dict[str, Any]) -> type[HyperparamSettings]:
    """The hyperparameters of a behavior's trainer."""
    above = (settings for settings in (written, data.get("default_settings")) if isinstance(settings, dict))
    names = (settings["trainer_type"] for settings in above if "trainer_type" in settings)
    kind = usable_trainer(next(names, DEFAULT_TRAINER))
    return kind.settings if kind else HyperparamSettings


def refuse_first_versions(source: Source) -> None:
    """Refuse a configuration in a form that ML-Agents had up to its release 0.18, and say how to convert it.

    Raises:
        TrainerConfigError: it is one.
    """
    for key in source.data:
        what, options = _first_versions(source.data, key)
        if what:
            place = source.place((key,))
            file = place.rpartition(", line ")[0] or "OLD.yaml"
            file = f'"{file}"' if " " in file else file
            command = f"lanista upgrade {options.format(file=file)} NEW.yaml"
            why = f"this is {what} of ML-Agents 0.18 or earlier. `{command}` writes it in today's form"
            raise TrainerConfigError([Problem((key,), why, place)])


def _first_versions(data: dict[str, Any], key: str) -> tuple[str, str]:
    """What the top-level entry `key` shows the file to be, and the arguments of its conversion, if others."""
    value = data[key] if isinstance(data[key], dict) else {}
    if "behaviors" in data:
        return ("a configuration" if key in ("curriculum", "parameter_randomization") else ""), "{file}"
    if key == "resampling-interval" or {"sampler-type", "sampler_type"} & value.keys():
        is_old = "resampling-interval" in data or "sampler-type" in value
        return ("a file of samplers" if is_old else ""), "TRAINER.yaml --sampler {file}"
    if {"thresholds", "parameters"} <= value.keys():
        return "a file of lessons", "TRAINER.yaml --curriculum {file}"
    return ("a configuration" if "trainer" in value else ""), "{file}"


# Errors that only follow from another one.
CONSEQUENCES = frozenset({"default_factory_not_called"})


Hint = Callable[[Path, Any], str]
"""What is said of an unknown key at a path, with a value, instead of the nearest key there; may be empty."""


def config_error(
    error: ValidationError, source: Source, hint: Hint = lambda path, value: ""
) -> TrainerConfigError:
    """Everything that `error` found wrong with `source`."""
    problems: list[Problem] = []
    listed: set[str] = set()
    for details in error.errors(include_url=False):
        if details["type"] in CONSEQUENCES:
            continue
        path = tuple(part for part in details["loc"] if part != "[key]")
        unknown = details["type"] == UNKNOWN_KEY
        sentence = _unknown_key(path, details, listed, hint) if unknown else _sentence(details)
        problem = Problem(path, sentence, source.place(path))
        if problem not in problems:
            problems.append(problem)
    return TrainerConfigError(problems)


def _unknown_key(path: Path, details: ErrorDetails, listed: set[str], hint: Hint) -> str:
    """What is wrong with a key; those that its section knows are named at its first unknown key."""
    parts = details["ctx"]
    known = "" if parts["known"] in listed else parts["known"]
    listed.add(parts["known"])
    meant = _owners(path) or hint(path, details["input"]) or parts["hint"]
    return f"{parts['message']}{meant}{known}"


def _owners(path: Path) -> str:
    """Which trainers have a hyperparameter that is unknown here."""
    if path[-2:-1] != ("hyperparameters",):
        return ""
    owners = [name for name, trainer in trainer_types.items() if path[-1] in trainer.settings.model_fields]
    return f" It is a hyperparameter of {', '.join(owners)}: see trainer_type." if owners else ""


def places_of(source: Source, key: str, value: Any) -> list[str]:
    """Where `key` has this value: `ball.yaml, line 4: behaviors.Ball.max_steps`."""
    found_at = list(_paths_of(source.data, key, value, ()))
    return [": ".join(part for part in (source.place(path), dotted(path)) if part) for path in found_at]


def _paths_of(tree: Any, key: str, value: Any, path: Path) -> Iterator[Path]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, item in items:
        if name == key and type(item) is type(value) and item == value:
            yield (*path, name)
        yield from _paths_of(item, key, value, (*path, name))


def _sentence(details: ErrorDetails) -> str:
    explain = _SENTENCES.get(details["type"])
    if explain is not None:
        return explain(details, details.get("ctx") or {})
    if "message" in (details.get("ctx") or {}):
        return details["msg"]
    return f"found {found(details['input'])}: {details['msg'][:1].lower()}{details['msg'][1:]}"


def _choice(details: ErrorDetails, context: dict[str, Any]) -> str:
    allowed = re.findall(r"'([^']*)'", context["expected"])
    close = nearest(str(details["input"]), allowed)
    hint = f". Did you mean {close}?" if close else ""
    return f"found {found(details['input'])}, expected one of {', '.join(allowed)}{hint}"


def _missing(details: ErrorDetails, context: dict[str, Any]) -> str:
    return f"`{details['loc'][-1]}` is required here and not given"


def _bound(words: str, key: str) -> Callable[[ErrorDetails, dict[str, Any]], str]:
    return lambda details, context: f"found {found(details['input'])}, expected {words} {context[key]}"


def _expected(words: str) -> Callable[[ErrorDetails, dict[str, Any]], str]:
    return lambda details, context: f"found {found(details['input'])}, expected {words}"


_SENTENCES: dict[str, Callable[[ErrorDetails, dict[str, Any]], str]] = {
    "enum": _choice,
    "literal_error": _choice,
    "missing": _missing,
    "greater_than": _bound("a number above", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("a number below", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "dict_type": _expected("a mapping"),
    "list_type": _expected("a list"),
    "string_too_short": _expected("some text"),
    "too_short": _expected("at least one entry"),
}
