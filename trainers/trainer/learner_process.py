"""The process in which a behavior is updated while its agents act (`threaded: true`), as the run sees it.

It remembers nothing between two updates: with the steps it gets the weights, the optimizers' moments and the
random states, and returns them as they are after the update. So whatever becomes of it, the run's own trainer
can be saved; and an update there gives the same numbers as one here.

The trainer takes an update in when it has collected the steps of the next one, however long the update took.
So a run repeats, and agents always act by the weights of the update before the last.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import torch
from mlagents_envs.base_env import BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException

from ...envs.engines.own_program import own_program
from ...envs.engines.process import EngineProcess
from ...envs.engines.reaper import REAPER
from ...envs.validation import NonFinitePolicy
from ..algorithms.fast.threads import UpdateThreads
from ..networks.modules.passes import Precision
from ..settings.models.behavior import TrainerSettings
from ..stats.timers import TimerNode, Timers
from ..utils.channel import Channel
from ..utils.errors import ProcessLostError, TrainerError
from ..utils.heartbeat import CHECK_SECONDS, Watch, await_end, last_change

PROGRAM = "lanista.trainers.runner.learner_program"
CONNECT_PAUSE = 0.02
"""Seconds between attempts to reach a process that is starting."""
CLOSING_SECONDS = 10.0
"""Seconds within which a process that is told to end has ended."""
_LONGEST_SOCKET = 103
"""The most bytes of a socket's path: macOS takes the fewest."""


@dataclass(frozen=True, slots=True)
class LearnerPlan:
    """What the process makes its trainer from."""

    name: str
    spec: BehaviorSpec
    settings: TrainerSettings
    seed: int
    device: torch.device
    non_finite: NonFinitePolicy
    precision: Precision
    threads: UpdateThreads
    """CPU threads of an update."""
    python_path: list[str] = field(default_factory=lambda: list(sys.path))
    """The paths from which plug-ins and networks of the user's own are imported."""


@dataclass(frozen=True, slots=True)
class UpdateJob:
    """What an update starts from."""

    step: int
    """The trainer's step."""
    state: dict[str, Any]
    """The trainer's state, that of `OnPolicyTrainer.learning_state`."""
    steps: Any
    """The columns of the rollout buffer."""
    signal_steps: Any
    """The columns of the buffer for reward signals that learn; None without such a signal."""
    older: bool
    """Whether some steps are of the policy before the newest one."""


@dataclass(frozen=True, slots=True)
class FinishedUpdate:
    """What came out of an update."""

    metrics: dict[str, float] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    """The trainer's state after the update, with the same entries as the job's."""
    timers: dict[str, TimerNode] = field(default_factory=dict)
    """The timers of all updates so far."""
    messages: list[tuple[str, int, str]] = field(default_factory=list)
    """The messages that were logged meanwhile: logger, level, text."""
    error: Exception | None = None
    """The error for which the update failed; then there is no state."""
    traceback: str = ""
    """The traceback of the error."""


def heartbeat_file(folder: Path) -> Path:
    """The file that a learner renews while it lives."""
    return folder / "alive"


class LearnerProcess:
    """Makes one update at a time beside this process.

    Like an engine it lives in a session of its own, so that Ctrl-C in the terminal reaches the run alone, and
    the reaper ends it should the run be killed.
    """

    def __init__(
        self,
        plan: LearnerPlan,
        timers: Timers,
        timeout: float = 60.0,
        ends: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start the process, without waiting until it is there.

        Args:
            plan: what the process makes its trainer from.
            timers: the process's own, in which its time is written down.
            timeout: seconds without a sign of life after which the process counts as lost.
            ends: whether the run is to end, which then waits `timeout` seconds at most for an update.

        Raises:
            TrainerError: the system refuses.
        """
        self._plan, self._timers = plan, timers
        self._folder = REAPER.make_folder("lanista-learner-")
        self._watch = Watch(partial(last_change, heartbeat_file(self._folder)), timeout, ends)
        on_windows = sys.platform == "win32"
        self._address = rf"\\.\pipe\{self._folder.name}" if on_windows else str(self._folder / "socket")
        if not on_windows and len(os.fsencode(self._address)) > _LONGEST_SOCKET:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise TrainerError(
                f"{plan.name}: its learner (threaded: true) needs a socket, and {self._address} is longer "
                f"than the {_LONGEST_SOCKET} bytes that systems take: set TMPDIR to a shorter path."
            )
        self._channel: Channel | None = None
        self._received: FinishedUpdate | None = None
        self.is_busy = False
        """Whether an update has begun whose result was not taken yet."""
        command = own_program(PROGRAM, self._address, str(self._folder))
        try:
            self.process = EngineProcess(command)
        except UnityEnvironmentException as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise TrainerError(f"{plan.name}: its learner (threaded: true) cannot start: {error}") from error

    def begin(self, job: UpdateJob) -> None:
        """Let the process make an update. When this returns, the arrays of the job may be overwritten.

        Raises:
            ProcessLostError: the process has ended, or shows no sign of life.
        """
        assert not self.is_busy, "the result of the last update is to be taken first"
        try:
            if self._channel is None:
                self._channel = self._connect()
            self._channel.send((self._plan, job))
        except OSError as error:
            raise self._lost() from error
        self.is_busy = True

    def check(self) -> None:
        """Raise what has gone wrong with the update under way, if that is known already.

        Raises:
            ProcessLostError: the process has ended.
            Exception: the update's own.
        """
        waits = self.is_busy and self._received is None
        if waits and self._channel is not None and self._channel.has_message():
            self._received = self._receive(self._channel)

    def result(self) -> FinishedUpdate:
        """Wait for the update; its state is valid until the next one begins.

        Raises as `check`, and ProcessLostError where the process shows no sign of life.
        """
        assert self.is_busy and self._channel is not None, "no update has begun"
        finished = self._received or self._receive(self._channel)
        self._received, self.is_busy = None, False
        self._timers.root.children = finished.timers
        return finished

    def _receive(self, channel: Channel) -> FinishedUpdate:
        try:
            while not channel.has_message(CHECK_SECONDS):
                self._require_life()
            finished = channel.receive()
        except (EOFError, OSError) as error:
            self.is_busy = False
            raise self._lost() from error
        assert isinstance(finished, FinishedUpdate)
        for name, level, text in finished.messages:
            logging.getLogger(name).log(level, "%s", text)
        if finished.error is not None:
            self.is_busy = False
            raise finished.error from TrainerError(f"in the learner's process:\n{finished.traceback}")
        return finished

    def _connect(self) -> Channel:
        while not self.process.wait(CONNECT_PAUSE):
            with suppress(FileNotFoundError, ConnectionRefusedError):
                return Channel(Client(self._address), self._folder)
            self._require_life()
        raise self._lost()

    def _require_life(self) -> None:
        """End a process that is not to be awaited any more.

        Raises:
            ProcessLostError: saying why.
        """
        reason = self._watch.lost_reason(self._name)
        if reason is not None:
            self.is_busy = False
            self.process.kill()
            raise self._lost_error(reason)

    def _lost(self) -> ProcessLostError:
        """The error of a process that has ended, or is about to."""
        await_end(self.process, self._watch, CLOSING_SECONDS)
        code = self.process.returncode
        how = "does not answer" if code is None else f"has ended with exit status {code}"
        if code is not None and code < 0:
            how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return self._lost_error(how)

    @property
    def _name(self) -> str:
        """The subject of a sentence about the process."""
        process = f"the process {self.process.pid}, which learns beside the environments (threaded: true),"
        return f"{self._plan.name}: {process}"

    def _lost_error(self, how: str) -> ProcessLostError:
        return ProcessLostError(
            f"{self._name} {how}. An update that it was making is lost; what was learned before is saved: "
            f"continue with --resume.{self.process.output()}"
        )

    def close(self) -> None:
        """End the process: by itself, or at once in the midst of an update, which then is unwanted."""
        if self._channel is not None:
            self._channel.close()
        unwanted = self._channel is None or self.is_busy
        if unwanted or not await_end(self.process, self._watch, CLOSING_SECONDS):
            self.process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
