"""A hosted environment as the trainer knows it.

What a hosted environment tells beside its agents' steps: faults of the game, and lives that were lost.

The channel is Lanista's own. Trainers that do not know it pass it over.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
from mlagents_envs.exception import UnitySideChannelException
from numpy.typing import NDArray

from ..errors import GameFaultError
from ..images import Images
from ..side_channels import IncomingMessage, OutgoingMessage, SideChannel, StatsSideChannel
from ..unity.environment import Connect, UnityEnvironment
from ..unity.launch import HOSTED
from ..validation import NO_AGENTS
from .source import HostedSource


class HostedEnvironment(UnityEnvironment):
    """An environment in Python that is stepped in a process of its own, launched by this.

    Its agents' steps, statistics and lost lives are those that it has when it is stepped in place.
    """

    def __init__(
        self,
        source: HostedSource,
        worker_id: int = 0,
        base_port: int | None = None,
        *,
        seed: int = 0,
        timeout_wait: float = 60,
        log_folder: str | Path | None = None,
        num_areas: int = 1,
        listen: str = "localhost",
        non_finite: str | None = None,
        images: Images = "float32",
        connect: Connect | None = None,
    ) -> None:
        """Launch the process. The arguments are those of `UnityEnvironment`, and raise what it raises.

        Args:
            source: What to host; `num_areas` copies of it. With `connect` it is said by who brings it about.
        """
        self._reports = ReportReader()
        self._where = ""
        if log_folder is not None:
            log = Path(log_folder) / f"Player-{worker_id}.log"
            self._where = f" Its process has logged more to {log}."
        super().__init__(
            HOSTED + source.path.strip(),
            worker_id,
            base_port,
            seed,
            timeout_wait=timeout_wait,
            additional_args=source.options(),
            side_channels=[StatsSideChannel(), self._reports],
            log_folder=log_folder,
            num_areas=num_areas,
            listen=listen,
            non_finite=non_finite,
            images=images,
            connect=connect,
        )

    def receive(self) -> None:
        """Take the engine's answer in, waiting for it.

        Raises:
            GameFaultError: The environment cannot be made, gives what is not of its spaces, or raises an
                exception; as the one that is stepped in place.
        """
        self._reports.forget_lives()
        super().receive()
        if self._reports.fault is not None:
            raise GameFaultError(f"{self._reports.fault}{self._where}")

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """[n] the agents of the last DecisionSteps that lost a life on the way there and go on."""
        return self._reports.lives.get(behavior_name, NO_AGENTS)


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
