"""A hosted environment as the trainer knows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..faults import GameFaultError
from ..finite import NO_AGENTS
from ..launch import HOSTED
from ..pixels import Images
from ..side_channels import StatsSideChannel
from ..unity import Connect, UnityEnvironment
from .reports import ReportReader
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
