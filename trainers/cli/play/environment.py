"""The environments that are played, with the options of `lanista play` and `lanista tournament`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from mlagents_envs.base_env import BaseEnv

from ....envs.godot import is_godot
from ....envs.python import in_process
from ....envs.python.sources import make_source
from ....envs.registry.registry import resolve_registered
from ....envs.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    StatsSideChannel,
)
from ....envs.unity.environment import UnityEnvironment
from ...settings.models.environment_parameters import SamplerSettings
from ...utils.errors import CommandError


def open_environment(
    arguments: argparse.Namespace,
    path: str | None,
    given: Sequence[str],
    *,
    drawn: bool = False,
    with_state: bool = True,
    self_play: bool | None = None,
) -> BaseEnv:
    """The environment at `path` (None: the Unity Editor), with the options of `play` and `tournament`.

    Args:
        arguments: those options.
        path: of the environment.
        given: arguments of the environment itself.
        drawn: it is to render itself, if it is in this process.
        with_state: as of `make_source`. The state and the seat are the last observations: a brain that does
            not read them ignores them.
        self_play: as of `make_source`.
    """
    if path is not None and in_process(path):
        return make_source(
            *(path, arguments.seed, given, arguments.num_areas),
            with_state=with_state,
            self_play=self_play,
            drawn=drawn,
        )
    if path is not None and is_godot(path):
        from ....envs.godot.environment import GodotEnvironment

        return GodotEnvironment(
            path,
            base_port=arguments.base_port,
            seed=arguments.seed,
            no_graphics=arguments.no_graphics,
            real_time=arguments.time_scale == 1,
            timeout_wait=arguments.timeout_wait,
            additional_args=given,
        )
    engine, parameters = EngineConfigurationChannel(), EnvironmentParametersChannel()
    engine.set_configuration_parameters(time_scale=arguments.time_scale)
    file_name, args = (None, given) if path is None else resolve_registered(path, given)
    return UnityEnvironment(
        file_name,
        base_port=arguments.base_port,
        seed=arguments.seed,
        no_graphics=arguments.no_graphics,
        timeout_wait=arguments.timeout_wait,
        additional_args=args,
        side_channels=[engine, parameters, StatsSideChannel()],
        num_areas=arguments.num_areas,
    )


def set_parameters(env: BaseEnv, parameters: Mapping[str, SamplerSettings]) -> None:
    """Set environment parameters; an environment of Python that has none was trained without them too."""
    own = getattr(env, "set_parameters", None)
    if parameters and own is not None:
        own(parameters)


def open_scene(arguments: argparse.Namespace, path: str, given: Sequence[str]) -> BaseEnv:
    """A scene in this process, where it can draw itself."""
    from ....envs.scenes.in_process import make_in_process

    areas = [] if arguments.num_areas == 1 else ["--areas", str(arguments.num_areas)]
    return make_in_process(path, arguments.seed, [*areas, *given])


def open_played(arguments: argparse.Namespace, *, shown: bool) -> BaseEnv:
    """The environment of `play`; `shown`: with a method `draw`.

    Raises:
        CommandError: it is to be shown and runs in an engine, which shows itself.
    """
    path, given = arguments.env or "", arguments.env_args
    offered = {"with_state": arguments.with_state, "self_play": arguments.self_play}
    if not shown:
        return open_environment(arguments, arguments.env, given, **offered)
    if path.strip().startswith("scene:"):
        return open_scene(arguments, path, given)
    if not in_process(path):
        raise CommandError(
            f"{path or 'The editor'} cannot be filmed or watched: it draws itself, in a window of its own "
            "(--time-scale 1 lets it play at its natural speed). Lanista shows what runs in its "
            "own process: scene:NAME, gymnasium:ID, pettingzoo:MODULE and python:MODULE:FUNCTION."
        )
    return open_environment(arguments, path, given, drawn=True, **offered)
