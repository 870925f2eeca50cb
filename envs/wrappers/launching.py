"""Starting engines for the wrappers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from typing import Any

import numpy as np
from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from ..side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannel,
    StatsSideChannel,
)
from ..sources import in_process, make_source
from ..unity import UnityEnvironment
from .joined import JoinedEnvironment
from .launched import SEEDS, LaunchedEnvironment, ReseededEnvironment


def launch(
    file_name: str | None = None,
    *,
    seed: int | None = None,
    reseed: bool = True,
    num_engines: int = 1,
    time_scale: float | None = 20.0,
    parameters: Mapping[str, object] | None = None,
    side_channels: Sequence[SideChannel] = (),
    **options: Any,
) -> LaunchedEnvironment:
    """Start an engine, or several, for one of the wrappers.

    Args:
        file_name: The executable, a scene such as `scene:ball3d`, or None for the Unity Editor.
        seed: Of the engine's chance, further engines' are the next ones; None for another one each time.
        reseed: A seed that is given to `reset` later starts the engine again, except the Editor.
        num_engines: How many, whose agents are put side by side. They compute at the same time.
        time_scale: How much faster than real time the game goes; None leaves it.
        parameters: Values of environment parameters, numbers or samplers.
        side_channels: More channels, of a single engine. One of those that Lanista itself makes, for the
            engine's configuration, parameters and statistics, takes that one's place.
        **options: As of `UnityEnvironment`.

    Raises:
        TypeError: There is no such option.
        UnityEnvironmentException: Several engines where there can be only one.
        UnityException: As `UnityEnvironment`.
    """
    _check_options(options)
    if num_engines != 1:
        _check_several(num_engines, file_name, side_channels)
    chosen = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    channels = _with_ours(side_channels)

    def start(seed: int) -> BaseEnv:
        if in_process(file_name):
            arguments, areas = options.get("additional_args"), options.get("num_areas", 1)
            return make_source(str(file_name), seed, arguments, areas)
        if num_engines == 1:
            return _start(file_name, seed, channels, time_scale, options)
        with ExitStack() as started:  # ends them where one of them does not start
            engines = []
            for index in range(num_engines):
                own = {**options, "worker_id": options.get("worker_id", 0) + index}
                engines.append(_start(file_name, (seed + index) % SEEDS, _with_ours(()), time_scale, own))
                started.callback(engines[-1].close)
            started.pop_all()
        return JoinedEnvironment(engines)

    kind_of_env = ReseededEnvironment if reseed and file_name is not None else LaunchedEnvironment
    shown = channels if num_engines == 1 else ()
    env = kind_of_env(start, chosen, file_name or "Unity Editor", shown)
    if parameters:
        try:
            env.set_parameters(parameters)
        except BaseException:
            env.close()
            raise
    return env


def _start(
    file_name: str | None,
    seed: int,
    channels: Sequence[SideChannel],
    time_scale: float | None,
    options: Mapping[str, Any],
) -> UnityEnvironment:
    engine = next(channel for channel in channels if isinstance(channel, EngineConfigurationChannel))
    if time_scale is not None:
        engine.set_configuration_parameters(time_scale=time_scale)
    return UnityEnvironment(file_name, seed=seed, side_channels=channels, **options)


def _with_ours(side_channels: Sequence[SideChannel]) -> list[SideChannel]:
    """The channels, and those of Lanista's whose kind is not among them."""
    channels = list(side_channels)
    for kind in (EngineConfigurationChannel, EnvironmentParametersChannel, StatsSideChannel):
        if not any(isinstance(channel, kind) for channel in channels):
            channels.append(kind())
    return channels


def _check_several(number: int, file_name: str | None, side_channels: Sequence[SideChannel]) -> None:
    """Refuse a number of engines that cannot be."""
    if number < 1:
        raise UnityEnvironmentException(f"num_engines is {number}; it needs at least 1.")
    if file_name is None:
        raise UnityEnvironmentException(
            f"num_engines is {number}, but there is only one Editor. Give file_name, or leave it out."
        )
    if in_process(file_name):
        raise UnityEnvironmentException(
            f"num_engines is {number}, but {file_name} is no engine of its own. Give num_areas={number}."
        )
    if side_channels:
        raise UnityEnvironmentException(
            f"num_engines is {number}, but a side channel belongs to one engine. Leave side_channels out."
        )


def _check_options(options: Mapping[str, Any]) -> None:
    known = set(inspect.signature(UnityEnvironment.__init__).parameters) - {"self", "file_name"}
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
            raise TypeError(f"There is no option {option!r} of an engine; {hint}")
