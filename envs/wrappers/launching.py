"""Launch engines for the wrappers: restarted for a new seed, and several as one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from mlagents_envs.base_env import (
    ActionTuple,
    BaseEnv,
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from mlagents_envs.exception import UnityEnvironmentException
from numpy.typing import NDArray

from ..base import BehaviorSteps, no_steps
from ..engines.options import UNCHANGED, EngineOptions
from ..engines.terms import Terms, terms_of
from ..godot import is_godot, is_godot_editor
from ..opening import open_environment, with_default_channels
from ..python import in_process
from ..python.base import InProcessEnvironment
from ..side_channels import SideChannel
from ..unity.environment import UnityEnvironment
from ..unity.launch import is_editor

if TYPE_CHECKING:
    from ..godot.environment import GodotEnvironment

SEEDS = 2**31
"""The number of different seeds: the protocol has 32 bits for a seed, one of them for the sign."""


class LaunchedEnvironment(BaseEnv):  # type: ignore[misc]
    """A launched engine and its side channels."""

    def __init__(
        self, start: Callable[[int], BaseEnv], seed: int, name: str = "", channels: Sequence[SideChannel] = ()
    ) -> None:
        """Start the engine.

        Args:
            start: Starts the engine with a seed. The environment that it returns is closed before the next
                call.
            seed: 0 or more; used modulo 2**31.
            name: The environment's name in messages.
            channels: The engine's side channels.
        """
        self.name = name
        self.seed = int(seed) % SEEDS
        self.side_channel = {type(channel).__name__: channel for channel in channels}
        """The channels by class name, as in ML-Agents' PettingZoo wrappers."""
        self._channels = list(channels)
        self._start = start
        self._parameters: dict[str, object] = {}
        self._env = start(self.seed)
        self._loaded = True

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors that the engine has reported so far."""
        return self._env.behavior_specs  # type: ignore[no-any-return]

    @property
    def terms(self) -> Terms:
        """The words for the engine in messages to its users."""
        return terms_of(self._env)

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters, numbers or samplers; they arrive with the next step or reset.

        Raises:
            UnityEnvironmentException: The environment has no parameters.
        """
        set_parameters = getattr(self._env, "set_parameters", None)
        if set_parameters is None:
            raise UnityEnvironmentException(
                f"{self.name} has no parameters; append its own arguments to its name, as in NAME?key=value."
            )
        set_parameters(parameters)
        self._parameters.update(parameters)

    def reset(self) -> None:
        """Reset the engine; see `BaseEnv`."""
        self._env.reset()

    def step(self) -> None:
        """Step the engine; see `BaseEnv`."""
        self._env.step()

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """The decision and terminal steps of a behavior's agents; see `BaseEnv`."""
        return self._env.get_steps(behavior_name)  # type: ignore[no-any-return]

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Set the actions of a behavior's agents; see `BaseEnv`."""
        self._env.set_actions(behavior_name, action)

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Set the action of one agent; see `BaseEnv`."""
        self._env.set_action_for_agent(behavior_name, agent_id, action)

    def close(self) -> None:
        """Close the engine; does nothing if its last start failed."""
        if self._loaded:
            self._loaded = False
            self._env.close()


class ReseededEnvironment(LaunchedEnvironment):
    """An engine that is restarted for another seed, since it gets its seed at its start."""

    def reseed(self, seed: int, is_fresh: bool = False) -> bool:
        """Restart the engine with a seed, unless it `is_fresh` after a start with this seed.

        Environment parameters stay set, and what was set on the side channels of this package.

        Returns:
            Whether it was restarted, and must be reset.
        """
        seed = int(seed) % SEEDS
        if is_fresh and seed == self.seed:
            return False
        self._env.close()
        self._loaded = False
        self._env, self.seed = self._start(seed), seed
        self._loaded = True
        if self._parameters and not isinstance(self._env, UnityEnvironment):  # whose channel keeps them
            self._env.set_parameters(self._parameters)
        for channel in self._channels:
            if isinstance(channel, SideChannel):  # ML-Agents' own keep nothing
                channel.resend_settings()
        return True


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
        file_name: The executable, a scene such as `scene:ball3d`, a Godot game such as `godot:FOLDER`,
            one of Unreal such as `unreal:Game.sh`, or None for the Unity Editor.
        seed: Seeds the engine; further engines get the next numbers. None for a random one.
        reseed: Restart the engine, unless it is the Editor, when `reset` is given a seed.
        num_engines: How many engines, whose agents are combined. They compute in parallel.
        time_scale: How much faster than real time the game runs; None leaves it unchanged. A frame of Unity,
            and its `Update()`, lasts `time_scale` times as much game time as a frame at 1.
        parameters: Values of environment parameters, numbers or samplers.
        side_channels: Further channels, of a single engine. A channel for the engine's configuration,
            parameters or statistics replaces the one that Lanista would create.
        **options: See `UnityEnvironment`; with a Godot game `GodotEnvironment`.

    Raises:
        TypeError: There is no such option.
        UnityEnvironmentException: Several engines where only one is possible.
        UnityException: An engine cannot start, see `UnityEnvironment`.
    """
    _check_options(options, file_name)
    if is_godot(file_name) and side_channels:
        raise UnityEnvironmentException("A Godot game has no side channels: leave side_channels out.")
    if num_engines != 1:
        _check_several(num_engines, file_name, side_channels)
    chosen = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
    given = EngineOptions.of(
        path=file_name, configuration=UNCHANGED._replace(time_scale=time_scale), **options
    )
    channels = with_default_channels(given, side_channels)

    def start(seed: int) -> BaseEnv:
        if num_engines == 1:
            return open_environment(replace(given, seed=seed), channels)
        with ExitStack() as started:  # closes them if one of them does not start
            engines = []
            for index in range(num_engines):
                own = replace(given, worker_id=given.worker_id + index, seed=(seed + index) % SEEDS)
                engines.append(open_environment(own))
                started.callback(engines[-1].close)
            started.pop_all()
        return JoinedEnvironment(engines)

    one_editor = is_editor(file_name) or is_godot_editor(file_name)
    launched_class = ReseededEnvironment if reseed and not one_editor else LaunchedEnvironment
    shown = channels if num_engines == 1 else ()
    env = launched_class(start, chosen, file_name or "Unity Editor", shown)
    if parameters:
        try:
            env.set_parameters(parameters)
        except BaseException:
            env.close()
            raise
    return env


def _check_several(number: int, file_name: str | None, side_channels: Sequence[SideChannel]) -> None:
    """Refuse an impossible number of engines."""
    if number < 1:
        raise UnityEnvironmentException(f"num_engines is {number}; it needs at least 1.")
    if is_editor(file_name) or is_godot_editor(file_name):
        raise UnityEnvironmentException(
            f"num_engines is {number}, but there is only one editor. Set file_name, or leave it out."
        )
    if in_process(file_name):
        raise UnityEnvironmentException(
            f"num_engines is {number}, but {file_name} is not a process of its own. Set num_areas={number}."
        )
    if side_channels:
        raise UnityEnvironmentException(
            f"num_engines is {number}, but a side channel belongs to one engine. Leave side_channels out."
        )


def _check_options(options: Mapping[str, Any], file_name: str | None) -> None:
    make: Callable[..., None] = UnityEnvironment.__init__
    if is_godot(file_name):
        from ..godot.environment import GodotEnvironment

        make = GodotEnvironment.__init__
    known = set(inspect.signature(make).parameters) - {"self", "file_name", "path", "real_time"}
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
            raise TypeError(f"Unknown engine option {option!r}; {hint}")


class JoinedEnvironment(InProcessEnvironment):
    """n engines of one kind as one: they compute in parallel, at the pace of the slowest.

    Rows of the first engine's agents come first. Agent a of engine k has the id a * n + k; groups likewise.
    """

    def __init__(self, engines: Sequence[UnityEnvironment | GodotEnvironment]) -> None:
        """Take ownership of the engines; `close` closes them."""
        super().__init__()
        self._engines = list(engines)
        self.terms = terms_of(self._engines[0])
        self._specs: dict[str, BehaviorSpec] = {}

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors that any engine has reported so far."""
        return BehaviorMapping(self._specs)  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Reset all engines. Raises as `UnityEnvironment.reset`."""
        for engine in self._engines:
            engine.send_reset()
        self._receive()

    def step(self) -> None:
        """Step all engines. Raises as `UnityEnvironment.step`."""
        for name, action in self._actions.items():
            self._send_actions(name, action)
        for engine in self._engines:
            engine.send_step()
        self._receive()

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters in all engines."""
        for engine in self._engines:
            engine.set_parameters(parameters)

    def close(self) -> None:
        """Close all engines, even if closing one of them fails."""
        with ExitStack() as stack:
            for engine in self._engines:
                stack.callback(engine.close)

    def _send_actions(self, name: str, action: ActionTuple) -> None:
        first = 0
        for engine in self._engines:
            if name not in engine.behavior_specs:
                continue
            rows = slice(first, first + len(engine.get_steps(name)[0]))
            engine.set_actions(name, ActionTuple(action.continuous[rows], action.discrete[rows]))
            first = rows.stop

    def _receive(self) -> None:
        for engine in self._engines:
            engine.receive()
        self._actions.clear()
        for engine in self._engines:
            for name, spec in engine.behavior_specs.items():
                self._specs.setdefault(name, spec)
        for name, spec in self._specs.items():
            self._steps[name] = self._concatenate(name, spec)

    def _concatenate(self, name: str, spec: BehaviorSpec) -> BehaviorSteps:
        steps = [
            engine.get_steps(name) if name in engine.behavior_specs else no_steps(spec)
            for engine in self._engines
        ]
        decisions, terminals = [each for each, _ in steps], [each for _, each in steps]
        interrupted = np.concatenate([each.interrupted for each in terminals])
        obs, rewards, ids = self._agents(terminals, spec)
        return (
            DecisionSteps(*self._agents(decisions, spec), _masks(decisions, spec), *self._groups(decisions)),
            TerminalSteps(obs, rewards, interrupted, ids, *self._groups(terminals)),
        )

    def _agents(
        self, batches: Sequence[DecisionSteps] | Sequence[TerminalSteps], spec: BehaviorSpec
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.float32], NDArray[np.int32]]:
        """The observations, rewards and ids of all engines' agents."""
        nonempty = [batch for batch in batches if len(batch)] or batches[:1]  # others may have another dtype
        obs = [
            np.concatenate([batch.obs[k] for batch in nonempty]) for k in range(len(spec.observation_specs))
        ]
        ids = self._unique_ids([batch.agent_id for batch in batches])
        return obs, np.concatenate([batch.reward for batch in batches]), ids

    def _groups(
        self, batches: Sequence[DecisionSteps] | Sequence[TerminalSteps]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Unique group ids, of which 0, no group, stays 0; and the groups' rewards."""
        groups = [np.asarray(batch.group_id) for batch in batches]
        ids = np.where(np.concatenate(groups) > 0, self._unique_ids(groups), 0).astype(np.int32)
        return ids, np.concatenate([batch.group_reward for batch in batches])

    def _unique_ids(self, ids: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        count = len(self._engines)
        return np.concatenate([each * count + k for k, each in enumerate(ids)]).astype(np.int32)


def _masks(decisions: Sequence[DecisionSteps], spec: BehaviorSpec) -> list[NDArray[np.bool_]] | None:
    """The action masks [rows, size] per branch; None if no engine sends masks."""
    if all(each.action_mask is None for each in decisions):
        return None
    return [
        np.concatenate(
            [
                np.zeros((len(each), size), np.bool_) if each.action_mask is None else each.action_mask[k]
                for each in decisions
            ]
        )
        for k, size in enumerate(spec.action_spec.discrete_branches)
    ]
