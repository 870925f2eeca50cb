"""The configuration as a JSON schema, with units, by which editors complete and check a YAML file."""

from __future__ import annotations

from collections.abc import Iterable
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
from .models.networks import MemorySettings
from .models.outputs import BUILT_IN, READY
from .models.rewards import REWARD_SIGNALS
from .models.run import DEVICE, EnvironmentSettings, TorchSettings
from .options import RunOptions
from .registry import trainer_types

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
    """These names, which editors then offer, or one of a plug-in."""
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
        "properties": {name: {"$ref": f"#/$defs/{model.__name__}"} for name, model in REWARD_SIGNALS.items()},
        "additionalProperties": False,
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

# What validators demand of single keys beyond their types and bounds.
_NARROWER: dict[tuple[type[Settings], str], Schema] = {
    (EnvironmentSettings, "num_areas"): {"minimum": 1},
    (EnvironmentSettings, "env_args"): {"type": ["array", "string", "null"]},
    (MemorySettings, "memory_size"): {"minimum": 2, "multipleOf": 2},
    (TorchSettings, "device"): {"pattern": f"^({DEVICE})$"},
}


def json_schema() -> Schema:
    """The schema of a configuration file (JSON schema, draft 2020-12)."""
    definitions: dict[str, Schema] = {}
    root = _object(RunOptions, definitions)
    hyperparameters = {name: kind.settings for name, kind in trainer_types.items()}
    reached_by_special_keys: list[type[Settings]] = [EnvironmentParameterSettings, Lesson, SamplerForm]
    reached_by_special_keys += [*REWARD_SIGNALS.values(), *hyperparameters.values(), *SAMPLERS.values()]
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
    text = {"description": " ".join((info.description or "").split())}
    if (model, key) in _SPECIAL:
        return {**_SPECIAL[model, key], **text}
    kind = value_type(info.annotation)
    if kind.model is not None:
        _define(kind.model, definitions)
        reference = {"$ref": f"#/$defs/{kind.model.__name__}"}
        return {**({"anyOf": [reference, {"type": "null"}]} if kind.nullable else reference), **text}
    schema: Schema = {"enum": list(kind.choices)} if kind.choices else {"type": kind.name}
    if kind.nullable:
        schema["type"] = [kind.name, "null"]
    if kind.name == "array":
        schema["items"] = {"type": ["string", "number"]}
    for limit in info.metadata:
        schema.update({_BOUNDS[name]: getattr(limit, name) for name in _BOUNDS if hasattr(limit, name)})
    if not info.is_required() and info.default_factory is None and info.default is not None:
        schema["default"] = plain(info.default)
    return {**schema, **_NARROWER.get((model, key), {}), **text}


UNITS = {
    "base_port": "port",
    "batch_size": "steps",
    "beta": "factor",
    "buffer_init_steps": "steps",
    "buffer_size": "steps",
    "burn_in_ratio": "share",
    "capture_frame_rate": "frames/s",
    "checkpoint_interval": "trainer steps",
    "encoding_size": "units",
    "env_workers": "processes",
    "epsilon": "share",
    "epsilon_decay_steps": "trainer steps",
    "epsilon_end": "share",
    "epsilon_start": "share",
    "frame_stack": "frames",
    "gamma": "factor per decision",
    "gradient_steps": "gradient steps",
    "height": "pixels",
    "hidden_units": "units",
    "inference_steps": "agents' decisions",
    "init_entcoef": "factor",
    "initial_elo": "Elo",
    "keep_best": "checkpoints",
    "keep_checkpoints": "checkpoints",
    "lambd": "factor per decision",
    "learning_rate": "per gradient step",
    "max_lifetime_restarts": "restarts",
    "max_num_agents": "agents",
    "max_steps": "trainer steps",
    "max_value": "the parameter's",
    "mean": "the parameter's",
    "memory_size": "numbers",
    "min_lesson_length": "episodes",
    "min_value": "the parameter's",
    "n_step": "steps",
    "noise_decay_steps": "trainer steps",
    "noise_end": "half the action's range",
    "noise_start": "half the action's range",
    "num_areas": "areas",
    "num_envs": "environments",
    "num_epoch": "passes",
    "num_layers": "layers",
    "num_threads": "threads",
    "learners": "processes",
    "play_against_latest_model_ratio": "share",
    "policy_delay": "gradient steps",
    "prioritized_alpha": "exponent",
    "prioritized_beta": "exponent",
    "quality_level": "level",
    "ray_cpus": "processors",
    "ray_wait": "seconds",
    "restarts_rate_limit_n": "restarts",
    "restarts_rate_limit_period_s": "seconds",
    "reward_signal_steps_per_update": "steps per gradient step",
    "samples_per_update": "steps",
    "save_steps": "trainer steps",
    "seed": "seed",
    "sequence_length": "steps",
    "st_dev": "the parameter's",
    "steps": "trainer steps",
    "steps_per_update": "steps per gradient step",
    "stop_at_reward": "reward of an episode",
    "strength": "factor",
    "summary_freq": "trainer steps",
    "swap_steps": "steps of the acting team",
    "target_frame_rate": "frames/s",
    "target_noise": "half the action's range",
    "target_noise_clip": "half the action's range",
    "target_update_interval": "updates",
    "tau": "share",
    "team_change": "trainer steps",
    "test_episodes": "episodes",
    "test_frequency": "trainer steps",
    "test_max_decisions": "agent's decisions",
    "threshold": "the measure's",
    "time_horizon": "steps",
    "time_scale": "times real time",
    "timeout_wait": "seconds",
    "value": "the parameter's",
    "width": "pixels",
    "window": "snapshots",
}
"""Of every key that is a number. A step is one decision of one agent; docs/configuration.md has the words."""
