"""Gymnasium's environments as a BaseEnv: many copies, whose agents are one behaviour.

What the agents of a Gymnasium environment see, gathered into the arrays of a behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from ...errors import UnsupportedSpaceError
from ...images import Images
from ...validation import NO_AGENTS
from ..action_spaces import forbidden, given_mask
from ..base import InProcessEnvironment
from ..calls import number, seed_of_copy, truth
from ..spaces import Sensor
from .adapter import Env, Lives, begun, broken, mapped, stepped


@dataclass(slots=True)
class _Ended:
    """The copies whose episodes ended in this step, row for row."""

    copies: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    interrupted: list[bool] = field(default_factory=list)


class GymnasiumEnvironment(InProcessEnvironment):
    """Any number of copies of an environment, stepped one after the other in the caller's thread.

    Each copy has one agent, which decides at every step. When its episode ends, its last observation comes in
    the TerminalSteps, and the first one of its next episode, under a new id, in the DecisionSteps of the same
    step. Truncation is an interruption, unless the episode has terminated too.

    Whatever the copies hand out is copied at once, so that they may use their arrays again.
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
            make: Makes one.
            behavior: What the behaviour is called, such as `CartPole-v1`.
            seed: Of the first copy's chance; the others' are drawn from it. None: another one each time.
            copies: How many.
            stack: How many frames agents see at once.
            lives: Losing a life ends the trajectory, though not the episode; see `lost_lives`.
            images: What images are given out as: 0 to 1, or for a trainer the bytes.

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
            seen, self._actor = mapped(first, images)
        except UnsupportedSpaceError:
            first.close()
            raise
        self._envs = [first, *(make() for _ in range(copies - 1))]
        self._seeds = [seed_of_copy(seed, copy) for copy in range(copies)]
        self._views = Views(seen, copies, stack)
        self._lives = Lives(copies) if lives else None
        self._spec = BehaviorSpec(self._views.specs, self._actor.spec)
        self._ids = [0] * copies
        self._next_id = 0
        self._no_group = np.zeros(copies, np.int32), np.zeros(copies, np.float32)
        self._nobody = self._terminals(_Ended(), np.zeros(0, np.float32))
        self._lost = NO_AGENTS

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The one behaviour."""
        return BehaviorMapping({self.name: self._spec})  # type: ignore[no-any-return]

    @property
    def by_lives(self) -> bool:
        """Whether losing a life ends the trajectory."""
        return self._lives is not None

    def reset(self) -> None:
        """Begin a new episode in every copy. The episodes that are cut thereby are not reported.

        Raises:
            GameFaultError: An observation is not of its space.
        """
        self._begin_step()
        masks: dict[int, Any] = {}
        for copy in range(len(self._envs)):
            self._begin_episode(copy, masks)
        self._finish_step(np.zeros(len(self._envs), np.float32), masks, self._nobody)

    def step(self) -> None:
        """Let the agents act; without actions these are zeros. A first step without a reset is a reset.

        Raises:
            GameFaultError: An observation, a reward or a mask is not as Gymnasium would have it.
        """
        if not self._steps:
            self.reset()
            return
        given = self._actions.get(self.name) or self._spec.action_spec.empty_action(len(self._envs))
        actions = self._actor.decode(given.continuous, given.discrete)
        self._begin_step()
        rewards = np.zeros(len(self._envs), np.float32)
        masks: dict[int, Any] = {}
        ended, lost = _Ended(), []
        for copy, (env, action) in enumerate(zip(self._envs, actions)):
            observation, reward, terminated, truncated, info = stepped(env, action)
            try:
                rewards[copy] = number(reward)
                self._views.see(copy, observation)
                terminated, truncated = truth(terminated, "terminated"), truth(truncated, "truncated")
            except ValueError as error:
                raise broken(env, error) from error
            if terminated or truncated:
                ended.copies.append(copy)
                ended.ids.append(self._ids[copy])
                ended.interrupted.append(not terminated)
                continue
            mask = given_mask(observation, info)
            if mask is not None:
                masks[copy] = mask
            if self._lives is not None and self._lives.lost(copy, env, info):
                lost.append(self._ids[copy])
        self._lost = np.array(lost, np.int32) if lost else NO_AGENTS
        terminals = self._end_episodes(ended, rewards, masks) if ended.copies else self._nobody
        self._finish_step(rewards, masks, terminals)

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] the agents of the last DecisionSteps that lost a life on the way there and go on.

        What they earned until then is to be valued as if their episode had ended.
        """
        return self._lost

    def draw(self) -> NDArray[np.uint8]:
        """A picture of the first copy, [height, width, 3]; its render mode is to be `rgb_array`."""
        picture: NDArray[np.uint8] = np.asarray(self._envs[0].render(), np.uint8)
        return picture

    def close(self) -> None:
        """Close every copy."""
        for env in self._envs:
            env.close()

    def _begin_step(self) -> None:
        self._actions.clear()
        self._lost = NO_AGENTS
        self._views.turn()

    def _begin_episode(self, copy: int, masks: dict[int, Any]) -> None:
        """The agent of a copy gets an id and its first observation."""
        env = self._envs[copy]
        observation, info = begun(env, self._seeds[copy])
        self._seeds[copy] = None  # from now on its chance goes on
        self._ids[copy] = self._next_id
        self._next_id += 1
        try:
            self._views.begin(copy, observation)
        except ValueError as error:
            raise broken(env, error) from error
        mask = given_mask(observation, info)
        if mask is not None:
            masks[copy] = mask
        if self._lives is not None:
            self._lives.begin(copy, env, info)

    def _end_episodes(
        self, ended: _Ended, rewards: NDArray[np.float32], masks: dict[int, Any]
    ) -> TerminalSteps:
        """Tell of those that have ended, and begin their next episodes, which have earned nothing yet."""
        terminals = self._terminals(ended, rewards[ended.copies])
        rewards[ended.copies] = 0
        for copy in ended.copies:
            self._begin_episode(copy, masks)
        return terminals

    def _terminals(self, ended: _Ended, rewards: NDArray[np.float32]) -> TerminalSteps:
        """What those that have ended see now."""
        count = len(ended.copies)
        group_ids, group_rewards = self._no_group
        return TerminalSteps(
            self._views.of(ended.copies),
            rewards,
            np.array(ended.interrupted, np.bool_),
            np.array(ended.ids, np.int32),
            group_ids[:count],
            group_rewards[:count],
        )

    def _finish_step(
        self, rewards: NDArray[np.float32], masks: dict[int, Any], terminals: TerminalSteps
    ) -> None:
        ids = np.array(self._ids, np.int32)
        branches = self._spec.action_spec.discrete_branches
        closed = self._closed(masks, branches) if masks and branches else None
        decisions = DecisionSteps(self._views.now, rewards, ids, closed, *self._no_group)
        self._steps[self.name] = (decisions, terminals)

    def _closed(self, masks: Mapping[int, Any], branches: tuple[int, ...]) -> list[NDArray[np.bool_]]:
        """[copies, branch size] per branch, True where an action is forbidden."""
        flat = np.zeros((len(self._envs), sum(branches)), np.bool_)
        for copy, mask in masks.items():
            try:
                flat[copy] = forbidden(mask, branches)
            except ValueError as error:
                raise broken(self._envs[copy], error) from error
        return np.split(flat, np.cumsum(branches)[:-1], axis=1)


class Views:
    """The newest observation of each copy, one array [copies, *shape] per sensor.

    With several frames, a sensor shows the last ones along its first axis, the oldest first, and zeros before
    an episode, as Unity's StackingSensor does; it is named as that one is, by which a replay knows that its
    frames need to be kept but once.
    """

    def __init__(self, sensors: Sequence[Sensor], copies: int, frames: int = 1) -> None:
        self._sensors = sensors
        self._frames = frames
        self.specs = [stacked(sensor.spec, frames) for sensor in sensors]
        self.now: list[ObsArray] = [
            np.zeros((copies, *spec.shape), sensor.dtype) for spec, sensor in zip(self.specs, sensors)
        ]

    def turn(self) -> None:
        """Begin a step: what `now` held so far belongs to whom it was given."""
        self.now = [self._following(array, sensor) for array, sensor in zip(self.now, self._sensors)]

    def _following(self, array: ObsArray, sensor: Sensor) -> ObsArray:
        """A new array, with the frames that stay visible; the newest is still to be written."""
        new = np.empty_like(array)
        if self._frames > 1:
            size = sensor.spec.shape[0]
            new[:, :-size] = array[:, size:]
        return new

    def see(self, copy: int, observation: Any) -> None:
        """A copy's newest frame.

        Raises:
            ValueError: The observation is not of the space.
        """
        for sensor, array in zip(self._sensors, self.now):
            sensor.read(observation, array[copy, -sensor.spec.shape[0] :])

    def begin(self, copy: int, observation: Any) -> None:
        """The first frame of an episode. Raises as `see`."""
        if self._frames > 1:
            for array in self.now:
                array[copy] = 0
        self.see(copy, observation)

    def of(self, copies: Sequence[int]) -> list[ObsArray]:
        """What these copies see now, [n, *shape] per sensor, in arrays of its own."""
        return [array[copies] for array in self.now]


def stacked(spec: ObservationSpec, frames: int) -> ObservationSpec:
    """The specification of a sensor that shows so many of its observations, one behind another."""
    if frames == 1:
        return spec
    shape = (frames * spec.shape[0], *spec.shape[1:])
    return spec._replace(shape=shape, name=f"StackingSensor_size{frames}_{spec.name}")
