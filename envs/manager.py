"""Many environments, stepped as one."""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from logging import getLogger
from types import TracebackType

from mlagents_envs.base_env import BaseEnv, BehaviorSpec
from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnitySideChannelException,
    UnityTimeOutException,
)

from .arrivals import Arrivals
from .finite import NonFinite
from .keeper import Keeper
from .merged_specs import MergedSpecs
from .pipelined import Parameters, PipelinedEnv
from .pixels import PixelKinds
from .processors import processors
from .restarts import EngineStopped, RestartHistory, RestartLimitError, RestartLimits
from .steps import BehaviorId, Decision, EnvironmentStep
from .wire.errors import WireError
from .worker import ABSENCE_SECONDS, Worker, WorkerState

logger = getLogger(__name__)

RESTARTABLE = (
    UnityCommunicationException,
    UnityTimeOutException,
    UnityEnvironmentException,
    UnityCommunicatorStoppedException,
    UnitySideChannelException,
)
"""Failures of an engine that a new start may mend."""

LOOK_SECONDS = 0.1
"""How often environments are looked at that have not announced anything."""
CLOSE_SECONDS = 10.0
"""What engines get to end by themselves."""


class EnvManager:
    """One to N environments, each of which goes on as soon as it has answered and was told what to do.

    One thread owns the manager and calls all its methods. An engine that dies, or does not answer within
    its `timeout_wait`, is closed and launched again alone, while the others go on; its first step after
    that comes with `fresh=True`.

    Args:
        make_env: Launches environment 0 to num_envs - 1; called from other threads, several at once, and
            again for a restart. A UnityEnvironment should be made with `non_finite=None`, since the
            manager checks the numbers. What is no PipelinedEnv is stepped in place.
        num_envs: How many.
        limits: How often each may be restarted.
        ordered: `wait` returns all environments' answers together: a repeatable run.
        non_finite: What becomes of NaN and infinities.
        awake: Stay so while answers come soon (see `ShortWait`), unless engines fill the processors. Not for
            a process in which other threads compute.
        editor: The engine is the Editor; when it stops, the run is finished instead of restarted.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        make_env: Callable[[int], BaseEnv],
        num_envs: int,
        limits: RestartLimits | None = None,
        *,
        ordered: bool = False,
        non_finite: NonFinite = NonFinite.STOP,
        awake: bool = True,
        editor: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; it must be 1 or more")
        self._clock = clock
        self._ordered = ordered
        self._non_finite = non_finite
        self._editor = editor
        self._warned: set[tuple[str, str]] = set()
        self._parameters: Parameters = {}
        self._specs = MergedSpecs()
        self._kinds = PixelKinds()
        self._arrivals: Arrivals[Worker, PipelinedEnv | BaseException] = Arrivals(
            awake and num_envs < processors()
        )
        self._looked = clock()
        self._started = False
        self._works = False
        """The first reset is over: the environments can do what they are to do."""
        self._closed = False
        self._workers = [self._hire(index, make_env, limits or RestartLimits()) for index in range(num_envs)]

    def __enter__(self) -> "EnvManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def num_envs(self) -> int:
        """How many environments there are."""
        return len(self._workers)

    @property
    def behavior_specs(self) -> Mapping[BehaviorId, BehaviorSpec]:
        """The behaviours that any environment has shown so far; none before the first `reset`."""
        return self._specs.view

    @property
    def restarts(self) -> int:
        """How often environments have been restarted, all together."""
        return sum(worker.history.restarts for worker in self._workers)

    def start(self) -> None:
        """Launch all environments side by side and wait until they stand.

        Raises:
            Exception: What kept the first one from starting that failed; the others are closed then.
        """
        try:
            for worker in self._workers:
                worker.relaunch()
            while any(worker.owes for worker in self._workers):
                self._collect(math.inf)
        except BaseException:
            self.close()
            raise
        self._started = True

    def reset(self, parameters: Parameters | None = None) -> list[EnvironmentStep]:
        """Reset every environment and wait for all of them; answers that are still owed are void.

        Args:
            parameters: Environment parameters that every environment, also one that is restarted later,
                gets before its reset. None leaves them as they are.

        Returns:
            The first step of each, in order.

        Raises:
            RuntimeError: Before `start`.
            UnityException: At the first reset, what kept an environment from answering.
            RestartLimitError, EngineStopped, NonFiniteError, SpecConflictError: As `wait`.
        """
        if not self._started:
            raise RuntimeError("reset() before start()")
        if parameters is not None:
            self.set_parameters(parameters)
        for worker in self._workers:
            worker.answer = None
            if worker.state is WorkerState.WAITING:
                worker.reset_wanted = True
            elif worker.env is not None:
                self._tell(worker, worker.env, None)
        while any(worker.answer is None for worker in self._workers):
            self._collect(math.inf)
        self._works = True
        return self._take()

    def set_parameters(self, parameters: Parameters) -> None:
        """Set environment parameters without a reset; they reach each environment when it is told next."""
        self._parameters = {**self._parameters, **parameters}
        for worker in self._workers:
            if worker.env is not None:
                worker.env.set_parameters(parameters)

    def send(self, env: int, decisions: Mapping[BehaviorId, Decision]) -> None:
        """Tell an environment that has answered what its agents do; return at once.

        Args:
            env: Its index.
            decisions: Per behaviour, the decisions for the agents of its last step; agents of a behaviour
                without any get zeros.

        Raises:
            RuntimeError: It has not answered since it was told last.
            UnityActionException: A behaviour that it does not have, or actions of a wrong shape.
            RestartLimitError, EngineStopped: As `wait`.
        """
        worker = self._workers[env]
        if worker.state is not WorkerState.IDLE or worker.env is None:
            raise RuntimeError(f"{worker.name} cannot be sent anything now: {worker.state.value}")
        for name, decision in decisions.items():
            worker.env.set_actions(name, decision.env_action)
        self._tell(worker, worker.env, decisions)

    def wait(self, timeout: float | None = None) -> list[EnvironmentStep]:
        """Wait until at least one environment has answered; with `ordered`, all that owe an answer.

        Args:
            timeout: Seconds after which an empty list is returned; None waits as long as it takes.

        Returns:
            One step of each environment that has answered, in the order of their indices.

        Raises:
            RestartLimitError: An engine failed more often than the limits allow.
            EngineStopped: The engine ended the session in good order.
            NonFiniteError: A number is not finite, and `non_finite` is STOP.
            SpecConflictError: Environments describe a behaviour differently.
            RuntimeError: No environment owes an answer.
        """
        end = math.inf if timeout is None else self._clock() + timeout
        self._collect(0.0)
        while True:
            owed = any(worker.owes for worker in self._workers)
            answered = any(worker.answer is not None for worker in self._workers)
            if answered and not (owed and self._ordered):
                return self._take()
            if not owed:
                raise RuntimeError("wait() with no environment that was told anything")
            remaining = end - self._clock()
            if remaining <= 0:
                return []
            self._collect(remaining)

    def close(self, *, at_once: bool = False) -> None:
        """Close all environments side by side, by force where one takes longer than 10 s.

        Args:
            at_once: By force where one has not ended already.
        """
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            worker.leave(WorkerState.CLOSED)
            worker.keeper.close(0.0 if at_once else CLOSE_SECONDS)
        end = time.monotonic() + 2 * CLOSE_SECONDS
        for worker in self._workers:
            # A launch cannot be hurried; its engine ends when the launch is over, or with this process.
            if not worker.keeper.launching and not worker.keeper.join(max(0.0, end - time.monotonic())):
                logger.warning("%s is still being closed", worker.name)
        if not any(worker.keeper.launching for worker in self._workers):
            self._arrivals.close()

    def _hire(self, index: int, make_env: Callable[[int], BaseEnv], limits: RestartLimits) -> Worker:
        def report(outcome: PipelinedEnv | BaseException) -> None:
            self._arrivals.post(worker, outcome)

        worker = Worker(index, Keeper(index, make_env, report), RestartHistory(limits, self._clock()))
        return worker

    def _collect(self, timeout: float) -> None:
        """Wait for something to arrive, at most for `timeout` or until the next look; handle all there is."""
        for worker, launched in self._arrivals.wait(min(timeout, LOOK_SECONDS)):
            self._handle(worker, launched)
        if self._clock() - self._looked >= LOOK_SECONDS:
            self._look()

    def _handle(self, worker: Worker, launched: PipelinedEnv | BaseException | None) -> None:
        """A launch is over, or, without an outcome, an engine may have answered or gone."""
        env = worker.env
        if launched is not None:
            self._welcome(worker, launched)
        # Asked in any state, for that empties its sockets. Not ready is what was announced again, or by an
        # engine that has been replaced since.
        elif env is not None and env.ready() and worker.state is WorkerState.WAITING:
            self._receive(worker, env)

    def _welcome(self, worker: Worker, launched: PipelinedEnv | BaseException) -> None:
        """Go on with an environment that was launched, or could not be."""
        if isinstance(launched, BaseException):
            if not self._started or not isinstance(launched, RESTARTABLE):
                worker.leave(WorkerState.FAILED)
                raise launched
            self._failed(worker, launched)
            return
        worker.stand(launched, self._arrivals.selector, partial(self._arrivals.post, worker))
        if self._started:  # a restart
            launched.set_parameters(self._parameters)
            self._tell(worker, launched, None)

    def _look(self) -> None:
        """Find answers and ends that nobody has announced, and engines that are late."""
        now = self._clock()
        absent = now - self._looked > ABSENCE_SECONDS
        self._looked = now
        for worker in self._workers:
            env = worker.env
            if worker.state is not WorkerState.WAITING or env is None:
                continue
            if env.ready():
                self._receive(worker, env)
            elif worker.late(now, absent):
                self._failed(worker, env.overdue())

    def _tell(
        self, worker: Worker, env: PipelinedEnv, decisions: Mapping[BehaviorId, Decision] | None
    ) -> None:
        """Send a step, or a reset if `decisions` is None."""
        try:
            worker.tell(env, decisions, self._clock())
        except RESTARTABLE as error:
            self._failed(worker, error)

    def _receive(self, worker: Worker, env: PipelinedEnv) -> None:
        try:
            env.receive()
        except RESTARTABLE as error:
            self._failed(worker, error)
            return
        worker.state = WorkerState.IDLE
        if worker.reset_wanted:
            self._tell(worker, env, None)
            return
        try:
            worker.answer = worker.read(env, self._specs, self._kinds, self._non_finite, self._warned)
        except WireError as error:
            self._failed(worker, error)

    def _failed(self, worker: Worker, error: BaseException) -> None:
        """Start an environment again alone, or give up.

        Raises:
            RestartLimitError: The limits leave no room for a restart.
            EngineStopped: Nor do they, and the engine ended in good order; or it is the Editor.
            UnityException: `error`, at the first reset: what has never worked will not the next time.
        """
        now = self._clock()
        worker.leave(WorkerState.FAILED)
        worker.history.failed(now, error)
        stopped = isinstance(error, UnityCommunicatorStoppedException)
        if stopped and self._editor:
            raise EngineStopped(f"The Editor has ended the session. ({error})") from error
        if not self._works:
            raise error
        if not worker.history.allows(now):
            told = str(error)
            if worker.history.count > 1:
                told = f"Its failures:\n{worker.history}\nThe last one in full: {error}"
            what, kind = ("ended the session", EngineStopped) if stopped else ("failed", RestartLimitError)
            raise kind(
                f"{worker.name} {what}, and the limits leave no room for another restart "
                f"({worker.history.limits}; env_settings.max_lifetime_restarts, restarts_rate_limit_n and "
                f"restarts_rate_limit_period_s change them). {told}"
            ) from error
        worker.history.restarted(now)
        logger.warning("Restarting %s after '%s: %s'", worker.name, type(error).__name__, error)
        worker.relaunch()

    def _take(self) -> list[EnvironmentStep]:
        answers = [worker.answer for worker in self._workers]
        for worker in self._workers:
            worker.answer = None
        return [answer for answer in answers if answer is not None]
