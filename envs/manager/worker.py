"""What a manager knows of one environment, and how the two take turns.

Launching and closing environments without waiting for them.
"""

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
from numpy.typing import NDArray

from ..base import BehaviorId, Decision, EnvironmentStep
from ..errors import WireError
from ..images import PixelKinds
from ..validation import NonFinite, check_steps
from .async_env import Newcomer, PipelinedEnv, pipelined
from .restarts import RestartHistory
from .specs import MergedSpecs

logger = logging.getLogger(__name__)


class Keeper:
    """Launches, closes and launches again one environment, in a thread of its own.

    Both can take a minute, and whoever drives the other environments must not wait for it.

    Args:
        index: The environment's index, for messages.
        make_env: Launches it; blocks until it stands.
        report: Called from the keeper's thread with every launched environment, or with what kept it
            from starting.
    """

    def __init__(
        self,
        index: int,
        make_env: Callable[[int], BaseEnv],
        report: Callable[[PipelinedEnv | BaseException], None],
    ) -> None:
        self.index = index
        self.launching = False
        self._make_env = make_env
        self._report = report
        self._env: PipelinedEnv | None = None
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"keeper of environment {index}", daemon=True)
        self._thread.start()

    def launch(self) -> None:
        """Close what there is and launch anew; the outcome is reported. Returns at once."""
        self.launching = True
        self._jobs.put(self._launch)

    def close(self, timeout: float) -> None:
        """Close what there is, giving it `timeout` seconds, and end the thread. Returns at once."""
        self._jobs.put(lambda: self._end(timeout))
        self._jobs.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end after `close`, at most `timeout` seconds; whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _launch(self) -> None:
        self._end(None)
        outcome: PipelinedEnv | BaseException
        try:
            outcome = self._env = pipelined(self._make_env(self.index))
        except BaseException as error:  # SystemExit too: a manager waits for the report
            outcome = error
        self.launching = False
        self._report(outcome)

    def _end(self, timeout: float | None) -> None:
        env, self._env = self._env, None
        if env is None:
            return
        try:
            env.close(timeout)
        except Exception as error:
            logger.warning("environment %d could not be closed in good order: %s", self.index, error)


ABSENCE_SECONDS = 1.0
"""Who has not looked for so long may have slept together with the engine (a suspended machine), or may not
have had the time to notice its answer; the engine then gets this time once more before it is late."""


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
    keeper: Keeper
    history: RestartHistory
    state: WorkerState = WorkerState.STARTING
    env: PipelinedEnv | None = None
    """None while it is being launched, and after it failed."""
    answer: EnvironmentStep | None = None
    """Taken in and not yet handed on."""
    reset_wanted: bool = False
    """The answer that it owes is void: a reset follows it."""
    guest: Newcomer | None = None
    """Who it is, if it came by itself: then it is not started again."""
    stood: bool = False
    """Whether it has ever been launched."""
    _decisions: Mapping[BehaviorId, Decision] = field(default_factory=dict)
    _resetting: bool = False
    _deadline: float = math.inf
    _extended: bool = False
    _specs: Mapping[BehaviorId, BehaviorSpec] = field(default_factory=dict)
    _asked: dict[BehaviorId, bytes] = field(default_factory=dict)
    """The ids, one after the other, of those who asked last: mostly the same ask again."""

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"environment {self.index}" + (f" ({self.guest.where})" if self.guest is not None else "")

    @property
    def owes(self) -> bool:
        """Whether an answer will come from it, or its failure."""
        return self.state is WorkerState.WAITING or self.state is WorkerState.STARTING

    def relaunch(self) -> None:
        """Close it, if it stands, and launch it."""
        self.leave(WorkerState.STARTING)
        self.keeper.launch()

    def leave(self, state: WorkerState) -> None:
        """Let go of the environment."""
        if self.env is not None:
            self.env.watch(None, None)
        self.env = None
        self.state = state

    def stand(self, env: PipelinedEnv, selector: BaseSelector, announce: Callable[[], None]) -> None:
        """It has been launched.

        Args:
            env: The environment.
            selector: Where its sockets tell of it, with this worker as the data.
            announce: Called when it has answered or is gone, if no socket tells that.
        """
        self.env = env
        self.stood = True
        self.state = WorkerState.IDLE
        env.on_arrival = announce
        env.watch(selector, self)

    def tell(self, env: PipelinedEnv, decisions: Mapping[BehaviorId, Decision] | None, now: float) -> None:
        """Send a step that answers `decisions`, or, without any mapping, a reset; returns at once."""
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

    def late(self, now: float, absent: bool) -> bool:
        """Whether it should have answered by now.

        Args:
            now: The time.
            absent: Nobody looked during the last `ABSENCE_SECONDS`.
        """
        if now < self._deadline:
            return False
        if absent and not self._extended:
            self._extended = True
            self._deadline = now + ABSENCE_SECONDS
            return False
        return True

    def read(
        self,
        env: PipelinedEnv,
        merged: MergedSpecs,
        kinds: PixelKinds,
        policy: NonFinite,
        warned: set[tuple[str, str]],
    ) -> EnvironmentStep:
        """What it has answered, checked.

        Raises:
            WireError: Two agents that ask for a decision have the same id; or pictures are of another kind.
            NonFiniteError: A number is not finite, and `policy` is STOP.
            SpecConflictError: It describes a behaviour otherwise than other environments, or has one that
                cannot take part.
        """
        steps = {}
        void, lost_lives = {}, {}
        self._specs = merged.take_over(env.behavior_specs, self._specs, self.name)
        for name, spec in env.behavior_specs.items():
            said = kinds.agree(name, spec, env.get_steps(name), self.name)
            self._check_ids(np.asarray(said[0].agent_id), name)
            steps[name], dropped = check_steps(said, spec, self.name, name, policy, warned)
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
        """Refuse two agents of one id; costs next to nothing while the same ask again."""
        key = ids.tobytes()
        if key == self._asked.get(behavior):
            return
        if len(set(ids.tolist())) < len(ids):
            found, counts = np.unique(ids, return_counts=True)
            raise WireError(
                f"{self.name}, behavior {behavior!r}: agent {found[counts > 1][0]} asks for {counts.max()} "
                "decisions in one step. All agents of a behavior must have different ids."
            )
        self._asked[behavior] = key
