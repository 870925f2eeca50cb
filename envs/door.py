"""Where environments come from that start by themselves, as a manager sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mlagents_envs.base_env import BaseEnv, BehaviorSpec

from .steps import BehaviorId


class Newcomer(Protocol):
    """An environment that runs already and wants to take part."""

    @property
    def where(self) -> str:
        """Where it is, for messages."""

    def make(self, index: int) -> BaseEnv:
        """The environment, as the one of this index; called once, from another thread. It may block, and
        raise what keeps the environment from taking part.
        """

    def part(self, reason: str) -> None:
        """The environment is about to be closed; this is what it is told."""


class Door(Protocol):
    """Lets environments in while a run is under way. All methods are called from the manager's thread."""

    @property
    def where(self) -> str:
        """Where environments come in, for messages."""

    def open(self, announce: Callable[[], None]) -> None:
        """Let them in from now on. `announce` is called, from any thread, when `next` has somebody."""

    def next(self) -> Newcomer | None:
        """Who waits longest to be taken in; None where nobody does."""

    def refusal(self, behavior: BehaviorId, spec: BehaviorSpec, among_others: bool) -> str | None:
        """Why an environment that shows this new behaviour cannot take part; None if it can.

        `among_others`: whether some take part already.
        """

    def close(self) -> None:
        """Let nobody in any more, and send away who waits."""
