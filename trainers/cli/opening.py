"""The environment that a command opens, by its flags, which mean what they mean in `lanista-learn`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlagents_envs.base_env import BaseEnv

from ...envs.engines.address import split_address
from ...envs.engines.options import UNCHANGED, EngineOptions
from ...envs.validation import NonFinitePolicy
from ..runner.engine_options import engine_options
from ..settings.command_line import assign
from ..settings.models.environment_parameters import SamplerSettings
from ..settings.options import RunOptions
from ..settings.yaml_source import Source
from .arguments import ENGINE_FLAGS

_WINDOW = {"width", "height"}


def settings_from_flags(arguments: argparse.Namespace, path: str | None, given: Sequence[str]) -> RunOptions:
    """The settings of a run with these flags, checked as those of `lanista-learn`.

    Args:
        arguments: Of a command with `add_engine_flags`.
        path: Of the environment; None for the Unity Editor, or an engine that connects by itself.
        given: The environment's own arguments.

    Raises:
        TrainerConfigError: Something in them is wrong, or they exclude each other.
    """
    source = Source({"env_settings": {"env_path": path, "env_args": list(given)}})
    for flag in ENGINE_FLAGS:
        value = getattr(arguments, flag.key)
        if value is not None:
            assign(source, (flag.section, flag.key), value, f"command line, {flag.name}")
    return RunOptions.from_source(source)


def single_engine_options(options: RunOptions, arguments: argparse.Namespace) -> EngineOptions:
    """The options of the one environment that a command opens.

    A port that was typed counts, even for the Editor or where it is the default: in a run's file, which
    always records one, it would not be a choice. An engine that connects by itself is awaited as the Editor
    is.
    """
    host, port = split_address(options.env_settings.listen)
    return replace(
        engine_options(options), listen=host, base_port=arguments.base_port if port is None else port
    )


def play_options(
    arguments: argparse.Namespace,
    path: str | None,
    given: Sequence[str],
    *,
    with_state: bool = True,
    self_play: bool | None = None,
) -> EngineOptions:
    """The options of an environment in which models play.

    An engine is told what flags say, and keeps the rest of its configuration as it is.

    Args:
        arguments: As for `settings_from_flags`, as the following two.
        path: See there.
        given: See there.
        with_state: As of `make_source`. The state and the seat are the last observations: a brain that does
            not read them ignores them.
        self_play: As of `make_source`.

    Raises:
        TrainerConfigError: As `settings_from_flags`.
    """
    options = single_engine_options(settings_from_flags(arguments, path, given), arguments)
    typed = {key for key in UNCHANGED._fields if getattr(arguments, key) is not None}
    # Models play at the speed of training unless a flag says otherwise; a window has two sides.
    typed |= {"time_scale", *(_WINDOW if typed & _WINDOW else ())}
    return replace(
        options,
        configuration=UNCHANGED._replace(**{key: getattr(options.configuration, key) for key in typed}),
        non_finite=NonFinitePolicy.STOP.value,
        images="float32",
        with_state=with_state,
        self_play=self_play,
    )


def set_parameters(env: BaseEnv, parameters: Mapping[str, SamplerSettings]) -> None:
    """Set environment parameters; an environment that has no method for it was trained without them too."""
    own = getattr(env, "set_parameters", None)
    if parameters and own is not None:
        own(parameters)
