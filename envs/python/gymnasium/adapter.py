"""One environment of Gymnasium: what is used of it, and what may be wrong with it.

Lives of a game, such as Atari's: losing one ends a trajectory, but not the episode.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from ...errors import GameFaultError, UnsupportedSpaceError
from ...images import Images
from ..action_spaces import Actor, actor
from ..calls import called, parts_of
from ..spaces import Sensor, sensors

logger = logging.getLogger(__name__)

_BEGINNING = ("observation", "info")
_STEP = ("observation", "reward", "terminated", "truncated", "info")


class Env(Protocol):
    """What is used of `gymnasium.Env`."""

    observation_space: Any
    action_space: Any

    @property
    def unwrapped(self) -> Any:
        """The environment without wrappers."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation and the info."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""

    def render(self) -> Any:
        """A picture [height, width, 3], in the render mode `rgb_array`."""

    def close(self) -> None:
        """Let go of windows and the like."""


def mapped(env: Env, images: Images) -> tuple[list[Sensor], Actor]:
    """The environment's spaces in ML-Agents' terms.

    Raises:
        UnsupportedSpaceError: One of them cannot be used.
    """
    try:
        seen, acts = sensors(env.observation_space, images=images), actor(env.action_space)
    except UnsupportedSpaceError as error:
        raise UnsupportedSpaceError(f"{env}: {error}") from error
    if acts.unbounded:
        logger.warning(
            "%s: numbers of %s lack a bound. They get what the policy decides, within -1 to 1; to reach "
            "further, wrap the environment in one whose action space has bounds "
            "(gymnasium.wrappers.TransformAction).",
            *(env, ", ".join(acts.unbounded)),
        )
    return seen, acts


def begun(env: Env, seed: int | None) -> tuple[Any, ...]:
    """The first observation of an episode, and the info.

    Raises:
        GameFaultError: `reset` raises an exception, or gives something else.
    """
    return parts_of(called(env, "reset", seed=seed), env, "reset", _BEGINNING)


def stepped(env: Env, action: Any) -> tuple[Any, ...]:
    """Observation, reward, terminated, truncated and info of a step.

    Raises:
        GameFaultError: `step` raises an exception, or gives something else.
    """
    return parts_of(called(env, "step", action), env, "step", _STEP)


def broken(env: Env, error: Exception) -> GameFaultError:
    """What to raise where a value is not of its space."""
    return GameFaultError(
        f"{env} gives what does not fit: {error}. gymnasium.utils.env_checker.check_env looks an "
        "environment over."
    )


class Lives:
    """How many lives each copy has left.

    The last life is no loss of this kind: with it the episode ends.
    """

    def __init__(self, copies: int) -> None:
        self._left = [0] * copies

    def begin(self, copy: int, env: Any, info: Mapping[str, Any]) -> None:
        """An episode begins."""
        self._left[copy] = _lives(env, info)

    def lost(self, copy: int, env: Any, info: Mapping[str, Any]) -> bool:
        """Whether a life was lost in this step and others are left.

        Raises:
            GameFaultError: The environment does not tell of lives.
        """
        before, self._left[copy] = self._left[copy], _lives(env, info)
        return 0 < self._left[copy] < before


def _lives(env: Any, info: Mapping[str, Any]) -> int:
    """The lives left, from the info or from Atari's emulator."""
    if "lives" in info:
        return int(info["lives"])
    emulator = getattr(env.unwrapped, "ale", None)
    if emulator is None:
        raise GameFaultError(
            f"{env} was to be played with lives=true, but tells of no lives: it has neither info['lives'] "
            "nor an Atari emulator (ale.lives()). Leave lives out."
        )
    return int(emulator.lives())
