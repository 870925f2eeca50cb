"""One environment of Gymnasium: what is used of it, and what may be wrong with it."""

from __future__ import annotations

import logging
from typing import Any, Protocol

import numpy as np

from .action_spaces import Actor, actor
from .faults import GameFaultError, UnsupportedSpaceError
from .pixels import Images
from .spaces import Sensor, sensors

logger = logging.getLogger(__name__)

BREAKS = (KeyError, IndexError, TypeError, ValueError)
"""What comes of values that are not of their spaces."""


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


def reward_of(reward: Any) -> float:
    """The number that a step gave, also where it is an array of one number.

    Raises:
        TypeError, ValueError: It is no number, or several.
    """
    return float(reward.item() if isinstance(reward, np.ndarray) else reward)


def broken(env: Env, error: Exception) -> GameFaultError:
    """What to raise where one of `BREAKS` was found."""
    return GameFaultError(
        f"{env} gives what is not of its spaces, or no reward that is a number ({type(error).__name__}: "
        f"{error}). gymnasium.utils.env_checker.check_env looks an environment over."
    )
