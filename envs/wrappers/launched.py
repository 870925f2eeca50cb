"""Engines as the wrappers have them started; again, when they are to have another seed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorSpec

from ..side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannel,
    StatsSideChannel,
)
from ..sources import in_process, make_source
from ..steps import BehaviorSteps
from ..unity import UnityEnvironment

SEEDS = 2**31
"""The wire has 32 bits for a seed, one of them for the sign."""


class LaunchedEnvironment(BaseEnv):  # type: ignore[misc]
    """An engine and the side channels that it was given."""

    def __init__(
        self, start: Callable[[int], BaseEnv], seed: int, name: str = "", channels: Sequence[SideChannel] = ()
    ) -> None:
        """Start it.

        Args:
            start: Starts the engine with a seed. What it returns is closed before it is called again.
            seed: 0 or more; what does not fit in 31 bits is taken modulo 2**31.
            name: For messages.
            channels: What the engine was given.
        """
        self.name = name
        self.seed = int(seed) % SEEDS
        self.side_channel = {type(channel).__name__: channel for channel in channels}
        """The channels by the names of their classes, as ML-Agents' PettingZoo wrappers have them."""
        self._start = start
        self._parameters: dict[str, object] = {}
        self._env = start(self.seed)
        self._loaded = True

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours that the engine has shown so far."""
        return self._env.behavior_specs  # type: ignore[no-any-return]

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters, numbers or samplers; they arrive with the next step or reset.

        Raises:
            UnityEnvironmentException: The environment takes none.
        """
        self._env.set_parameters(parameters)
        self._parameters.update(parameters)

    def reset(self) -> None:
        """As of the engine."""
        self._env.reset()

    def step(self) -> None:
        """As of the engine."""
        self._env.step()

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """As of the engine."""
        return self._env.get_steps(behavior_name)  # type: ignore[no-any-return]

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """As of the engine."""
        self._env.set_actions(behavior_name, action)

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """As of the engine."""
        self._env.set_action_for_agent(behavior_name, agent_id, action)

    def close(self) -> None:
        """End the engine; nothing where a start has failed."""
        if self._loaded:
            self._loaded = False
            self._env.close()


class ReseededEnvironment(LaunchedEnvironment):
    """An engine that is started again for another seed: it gets its seed at its start."""

    def reseed(self, seed: int, untouched: bool = False) -> bool:
        """Start the engine again with a seed, unless it is `untouched` since its start and has this seed.

        Environment parameters that were set by `set_parameters` stay set.

        Returns:
            Whether it was started again; it is to be reset then.
        """
        seed = int(seed) % SEEDS
        if untouched and seed == self.seed:
            return False
        self._env.close()
        self._loaded = False
        self._env, self.seed = self._start(seed), seed
        self._loaded = True
        if self._parameters:
            self._env.set_parameters(self._parameters)
        return True


def launch(
    file_name: str | None = None,
    *,
    seed: int | None = None,
    reseed: bool = True,
    time_scale: float | None = 20.0,
    parameters: Mapping[str, object] | None = None,
    side_channels: Sequence[SideChannel] = (),
    **options: Any,
) -> LaunchedEnvironment:
    """Start an engine for one of the wrappers.

    Args:
        file_name: The executable, a scene such as `scene:ball3d`, or None for the Unity Editor.
        seed: Of the engine's chance; None for another one each time.
        reseed: A seed that is given to `reset` later starts the engine again, except the Editor.
        time_scale: How much faster than real time the game goes; None leaves it.
        parameters: Values of environment parameters, numbers or samplers.
        side_channels: More channels. One of those that Lanista itself makes, for the engine's
            configuration, parameters and statistics, takes that one's place.
        **options: As of `UnityEnvironment`.

    Raises:
        TypeError: There is no such option.
        UnityException: As `UnityEnvironment`.
    """
    _check_options(options)
    chosen = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    channels = list(side_channels)
    for kind in (EngineConfigurationChannel, EnvironmentParametersChannel, StatsSideChannel):
        if not any(isinstance(channel, kind) for channel in channels):
            channels.append(kind())
    engine = next(channel for channel in channels if isinstance(channel, EngineConfigurationChannel))

    def start(seed: int) -> BaseEnv:
        if in_process(file_name):
            return make_source(
                str(file_name), seed, options.get("additional_args"), options.get("num_areas", 1)
            )
        if time_scale is not None:
            engine.set_configuration_parameters(time_scale=time_scale)
        return UnityEnvironment(file_name, seed=seed, side_channels=channels, **options)

    engine_kind = ReseededEnvironment if reseed and file_name is not None else LaunchedEnvironment
    env = engine_kind(start, chosen, file_name or "Unity Editor", channels)
    if parameters:
        env.set_parameters(parameters)
    return env


def _check_options(options: Mapping[str, Any]) -> None:
    known = set(inspect.signature(UnityEnvironment.__init__).parameters) - {"self", "file_name"}
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
            raise TypeError(f"There is no option {option!r} of an engine; {hint}")
