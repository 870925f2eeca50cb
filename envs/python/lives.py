"""Lives of a game, such as Atari's: losing one ends a trajectory, but not the episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..faults import GameFaultError


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
