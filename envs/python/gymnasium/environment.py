"""Gymnasium environments as a BaseEnv: many copies, whose agents are one behavior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from mlagents_envs.base_env import (
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    ObservationSpec,
    TerminalSteps,
)
from mlagents_envs.exception import UnityEnvironmentException
from numpy.typing import NDArray

from ...base import ObsArray
from ...errors import EnvContractError, UnsupportedSpaceError
from ...images import Images
from ...validation import NO_AGENTS
from ..action_spaces import ActionDecoder, action_decoder, find_mask, forbidden_actions
from ..base import CopiedEnvironment, make_copies
from ..calls import (
    as_bool,
    as_number,
    call_method,
    check_frame,
    check_result,
    close_all,
    name_of,
    seed_of_copy,
)
from ..episodes import EpisodeStarts
from ..spaces import SpaceSensor, sensors
from ..warned import warn_of_unbounded

_RESET = ("observation", "info")
_STEP = ("observation", "reward", "terminated", "truncated", "info")
_Masks = dict[int, NDArray[np.bool_]]
"""[sum of branches] by copy, True for actions that are not allowed."""


class Env(Protocol):
    """The part of `gymnasium.Env` that is used."""

    observation_space: Any
    action_space: Any

    @property
    def unwrapped(self) -> Any:
        """The environment without wrappers."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observation and the info."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""

    def render(self) -> Any:
        """A frame [height, width, 3], in the render mode `rgb_array`."""

    def close(self) -> None:
        """Release windows and other resources."""


def convert_spaces(env: Env, images: Images) -> tuple[list[SpaceSensor], ActionDecoder]:
    """Convert the environment's spaces to sensors and an action decoder.

    Raises:
        UnsupportedSpaceError: One of them cannot be used.
    """
    for name in ("observation_space", "action_space"):
        if not hasattr(env, name):
            raise UnsupportedSpaceError(f"{name_of(env)} has no {name}, which Gymnasium's environments have.")
    try:
        seen, acts = sensors(env.observation_space, images=images), action_decoder(env.action_space)
    except UnsupportedSpaceError as error:
        raise UnsupportedSpaceError(f"{name_of(env)}: {error}") from error
    warn_of_unbounded(env, acts.unbounded)
    return seen, acts


def step_env(env: Env, action: Any) -> tuple[Any, ...]:
    """Step the environment; returns observation, reward, terminated, truncated and info.

    Raises:
        EnvContractError: `step` raises an exception, or returns something else.
    """
    return check_result(call_method(env, "step", action), env, "step", _STEP)


def mismatch(env: Env, error: Exception) -> EnvContractError:
    """The error for a value that is not in its space."""
    return EnvContractError(
        f"{name_of(env)} returned what does not fit: {error}. gymnasium.utils.env_checker.check_env checks "
        "an environment."
    )


class Lives:
    """The lives that each copy has left. Losing one ends a trajectory, but not the episode.

    Losing the last life does not count: the episode ends with it.
    """

    def __init__(self, copies: int) -> None:
        self._left = [0] * copies

    def reset(self, copy: int, env: Any, info: Mapping[str, Any]) -> None:
        """Start an episode."""
        self._left[copy] = _lives(env, info)

    def lost(self, copy: int, env: Any, info: Mapping[str, Any]) -> bool:
        """Whether a life was lost in this step and others are left.

        Raises:
            EnvContractError: The environment does not report lives.
        """
        before, self._left[copy] = self._left[copy], _lives(env, info)
        return 0 < self._left[copy] < before


def _lives(env: Any, info: Mapping[str, Any]) -> int:
    """The lives left, from the info or from Atari's emulator."""
    if "lives" in info:
        try:
            return int(as_number(info["lives"], "info['lives']"))
        except (ValueError, OverflowError) as error:  # the latter of an infinite number
            raise mismatch(env, error) from error
    emulator = getattr(env.unwrapped, "ale", None)
    if emulator is None:
        raise EnvContractError(
            f"{name_of(env)} is played with lives=true, but reports no lives: it has neither info['lives'] "
            "nor an Atari emulator (ale.lives()). Leave lives out."
        )
    return int(call_method(emulator, "lives"))


@dataclass(slots=True)
class _Ended:
    """The copies whose episodes ended in this step, row for row."""

    copies: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    interrupted: list[bool] = field(default_factory=list)


class GymnasiumEnvironment(CopiedEnvironment):
    """Any number of copies of an environment, stepped one after the other in the caller's thread.

    Each copy has one agent, which decides at every step. When its episode ends, its final observation is in
    the TerminalSteps, and the first one of its next episode, with a new id, in the DecisionSteps of the same
    step. Truncation is an interruption, unless the episode has terminated too.

    The copies' arrays are copied at once, so that they may be reused.
    """

    def __init__(
        self,
        make: Callable[[], Env],
        behavior: str,
        *,
        seed: int | None = None,
        copies: int = 1,
        stack: int = 1,
        lives: bool = False,
        images: Images = "float32",
    ) -> None:
        """Make the copies.

        Args:
            make: Makes one copy.
            behavior: The behavior's name, such as `CartPole-v1`.
            seed: Seeds the first copy; the other seeds are derived from it. None: random seeds.
            copies: The number of copies.
            stack: The number of stacked frames in an observation.
            lives: Losing a life ends the trajectory, but not the episode; see `lost_lives`.
            images: The dtype of image observations: 0 to 1, or bytes for a trainer.

        Raises:
            UnityEnvironmentException: There are no copies.
            UnsupportedSpaceError: A space cannot be used.
        """
        if copies < 1:
            raise UnityEnvironmentException(
                f"A Gymnasium environment got {copies} copies; it needs at least 1."
            )
        super().__init__()
        first = make()
        self.name = f"{behavior}?team=0"
        try:
            seen, self._decoder = convert_spaces(first, images)
        except UnsupportedSpaceError:
            first.close()
            raise
        self._envs = make_copies(make, copies, first)
        self._episodes = [
            EpisodeStarts(env, seed_of_copy(seed, copy), copy) for copy, env in enumerate(self._envs)
        ]
        self._buffers = ObservationBuffers(seen, copies, stack)
        self._lives = Lives(copies) if lives else None
        self._spec = BehaviorSpec(self._buffers.specs, self._decoder.spec)
        self._ids = [0] * copies
        self._next_id = 0
        self._no_group = np.zeros(copies, np.int32), np.zeros(copies, np.float32)
        self._no_terminals = self._terminals(_Ended(), np.zeros(0, np.float32))
        self._lost = NO_AGENTS

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The single behavior."""
        return BehaviorMapping({self.name: self._spec})  # type: ignore[no-any-return]

    @property
    def by_lives(self) -> bool:
        """Whether losing a life ends the trajectory."""
        return self._lives is not None

    def reset(self) -> None:
        """Start a new episode in every copy. Unfinished episodes are not reported.

        Raises:
            EnvContractError: An observation is not in its space.
        """
        self._start_step()
        masks: _Masks = {}
        for copy in range(len(self._envs)):
            self._start_episode(copy, masks)
        self._finish_step(np.zeros(len(self._envs), np.float32), masks, self._no_terminals)

    def step(self) -> None:
        """Step all copies; missing actions are zeros. A first step without a reset is a reset.

        Raises:
            EnvContractError: An observation, a reward or a mask breaks Gymnasium's rules.
        """
        if not self._steps:
            self.reset()
            return
        given = self._actions.get(self.name) or self._spec.action_spec.empty_action(len(self._envs))
        actions = self._decoder.decode(given.continuous, given.discrete)
        self._start_step()
        rewards = np.zeros(len(self._envs), np.float32)
        masks: _Masks = {}
        ended, lost = _Ended(), []
        for copy, (env, action) in enumerate(zip(self._envs, actions)):
            observation, reward, terminated, truncated, info = step_env(env, action)
            try:
                rewards[copy] = as_number(reward)
                self._buffers.write(copy, observation)
                terminated, truncated = as_bool(terminated, "terminated"), as_bool(truncated, "truncated")
            except ValueError as error:
                raise mismatch(env, error) from error
            if terminated or truncated:
                ended.copies.append(copy)
                ended.ids.append(self._ids[copy])
                ended.interrupted.append(not terminated)
                continue
            self._read_mask(copy, observation, info, masks)
            if self._lives is not None and self._lives.lost(copy, env, info):
                lost.append(self._ids[copy])
        self._lost = np.array(lost, np.int32) if lost else NO_AGENTS
        terminals = self._end_episodes(ended, rewards, masks) if ended.copies else self._no_terminals
        self._finish_step(rewards, masks, terminals)

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] The agents of the last DecisionSteps that lost a life in the last step, but not the episode.

        Their trajectories end there as if the episode had ended.
        """
        return self._lost

    def draw(self) -> NDArray[np.uint8]:
        """A frame of the first copy, [height, width, 3]; its render mode must be `rgb_array`.

        Raises:
            EnvContractError: It raises an exception, or returns something else.
        """
        return check_frame(call_method(self._envs[0], "render"), self._envs[0], "render")

    def close(self) -> None:
        """Close every copy.

        Raises:
            EnvContractError: One of them raises an exception; the others are closed nevertheless.
        """
        close_all(self._envs)

    def action_bound(self) -> tuple[int, float | None]:
        """The number of continuous components, and the bound of all if there is one, for -bound to bound."""
        size = int(self._spec.action_spec.continuous_size)
        high, low = (np.unique(getattr(self._decoder.space, name, ())) for name in ("high", "low"))
        alike = len(high) == 1 and len(low) == 1 and low[0] == -high[0]
        return size, float(high[0]) if alike else None

    def _starts(self) -> Sequence[EpisodeStarts]:
        return self._episodes

    def _start_step(self) -> None:
        self._actions.clear()
        self._lost = NO_AGENTS
        self._buffers.start_step()

    def _start_episode(self, copy: int, masks: _Masks) -> None:
        """Give a copy's agent an id and its first observation."""
        env = self._envs[copy]
        observation, info = check_result(self._episodes[copy].reset(), env, "reset", _RESET)
        self._ids[copy] = self._next_id
        self._next_id += 1
        try:
            self._buffers.reset(copy, observation)
        except ValueError as error:
            raise mismatch(env, error) from error
        self._read_mask(copy, observation, info, masks)
        if self._lives is not None:
            self._lives.reset(copy, env, info)

    def _read_mask(self, copy: int, observation: Any, info: Mapping[str, Any], masks: _Masks) -> None:
        """Read a copy's action mask, if it has one, from arrays that it may use again."""
        branches = self._spec.action_spec.discrete_branches
        mask = find_mask(observation, info) if branches else None
        if mask is None:
            return
        try:
            masks[copy] = forbidden_actions(mask, branches, self._decoder.space)
        except ValueError as error:
            raise mismatch(self._envs[copy], error) from error

    def _end_episodes(self, ended: _Ended, rewards: NDArray[np.float32], masks: _Masks) -> TerminalSteps:
        """Make the TerminalSteps of ended episodes, and start the next ones, with rewards of 0."""
        terminals = self._terminals(ended, rewards[ended.copies])
        rewards[ended.copies] = 0
        for copy in ended.copies:
            self._start_episode(copy, masks)
        return terminals

    def _terminals(self, ended: _Ended, rewards: NDArray[np.float32]) -> TerminalSteps:
        """The TerminalSteps of ended episodes."""
        count = len(ended.copies)
        group_ids, group_rewards = self._no_group
        return TerminalSteps(
            self._buffers.select(ended.copies),
            rewards,
            np.array(ended.interrupted, np.bool_),
            np.array(ended.ids, np.int32),
            group_ids[:count],
            group_rewards[:count],
        )

    def _finish_step(self, rewards: NDArray[np.float32], masks: _Masks, terminals: TerminalSteps) -> None:
        ids = np.array(self._ids, np.int32)
        branches = self._spec.action_spec.discrete_branches
        closed = self._closed(masks, branches) if masks else None
        decisions = DecisionSteps(self._buffers.now, rewards, ids, closed, *self._no_group)
        self._steps[self.name] = (decisions, terminals)

    def _closed(self, masks: _Masks, branches: tuple[int, ...]) -> list[NDArray[np.bool_]]:
        """[copies, branch size] per branch, True for actions that are not allowed."""
        flat = np.zeros((len(self._envs), sum(branches)), np.bool_)
        for copy, forbidden in masks.items():
            flat[copy] = forbidden
        return np.split(flat, np.cumsum(branches)[:-1], axis=1)


class ObservationBuffers:
    """The latest observation of each copy, one array [copies, *shape] per sensor.

    With several frames, a sensor stacks the last ones along its first axis, the oldest first, and zeros
    before an episode, as Unity's StackingSensor; it has the same name, from which a replay buffer knows that
    it can store each frame once.
    """

    def __init__(self, sensors: Sequence[SpaceSensor], copies: int, frames: int = 1) -> None:
        self._sensors = sensors
        self._frames = frames
        self.specs = [stacked(sensor.spec, frames) for sensor in sensors]
        self.now: list[ObsArray] = [
            np.zeros((copies, *spec.shape), sensor.dtype) for spec, sensor in zip(self.specs, sensors)
        ]

    def start_step(self) -> None:
        """Start a step in new arrays: those in `now` have been handed out."""
        self.now = [self._following(array, sensor) for array, sensor in zip(self.now, self._sensors)]

    def _following(self, array: ObsArray, sensor: SpaceSensor) -> ObsArray:
        """A new array with the previous frames; the latest is still to be written."""
        new = np.empty_like(array)
        if self._frames > 1:
            size = sensor.spec.shape[0]
            new[:, :-size] = array[:, size:]
        return new

    def write(self, copy: int, observation: Any) -> None:
        """Write a copy's latest frame.

        Raises:
            ValueError: The observation is not in the space.
        """
        for sensor, array in zip(self._sensors, self.now):
            sensor.read(observation, array[copy, -sensor.spec.shape[0] :])

    def reset(self, copy: int, observation: Any) -> None:
        """Write the first frame of an episode. Raises as `write`."""
        if self._frames > 1:
            for array in self.now:
                array[copy] = 0
        self.write(copy, observation)

    def select(self, copies: Sequence[int]) -> list[ObsArray]:
        """The latest observations of these copies, [n, *shape] per sensor, in new arrays."""
        return [array[copies] for array in self.now]


def stacked(spec: ObservationSpec, frames: int) -> ObservationSpec:
    """The specification of a sensor that stacks `frames` of its observations."""
    if frames == 1:
        return spec
    shape = (frames * spec.shape[0], *spec.shape[1:])
    return spec._replace(shape=shape, name=f"StackingSensor_size{frames}_{spec.name}")
