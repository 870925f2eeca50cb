"""Engines that are expected by name, as those of a Ray cluster are."""

from __future__ import annotations

import queue
from contextlib import suppress

from mlagents_envs.exception import UnityTimeOutException

from .handshake import AttachedEngine, GreetedEngine
from .tokens import make_token


class ExpectedEngine:
    """An engine that is expected by name."""

    def __init__(self, name: str, greeted: GreetedEngine | None = None) -> None:
        self.name = name
        self.greeted = greeted
        self.token = make_token()
        """The token that its relay must present; valid for one engine."""
        self._arrived: queue.SimpleQueue[AttachedEngine] = queue.SimpleQueue()

    def put(self, engine: AttachedEngine) -> None:
        """Hand over the engine; called by the server."""
        self._arrived.put(engine)

    def wait(self, timeout: float) -> AttachedEngine:
        """Wait for the engine.

        Raises:
            UnityTimeOutException: It did not connect within `timeout` seconds.
        """
        try:
            return self._arrived.get(timeout=timeout)
        except queue.Empty:
            raise UnityTimeOutException(
                f"No engine called {self.name!r} has connected within {timeout:g} s."
            ) from None

    def reject(self) -> None:
        """Stop waiting: reject an engine that has connected."""
        with suppress(queue.Empty):
            while True:
                self._arrived.get_nowait().reject("it is no longer expected")
