"""The environments that every trainer of tests/benchmarks/field.py gets, which write down their own episodes.

Importing the module registers them, so that `gymnasium.make("field_environments:Catch-v0")` works wherever
this folder is in PYTHONPATH. It needs gymnasium, 0.29 or newer, and nothing of Lanista.

Trainers count steps and episodes each in their own way, so none of them is asked. The file that FIELD_LOG
names gets a line for the first step of every process and for every episode that ends: the time, the return
and length of the episode (0 for the first step), the process, and the steps of all its environments so far.
"""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

Result = tuple[Any, float, bool, bool, dict[str, Any]]


class Log:
    """The steps of this process's environments, and the file that gets their episodes, if there is one."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.steps = 0
        self.process = 0

    def step(self) -> None:
        """Count a step; the first one of a process is written down."""
        if self.process != os.getpid():  # also in a fork, which inherits the counts of its parent
            self.process, self.steps = os.getpid(), 0
            self.write(0.0, 0)
        self.steps += 1

    def write(self, earned: float, length: int) -> None:
        """Append a line in one piece: several processes write to the same file."""
        if self.path:
            line = f"{time.time():.6f} {earned:g} {length} {self.process} {self.steps}\n"
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line)


LOG = Log(os.environ.get("FIELD_LOG"))


class Recorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Writes down every episode of an environment."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start the next episode."""
        self.earned, self.length = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Result:
        """Step, and write down the episode if it has ended."""
        LOG.step()
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.earned += float(reward)
        self.length += 1
        if terminated or truncated:
            LOG.write(self.earned, self.length)
        return observation, float(reward), terminated, truncated, info


class Catch(gymnasium.Env[NDArray[np.uint8], Any]):
    """Balls fall, one after the other, and a paddle at the bottom moves to catch them, seen as a picture.

    1 for a ball that is caught, -1 for one that is missed. Everything is on a grid of 4 x 4: a ball falls in
    four steps, in which the paddle can get from one side to the other, and random play catches one in four.

    Args:
        balls: That fall in an episode.
        channels_first: Whether pictures are 1 x 64 x 64 instead of 64 x 64 x 1.
    """

    SIZE, CELL = 64, 16
    """Of the picture and of a cell of the grid, in pixels."""
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, balls: int = 16, channels_first: bool = False) -> None:
        shape = (1, self.SIZE, self.SIZE) if channels_first else (self.SIZE, self.SIZE, 1)
        self.observation_space = Box(0, 255, shape, np.uint8)
        self.action_space = Discrete(3)  # left, stay, right
        self.balls = balls
        self._picture = np.zeros(shape, np.uint8)
        self._rows = self._picture.reshape(self.SIZE, self.SIZE)  # the same memory

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """The first ball at the top, the paddle left of the middle."""
        super().reset(seed=seed)
        self.left = self.balls
        self.paddle = self.CELL
        self._drop()
        return self._seen(), {}

    def step(self, action: Any) -> Result:
        """Move the paddle, then the ball."""
        self.paddle = min(max(self.paddle + self.CELL * (int(action) - 1), 0), self.SIZE - self.CELL)
        self.row += self.CELL
        reward = 0.0
        if self.row > self.SIZE - self.CELL:
            reward = 1.0 if self.column == self.paddle else -1.0
            self.left -= 1
            self._drop()
        return self._seen(), reward, self.left == 0, False, {}

    def _drop(self) -> None:
        self.row = 0
        self.column = self.CELL * int(self.np_random.integers(self.SIZE // self.CELL))

    def _seen(self) -> NDArray[np.uint8]:
        self._rows[:] = 0
        self._rows[self.row : self.row + self.CELL, self.column : self.column + self.CELL] = 255
        self._rows[-8:, self.paddle : self.paddle + self.CELL] = 128
        return self._picture.copy()


class WithoutVelocities(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole of which only the positions are seen, as in sb3-contrib's tests of memory."""

    def observation(self, observation: Any) -> Any:
        """Zeros in place of the velocities."""
        return observation * np.array([1, 0, 1, 0], np.float32)


def make_cartpole() -> Recorded:
    """CartPole-v1."""
    return Recorded(TimeLimit(CartPoleEnv(), max_episode_steps=500))


def make_catch(channels_first: bool = False) -> Recorded:
    """Sixteen balls."""
    return Recorded(Catch(channels_first=channels_first))


def make_cartpole_without_velocities() -> WithoutVelocities:
    """CartPole-v1 for an agent with memory."""
    return WithoutVelocities(TimeLimit(CartPoleEnv(), max_episode_steps=500))


gymnasium.register("CartPoleNoVel-v1", make_cartpole_without_velocities)
gymnasium.register("RecordedCartPole-v1", make_cartpole)
gymnasium.register("Catch-v0", make_catch)
