"""A hosted environment in the trainer, and the side channel for faults of the game and lost lives.

The channel is Lanista's own. Other trainers ignore it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
from mlagents_envs.exception import UnitySideChannelException
from numpy.typing import NDArray

from ..engines.options import EngineOptions
from ..errors import EnvContractError
from ..side_channels import (
    EnvironmentParametersChannel,
    IncomingMessage,
    OutgoingMessage,
    SideChannel,
    StatsSideChannel,
)
from ..unity.environment import UnityEnvironment
from ..validation import NO_AGENTS
from .source import hosted


class HostedEnvironment(UnityEnvironment):
    """A Python environment in a process of its own, which this launches.

    Its agents' steps, statistics and lost lives are the same as when it is stepped in this process.
    """

    def _open(self, options: EngineOptions, side_channels: Sequence[SideChannel]) -> None:
        """Launch the process, which makes `num_areas` copies; with `connect`, its launcher does that."""
        self._reports = ReportReader()
        self._where = ""
        if options.log_folder is not None:
            log = options.log_folder / f"Player-{options.worker_id}.log"
            self._where = f" Its process has logged more to {log}."
        own = [EnvironmentParametersChannel(), StatsSideChannel(), self._reports]
        super()._open(hosted(options), [*side_channels, *own])

    def receive(self) -> None:
        """Wait for the engine's message, and read it.

        Raises:
            EnvContractError: The environment cannot be made, returns what is not in its spaces, or raises an
                exception, as if it were stepped in this process.
        """
        self._reports.start_message()
        super().receive()
        if self._reports.fault is not None:
            raise EnvContractError(f"{self._reports.fault}{self._where}")

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] The agents of the last DecisionSteps that lost a life in the last step, but not the episode."""
        return self._reports.lives.get(behavior_name, NO_AGENTS)


_ID = uuid.UUID("b1f2ad6e-5c5e-4b2b-9a5d-7e3d0d6c1a48")
_FAULT, _LIVES = 0, 1


class ReportSender(SideChannel):
    """The engine's side of the channel."""

    def __init__(self) -> None:
        super().__init__(_ID)

    def fault(self, text: str) -> None:
        """Report that the game cannot continue, and why; a restart would not help."""
        message = OutgoingMessage()
        message.write_int32(_FAULT)
        message.write_string(text)
        self.queue_message_to_send(message)

    def lives(self, behavior: str, agents: NDArray[np.int32]) -> None:
        """Report agents that have lost a life but not the episode, [n] ids."""
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
        """Refuse it: trainers send nothing on this channel."""
        raise UnitySideChannelException("The trainer sent a report; reports are only sent to the trainer.")


class ReportReader(SideChannel):
    """The trainer's side of the channel: the reports of the engine's last message."""

    def __init__(self) -> None:
        super().__init__(_ID)
        self.fault: str | None = None
        """Why the game cannot continue."""
        self.lives: dict[str, NDArray[np.int32]] = {}
        """[n] Ids of agents that lost a life, by behavior."""

    def start_message(self) -> None:
        """Start a new message."""
        self.lives.clear()

    def on_message_received(self, msg: IncomingMessage) -> None:
        """Read a report.

        Raises:
            UnitySideChannelException: Its kind is unknown.
        """
        kind = msg.read_int32(-1)
        if kind == _FAULT:
            self.fault = msg.read_string()
        elif kind == _LIVES:
            behavior = msg.read_string()
            self.lives[behavior] = np.array([msg.read_int32() for _ in range(msg.read_int32())], np.int32)
        else:
            raise UnitySideChannelException(f"Received a report of the unknown kind {kind}; expected 0 or 1.")
