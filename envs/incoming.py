"""An engine's answers, from its connection through the decoder."""

from __future__ import annotations

from collections.abc import Callable

from .connection import EngineConnection
from .wire.codec import Decoder, EngineMessage, Underway
from .wire.errors import WireError


class Incoming:
    """Takes one answer after the other in; other threads decode pictures while its owner does other things.

    Args:
        connection: Where the answers come from.
        decoder: Of this engine.
        announce: Called, from another thread, when pictures have been decoded that `ready` did not wait for.
    """

    def __init__(self, connection: EngineConnection, decoder: Decoder, announce: Callable[[], None]) -> None:
        self._connection = connection
        self._decoder = decoder
        self._announce = announce
        self._underway: Underway | WireError | None = None

    def ready(self) -> bool:
        """Whether `receive` would return or raise without waiting. Begins to read what is there."""
        arrived = self._connection.ready()
        if self._underway is None:
            if not self._connection.arrived:
                return arrived
            self._underway = self._begin()
        return isinstance(self._underway, WireError) or self._underway.ready

    def receive(self) -> EngineMessage:
        """The engine's next answer, waiting for it.

        Raises:
            UnityException: As `EngineConnection.receive` and `Decoder.decode`.
        """
        underway = self._begin() if self._underway is None else self._underway
        self._underway = None
        if isinstance(underway, WireError):
            raise underway
        return underway.finish()

    def _begin(self) -> Underway | WireError:
        try:
            return self._decoder.begin(self._connection.receive(), self._announce)
        except WireError as error:
            return error
