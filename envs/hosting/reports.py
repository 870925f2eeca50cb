"""What a hosted environment tells beside its agents' steps: faults of the game, and lives that were lost.

The channel is Lanista's own. Trainers that do not know it pass it over.
"""

from __future__ import annotations

import uuid

import numpy as np
from mlagents_envs.exception import UnitySideChannelException
from numpy.typing import NDArray

from ..side_channels import IncomingMessage, OutgoingMessage, SideChannel

_ID = uuid.UUID("b1f2ad6e-5c5e-4b2b-9a5d-7e3d0d6c1a48")
_FAULT, _LIVES = 0, 1


class Reports(SideChannel):
    """The engine's end."""

    def __init__(self) -> None:
        super().__init__(_ID)

    def fault(self, text: str) -> None:
        """Tell that the game cannot go on, and why; a new start would not mend it."""
        message = OutgoingMessage()
        message.write_int32(_FAULT)
        message.write_string(text)
        self.queue_message_to_send(message)

    def lives(self, behavior: str, agents: NDArray[np.int32]) -> None:
        """Tell of agents that have lost a life and go on, [n] ids; nothing where there are none."""
        if not len(agents):
            return
        message = OutgoingMessage()
        message.write_int32(_LIVES)
        message.write_string(behavior)
        message.write_int32(len(agents))
        for agent in agents.tolist():
            message.write_int32(agent)
        self.queue_message_to_send(message)

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Refuse it: trainers only listen here."""
        raise UnitySideChannelException("The trainer sent a report; they only go to the trainer.")


class ReportReader(SideChannel):
    """The trainer's end: what the engine's last message told."""

    def __init__(self) -> None:
        super().__init__(_ID)
        self.fault: str | None = None
        """Why the game cannot go on."""
        self.lives: dict[str, NDArray[np.int32]] = {}
        """[n] ids by behaviour."""

    def forget_lives(self) -> None:
        """Begin a new message."""
        self.lives.clear()

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Take a report in.

        Raises:
            UnitySideChannelException: It is of no kind that is known.
        """
        kind = msg.read_int32(-1)
        if kind == _FAULT:
            self.fault = msg.read_string()
        elif kind == _LIVES:
            behavior = msg.read_string()
            self.lives[behavior] = np.array([msg.read_int32() for _ in range(msg.read_int32())], np.int32)
        else:
            raise UnitySideChannelException(f"A report of the kind {kind} came; known are 0 and 1.")
