"""The attach server as a source of environments for the manager."""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from mlagents_envs.base_env import BaseEnv

from ..engines.limits import RejectionLog
from ..manager.specs import Refusal
from .handshake import AttachedEngine
from .server import AttachServer, OnEngine

MAX_WAITING = 1024
"""Engines that may wait to be added while the trainer learns."""

MakeEnv = Callable[[int, AttachedEngine], BaseEnv]


@dataclass(frozen=True, slots=True)
class PendingEngine:
    """An admitted engine that is about to become an environment."""

    engine: AttachedEngine
    make_env: MakeEnv

    @property
    def where(self) -> str:
        """Its address, or its relay's."""
        return self.engine.where

    def make(self, index: int) -> BaseEnv:
        """Make the environment with this index."""
        return self.make_env(index, self.engine)

    def close_with_reason(self, reason: str) -> None:
        """Set the reason that its relay gets when it is closed."""
        self.engine.session.closing_reason = reason

    def on_rejected(self) -> None:
        """It has left, or is turned away, before it took part."""
        self.engine.on_rejected()


class AttachSource:
    """An environment source that listens for running engines.

    Args:
        make_server: Makes the server, given a callback for admitted engines.
        make_env: Makes an environment from an index and an engine; called from another thread.
        refusal: Why a behavior cannot take part; None if it can.
    """

    def __init__(
        self,
        make_server: Callable[[OnEngine], AttachServer],
        make_env: MakeEnv,
        refusal: Refusal = lambda behavior, spec, among_others: None,
    ) -> None:
        self.refusal = refusal
        self._make_env = make_env
        self._waiting: queue.SimpleQueue[AttachedEngine] = queue.SimpleQueue()
        self._rejections = RejectionLog()
        self._announce: Callable[[], None] = lambda: None
        self.server = make_server(self._take)

    @property
    def where(self) -> str:
        """The address that engines connect to."""
        return self.server.address

    def open(self, announce: Callable[[], None]) -> None:
        """Start to accept engines."""
        self._announce = announce
        self.server.start()

    def next(self) -> PendingEngine | None:
        """The engine that has waited longest; None if there is none."""
        with suppress(queue.Empty):
            while True:
                engine = self._waiting.get_nowait()
                if not engine.has_left():
                    return PendingEngine(engine, self._make_env)
                host = engine.where.rpartition(":")[0]
                self._rejections.log(host, engine.where, "it left before it could take part")
                engine.on_rejected()
                engine.reject()
        return None

    def close(self) -> None:
        """Stop listening, and reject the engines that wait."""
        self.server.close()
        while (pending := self.next()) is not None:
            pending.engine.reject("the run is over")
        self._rejections.finish_period()

    def _take(self, engine: AttachedEngine) -> None:
        """Called from the server's thread."""
        if self._waiting.qsize() >= MAX_WAITING:
            engine.reject("too many engines are waiting to be added")
            return
        self._waiting.put(engine)
        self._announce()
