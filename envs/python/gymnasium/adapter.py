"""Checked calls of one Gymnasium environment, and the lives of games such as Atari's."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from ...errors import EnvContractError, UnsupportedSpaceError
from ...images import Images
from ..action_spaces import ActionDecoder, action_decoder
from ..calls import call_method, check_result
from ..spaces import SpaceSensor, sensors

logger = logging.getLogger(__name__)

_RESET = ("observation", "info")
_STEP = ("observation", "reward", "terminated", "truncated", "info")


class Env(Protocol):
    """The part of `gymnasium.Env` that is used."""

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
            raise UnsupportedSpaceError(f"{env} has no {name}, which Gymnasium's environments have.")
    try:
        seen, acts = sensors(env.observation_space, images=images), action_decoder(env.action_space)
    except UnsupportedSpaceError as error:
        raise UnsupportedSpaceError(f"{env}: {error}") from error
    if acts.unbounded:
        logger.warning(
            "%s: values of %s lack a bound. They get the policy's actions, within -1 to 1; for a larger "
            "range, wrap the environment so that its action space has bounds "
            "(gymnasium.wrappers.TransformAction).",
            *(env, ", ".join(acts.unbounded)),
        )
    return seen, acts


def reset_env(env: Env, seed: int | None) -> tuple[Any, ...]:
    """Reset the environment; returns the first observation and the info.

    Raises:
        EnvContractError: `reset` raises an exception, or returns something else.
    """
    return check_result(call_method(env, "reset", seed=seed), env, "reset", _RESET)


def step_env(env: Env, action: Any) -> tuple[Any, ...]:
    """Step the environment; returns observation, reward, terminated, truncated and info.

    Raises:
        EnvContractError: `step` raises an exception, or returns something else.
    """
    return check_result(call_method(env, "step", action), env, "step", _STEP)


def mismatch(env: Env, error: Exception) -> EnvContractError:
    """The error for a value that is not in its space."""
    return EnvContractError(
        f"{env} returned what does not fit: {error}. gymnasium.utils.env_checker.check_env checks an "
        "environment."
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
        return int(info["lives"])
    emulator = getattr(env.unwrapped, "ale", None)
    if emulator is None:
        raise EnvContractError(
            f"{env} is played with lives=true, but reports no lives: it has neither info['lives'] nor an "
            "Atari emulator (ale.lives()). Leave lives out."
        )
    return int(emulator.lives())
