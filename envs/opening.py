"""Opens environments of every kind: engines, hosted ones, and those that are stepped in this process.

The modules of a kind are imported when an environment of it is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlagents_envs.base_env import BaseEnv

from .._tools import provided
from .engines.options import REGISTRY, EngineOptions
from .engines.terms import GODOT, PYTHON, Terms
from .errors import RegistryError
from .godot import is_godot
from .python import in_process
from .side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannel,
    StatsSideChannel,
)
from .unity.launch import terms_of_engine


def terms_for(path: str | None) -> Terms:
    """The words for the environment of this name, which is not open yet; of None for the Unity Editor."""
    if is_godot(path):
        return GODOT
    return PYTHON if in_process(path) else terms_of_engine(path)


def open_environment(options: EngineOptions, side_channels: Sequence[SideChannel] | None = None) -> BaseEnv:
    """The environment of these options, started.

    Args:
        options: Which environment, and how.
        side_channels: Of an engine that speaks ML-Agents' protocol; None: those of `with_default_channels`.

    Raises:
        UnityException: It cannot be started, or did not answer in time.
        RegistryError: There is no such environment in the registry, or it cannot be downloaded.
        ValueError: `allow` has what is no network.
    """
    path = (options.path or "").strip()
    if options.drawn and options.is_scene:
        from .scenes.in_process import make_in_process

        areas = [] if options.num_areas == 1 else ["--areas", str(options.num_areas)]
        return make_in_process(path, options.seed, [*options.additional_args, *areas])
    if in_process(path) and (options.drawn or not options.hosted):
        from .python.calls import working_folder_kept
        from .python.sources import make_source

        with working_folder_kept(path):
            return make_source(
                path,
                options.seed,
                options.additional_args,
                options.num_areas,
                with_state=options.with_state,
                self_play=options.self_play,
                images=options.images,
                drawn=options.drawn,
            )
    if options.hosted:
        from .hosting.environment import HostedEnvironment

        return HostedEnvironment.of(options)
    if is_godot(path):
        from .godot.environment import GodotEnvironment

        return GodotEnvironment.of(options)
    from .unity.environment import UnityEnvironment

    channels = with_default_channels(options) if side_channels is None else side_channels
    return UnityEnvironment.of(resolve_registered(options), channels)


def resolve_registered(options: EngineOptions) -> EngineOptions:
    """The options with the program, and its further arguments, in place of a registry's name for it.

    The program is downloaded if necessary, unless a node launches it.

    Raises:
        RegistryError: There is no such environment, or it cannot be downloaded.
    """
    path = (options.path or "").strip()
    if options.connect is not None or not path.startswith(REGISTRY):
        return options
    resolve = provided("resolve_registered")
    if resolve is None:
        raise RegistryError(
            f"{path}: this installation lacks the tool for registries: install Lanista whole."
        )
    path, arguments = resolve(path, options.additional_args)
    return replace(options, path=path, additional_args=tuple(arguments))


def with_default_channels(
    options: EngineOptions, side_channels: Sequence[SideChannel] = ()
) -> list[SideChannel]:
    """The given channels, and Lanista's own of the kinds that are missing; they set the configuration.

    Args:
        options: Of the engine.
        side_channels: A channel for the engine's configuration, parameters or statistics replaces the one
            that would be made.
    """
    channels = list(side_channels)
    for kind in (EnvironmentParametersChannel, EngineConfigurationChannel, StatsSideChannel):
        if not any(isinstance(channel, kind) for channel in channels):
            channels.append(kind())
    engine = next(channel for channel in channels if isinstance(channel, EngineConfigurationChannel))
    engine.set_configuration(options.configuration)
    return channels
