"""One environment of a manager: launching and closing it without waiting, and taking turns with it."""

import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from queue import SimpleQueue
from selectors import BaseSelector

import numpy as np
from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from mlagents_envs.exception import UnityEnvironmentException
from numpy.typing import NDArray

from ..base import BehaviorId, Decision, EnvironmentStep
from ..errors import WireError
from ..images import ImageDtypes
from ..validation import NonFinitePolicy, check_finite
from .async_env import AsyncEnv, PendingEnv, as_async_env
from .restarts import RestartHistory
from .specs import MergedSpecs

logger = logging.getLogger(__name__)

ABSENCE_SECONDS = 1.0
"""A manager that has not polled for so long may have been suspended together with the engine, or may not have
had the time to notice its answer: the engine then gets this time once more before it is late."""


class EnvLauncher:
    """Launches, closes and relaunches one environment, usually in a thread of its own.

    Each can take a minute, and the thread that drives the other environments must not wait. An environment
    that this process steps is made by the thread that steps it: it may hold what belongs to its thread, such
    as a database connection or a window, or install a signal handler.

    Args:
        index: The environment's index, for messages.
        make_env: Launches it; blocks until it is ready.
        report: Called from the launcher's thread with every launched environment, or with the error that
            kept it from starting.
        in_thread: False: no thread of its own; `launch` and `close` return when it is done.

    Raises:
        UnityEnvironmentException: The system starts no more threads.
    """

    def __init__(
        self,
        index: int,
        make_env: Callable[[int], BaseEnv],
        report: Callable[[AsyncEnv | BaseException], None],
        *,
        in_thread: bool = True,
    ) -> None:
        self.index = index
        self.launching = False
        self._make_env = make_env
        self._report = report
        self._env: AsyncEnv | None = None
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        if not in_thread:
            return
        name = f"launcher of environment {index}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise UnityEnvironmentException(
                f"environment {index} needs a thread, and the system starts no more: {error}. Give fewer "
                "environments (--num-envs, --env-workers), or raise the limits (ulimit -u, ulimit -v)."
            ) from error

    def launch(self) -> None:
        """Close the environment, if any, and launch it again, without waiting for the thread."""
        self.launching = True
        self._do(self._launch)

    def close(self, timeout: float) -> None:
        """Close the environment, giving it `timeout` seconds, and end the thread, which is not waited for."""
        self._do(lambda: self._close_env(timeout))
        self._jobs.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end after `close`, at most `timeout` seconds; whether it came."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _do(self, job: Callable[[], None]) -> None:
        if self._thread is None:
            job()
        else:
            self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _launch(self) -> None:
        self._close_env(None)
        outcome: AsyncEnv | BaseException
        try:
            outcome = self._env = as_async_env(self._make_env(self.index))
        except BaseException as error:  # SystemExit too: a manager waits for the report
            if self._thread is None and isinstance(error, KeyboardInterrupt):
                raise  # it is the run that the user stops
            outcome = error
        finally:
            self.launching = False
        self._report(outcome)

    def _close_env(self, timeout: float | None) -> None:
        env, self._env = self._env, None
        if env is None:
            return
        try:
            env.close(timeout)
        except BaseException as error:  # SystemExit too, which a thread would end by in silence
            if self._thread is None and isinstance(error, KeyboardInterrupt):
                raise
            logger.warning("environment %d could not be closed in good order: %s", self.index, error)


class WorkerState(Enum):
    """Whose turn it is; the values complete the sentence `it cannot be sent anything now: `."""

    STARTING = "it is being launched"
    IDLE = "it has answered"
    WAITING = "it has not answered yet"
    FAILED = "it has failed for good"
    CLOSED = "it has been closed"


@dataclass(slots=True)
class Worker:
    """One environment of a manager, used by the manager's thread alone."""

    index: int
    launcher: EnvLauncher
    history: RestartHistory
    state: WorkerState = WorkerState.STARTING
    env: AsyncEnv | None = None
    """None while it is being launched, and after it failed."""
    answer: EnvironmentStep | None = None
    """Received and not yet returned by the manager."""
    reset_wanted: bool = False
    """The answer that is pending is void: a reset follows it."""
    pending_env: PendingEnv | None = None
    """Its source's object, if it started by itself: then it is never restarted."""
    was_launched: bool = False
    """Whether it has ever been launched."""
    has_joined: bool = False
    """Whether it started by itself, and its first answer was accepted."""
    name: str = ""
    """Its name in messages."""
    _decisions: Mapping[BehaviorId, Decision] = field(default_factory=dict)
    _resetting: bool = False
    _deadline: float = math.inf
    _extended: bool = False
    _specs: Mapping[BehaviorId, BehaviorSpec] = field(default_factory=dict)
    _last_ids: dict[BehaviorId, bytes] = field(default_factory=dict)
    """The ids of the last decision steps, as bytes: mostly the same agents ask again."""

    def __post_init__(self) -> None:
        where = "" if self.pending_env is None else f" ({self.pending_env.where})"
        self.name = f"environment {self.index}{where}"

    @property
    def is_pending(self) -> bool:
        """Whether its answer or its failure is still to come."""
        return self.state is WorkerState.WAITING or self.state is WorkerState.STARTING

    def relaunch(self) -> None:
        """Close it, if it runs, and launch it."""
        self.detach(WorkerState.STARTING)
        self.launcher.launch()

    def detach(self, state: WorkerState) -> None:
        """Release the environment."""
        if self.env is not None:
            self.env.watch(None, None)
        self.env = None
        self.state = state

    def attach(self, env: AsyncEnv, selector: BaseSelector, announce: Callable[[], None]) -> None:
        """It has been launched.

        Args:
            env: The environment.
            selector: Where its sockets are registered, with this worker as the data.
            announce: Called when it has answered or is gone, if no socket reports that.
        """
        self.env = env
        self.was_launched = True
        self.state = WorkerState.IDLE
        env.on_arrival = announce
        env.watch(selector, self)

    def send(self, env: AsyncEnv, decisions: Mapping[BehaviorId, Decision] | None, now: float) -> None:
        """Send a step that answers `decisions`, or a reset if they are None; returns at once."""
        self.answer = None
        self.reset_wanted = False
        self._decisions = {} if decisions is None else decisions
        self._resetting = decisions is None
        self._deadline = now + env.timeout_wait
        self._extended = False
        self.state = WorkerState.WAITING
        if decisions is None:
            env.send_reset()
        else:
            env.send_step()

    def is_late(self, now: float, absent: bool) -> bool:
        """Whether it should have answered by now.

        Args:
            now: The time.
            absent: The manager did not poll during the last `ABSENCE_SECONDS`.
        """
        if now < self._deadline:
            return False
        if absent and not self._extended:
            self._extended = True
            self._deadline = now + ABSENCE_SECONDS
            return False
        return True

    def receive(
        self,
        env: AsyncEnv,
        merged: MergedSpecs,
        dtypes: ImageDtypes,
        policy: NonFinitePolicy,
        warned: set[tuple[str, str]],
    ) -> EnvironmentStep | None:
        """Its answer, checked; None if the answer is void because a reset is wanted.

        Raises:
            UnityException: What kept the engine from answering.
            WireError: Two agents that request a decision have the same id, or images have another dtype.
            NonFiniteError: A number is not finite, and `policy` is STOP.
            SpecConflictError: It describes a behavior differently from other environments, or has one that
                cannot take part.
        """
        env.receive()
        self.state = WorkerState.IDLE
        if self.reset_wanted:
            return None
        steps, void, lost_lives = {}, {}, {}
        for name, spec in env.behavior_specs.items():
            if self._specs.get(name) is not spec:
                self._specs = merged.add(env.behavior_specs, self._specs, self.name)
            received = env.get_steps(name)
            if name not in dtypes.without_images:
                received = dtypes.resolve(name, spec, received, self.name)
            ids = np.asarray(received[0].agent_id)
            if (key := ids.tobytes()) != self._last_ids.get(name):
                self._check_ids(ids, name)
                self._last_ids[name] = key
            steps[name], dropped = check_finite(
                received,
                spec,
                self.name,
                name,
                policy,
                warned,
                squares=self.pending_env is not None,  # later its numbers would be those of all engines
            )
            if len(dropped):
                void[name] = dropped
            if len(lost := env.lost_lives(name)):
                lost_lives[name] = lost
        return EnvironmentStep(
            env=self.index,
            steps=steps,
            decisions=self._decisions,
            statistics=env.statistics(),
            fresh=self._resetting,
            void_agents=void,
            lost_lives=lost_lives,
        )

    def _check_ids(self, ids: NDArray[np.int32], behavior: BehaviorId) -> None:
        """Refuse two agents with one id."""
        if len(set(ids.tolist())) < len(ids):
            found, counts = np.unique(ids, return_counts=True)
            raise WireError(
                f"{self.name}, behavior {behavior!r}: agent {found[counts > 1][0]} asks for {counts.max()} "
                "decisions in one step. All agents of a behavior must have different ids."
            )
