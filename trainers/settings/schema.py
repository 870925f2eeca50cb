"""What the keys of settings mean, and the JSON schema with which editors complete and check a YAML file."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from .base import Settings, plain, value_type
from .models.behavior import DEFAULT_TRAINER, TrainerSettings
from .models.environment_parameters import (
    SAMPLERS,
    EnvironmentParameterSettings,
    Lesson,
    MultiRangeUniformSettings,
    SamplerForm,
)
from .models.networks import MOST_LAYERS, MOST_UNITS, MemorySettings, NetworkSettings
from .models.outputs import BUILT_IN, READY
from .models.rewards import REWARD_SIGNAL_SETTINGS
from .models.run import DEVICE, EnvironmentSettings, TorchSettings
from .options import RunOptions
from .registry import trainer_types


def key_description(model: type[Settings], key: str) -> str:
    """The docstring below a key of a model, or its field's description, on one line; empty if there is none.

    pydantic could read the docstrings itself, but does so while the classes are made: at every start.
    """
    text = model.model_fields[key].description
    for owner in model.__mro__ if text is None else ():
        text = _documented_keys(owner.__module__).get(owner.__qualname__, {}).get(key)
        if text is not None:
            break
    return " ".join((text or "").split())


@cache
def _documented_keys(module: str) -> dict[str, dict[str, str]]:
    """The docstrings below annotated names, by the qualified name of the class; none without a source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return {}
    found: dict[str, dict[str, str]] = {}
    _read_classes(tree, "", found)
    return found


def _read_classes(
    tree: ast.Module | ast.ClassDef | ast.FunctionDef, prefix: str, found: dict[str, dict[str, str]]
) -> None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            _read_classes(node, f"{prefix}{node.name}.<locals>.", found)
        if not isinstance(node, ast.ClassDef):
            continue
        keys = found.setdefault(prefix + node.name, {})
        for line, below in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                keys[line.target.id] = below.value.value
        _read_classes(node, f"{prefix}{node.name}.", found)


Schema = dict[str, Any]

_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
}
_PARAMETER: Schema = {
    "anyOf": [
        {"type": "number"},
        {"$ref": "#/$defs/SamplerForm"},
        {"$ref": "#/$defs/EnvironmentParameterSettings"},
    ]
}
_SAMPLER: Schema = {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/SamplerForm"}]}


def _or_of_plugins(names: Iterable[str]) -> Schema:
    """These names, which editors suggest, or one of a plug-in."""
    return {"anyOf": [{"enum": list(names)}, {"type": "string"}]}


# The keys whose content depends on more than their declared type.
_SPECIAL: dict[tuple[type[Settings], str], Schema] = {
    (RunOptions, "behaviors"): {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/TrainerSettings"},
    },
    (RunOptions, "stats_writers"): {
        "type": ["array", "string", "null"],
        "items": _or_of_plugins(BUILT_IN),
    },
    (RunOptions, "callbacks"): {
        "type": ["array", "string"],
        "items": {"anyOf": [*_or_of_plugins(READY)["anyOf"], {"type": "object", "maxProperties": 1}]},
    },
    (RunOptions, "environment_parameters"): {"type": ["object", "null"], "additionalProperties": _PARAMETER},
    (TrainerSettings, "trainer_type"): {**_or_of_plugins(trainer_types), "default": DEFAULT_TRAINER},
    (TrainerSettings, "reward_signals"): {
        "type": "object",
        "properties": {
            name: {"$ref": f"#/$defs/{model.__name__}"} for name, model in REWARD_SIGNAL_SETTINGS.items()
        },
        "additionalProperties": {"type": ["object", "null"]},
    },
    (TrainerSettings, "hyperparameters"): {"type": "object"},
    (EnvironmentParameterSettings, "curriculum"): {"type": "array", "items": {"$ref": "#/$defs/Lesson"}},
    (Lesson, "value"): _SAMPLER,
    (SamplerForm, "sampler_type"): {"enum": list(SAMPLERS)},
    (SamplerForm, "sampler_parameters"): {"type": "object"},
    (MultiRangeUniformSettings, "intervals"): {
        "type": "array",
        "minItems": 1,
        "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    },
}

_WIDTH = {"minimum": 1, "maximum": MOST_UNITS}

# What validators require of single keys beyond their types and bounds.
_NARROWER: dict[tuple[type[Settings], str], Schema] = {
    (EnvironmentSettings, "num_areas"): {"minimum": 1},
    (EnvironmentSettings, "env_args"): {"type": ["array", "string", "null"]},
    (NetworkSettings, "hidden_units"): {
        **_WIDTH,
        "items": {"type": "integer", **_WIDTH},
        "minItems": 1,
        "maxItems": MOST_LAYERS,
    },
    (MemorySettings, "memory_size"): {"minimum": 2, "multipleOf": 2},
    (TorchSettings, "device"): {"pattern": f"^({DEVICE})$"},
}


def json_schema() -> Schema:
    """The schema of a configuration file (JSON schema, draft 2020-12)."""
    definitions: dict[str, Schema] = {}
    root = _object(RunOptions, definitions)
    hyperparameters = {name: kind.settings for name, kind in trainer_types.items()}
    reached_by_special_keys: list[type[Settings]] = [EnvironmentParameterSettings, Lesson, SamplerForm]
    reached_by_special_keys += [
        *REWARD_SIGNAL_SETTINGS.values(),
        *hyperparameters.values(),
        *SAMPLERS.values(),
    ]
    for model in reached_by_special_keys:
        _define(model, definitions)
    definitions["TrainerSettings"]["allOf"] = [
        _when("trainer_type", name, "hyperparameters", model) for name, model in hyperparameters.items()
    ]
    definitions["SamplerForm"]["allOf"] = [
        _when("sampler_type", name, "sampler_parameters", model) for name, model in SAMPLERS.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lanista configuration",
        **root,
        "$defs": definitions,
    }


def _when(key: str, value: str, then: str, model: type[Settings]) -> Schema:
    """`then` is `model` where `key` is `value`."""
    return {
        "if": {"properties": {key: {"const": value}}, "required": [key]},
        "then": {"properties": {then: {"$ref": f"#/$defs/{model.__name__}"}}},
    }


def _define(model: type[Settings], definitions: dict[str, Schema]) -> None:
    if model.__name__ not in definitions:
        definitions[model.__name__] = {}  # a model may hold itself
        definitions[model.__name__] = _object(model, definitions)


def _object(model: type[Settings], definitions: dict[str, Schema]) -> Schema:
    keys = model.model_fields
    schema: Schema = {
        "type": "object",
        "description": " ".join((model.__doc__ or "").split()),
        "properties": {key: _value(model, key, definitions) for key in model.written()},
        "additionalProperties": False,
    }
    required = [key for key in model.written() if keys[key].is_required()]
    return {**schema, "required": required} if required else schema


def _value(model: type[Settings], key: str, definitions: dict[str, Schema]) -> Schema:
    info = model.model_fields[key]
    text = {"description": key_description(model, key)}
    if (model, key) in _SPECIAL:
        return {**_SPECIAL[model, key], **text}
    kind = value_type(info.annotation)
    if kind.model is not None:
        _define(kind.model, definitions)
        reference = {"$ref": f"#/$defs/{kind.model.__name__}"}
        return {**({"anyOf": [reference, {"type": "null"}]} if kind.nullable else reference), **text}
    schema: Schema = {"enum": list(kind.choices)} if kind.choices else {"type": kind.name}
    if kind.or_list:
        schema = {"type": [kind.name, "array"], "items": schema}
    if kind.nullable:
        schema["type"] = [kind.name, "null"]
    if kind.name == "array":
        schema["items"] = {"type": ["string", "number"]}
    for limit in info.metadata:
        schema.update({_BOUNDS[name]: getattr(limit, name) for name in _BOUNDS if hasattr(limit, name)})
    if not info.is_required() and info.default_factory is None and info.default is not None:
        schema["default"] = plain(info.default)
    return {**schema, **_NARROWER.get((model, key), {}), **text}
