"""The gate as a manager's door: engines that come through it become environments."""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from mlagents_envs.base_env import BaseEnv

from ..manager.specs import Refusal
from .handshake import Admitted
from .server import Gate, OnEngine

MOST_WAITING = 1024
"""Engines that may wait to be taken in, while the trainer learns."""

MakeEnv = Callable[[int, Admitted], BaseEnv]


@dataclass(frozen=True, slots=True)
class Attached:
    """An engine that has been let in and is about to become an environment."""

    engine: Admitted
    make_env: MakeEnv

    @property
    def where(self) -> str:
        """Its address, or its relay's."""
        return self.engine.where

    def make(self, index: int) -> BaseEnv:
        """The environment of this index."""
        return self.make_env(index, self.engine)

    def part(self, reason: str) -> None:
        """What its relay is to be told when it is closed."""
        self.engine.endpoint.last_words = reason


class Entrance:
    """A `Door` behind which a gate listens.

    Args:
        make_gate: Makes the gate, which hands its engines to what this is given.
        make_env: Makes an environment of an index and an engine; called from another thread.
        refusal: Why a behaviour cannot take part; None if it can.
    """

    def __init__(
        self,
        make_gate: Callable[[OnEngine], Gate],
        make_env: MakeEnv,
        refusal: Refusal = lambda behavior, spec, among_others: None,
    ) -> None:
        self.refusal = refusal
        self._make_env = make_env
        self._waiting: queue.SimpleQueue[Admitted] = queue.SimpleQueue()
        self._announce: Callable[[], None] = lambda: None
        self.gate = make_gate(self._take)

    @property
    def where(self) -> str:
        """The address on which engines call."""
        return self.gate.address

    def open(self, announce: Callable[[], None]) -> None:
        """Let engines in from now on."""
        self._announce = announce
        self.gate.start()

    def next(self) -> Attached | None:
        """The engine that waits longest."""
        with suppress(queue.Empty):
            return Attached(self._waiting.get_nowait(), self._make_env)
        return None

    def close(self) -> None:
        """Stop listening, and send away who waits."""
        self.gate.close()
        while (newcomer := self.next()) is not None:
            newcomer.engine.turn_away("the run is over")

    def _take(self, engine: Admitted) -> None:
        """Called from the gate's thread."""
        if self._waiting.qsize() >= MOST_WAITING:
            engine.turn_away("too many engines wait to take part")
            return
        self._waiting.put(engine)
        self._announce()
