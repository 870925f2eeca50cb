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

from ..base import BehaviorId, Decision, EnvironmentStep, processors
from ..errors import WireError
from ..images import PixelKinds
from ..validation import NonFinite, NonFiniteError
from .admission import Attendance
from .async_env import Door, Newcomer, Parameters, PipelinedEnv
from .restarts import EngineStopped, RestartHistory, RestartLimits
from .selector import Arrivals
from .specs import MergedSpecs, SpecConflictError
from .worker import ABSENCE_SECONDS, Keeper, Worker, WorkerState

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
            None if there is a `door`.
        num_envs: How many; with a door, how many must have come for `start` to return.
        door: Where environments come in by themselves, at any time. They are not started again, but leave,
            of which a step with `left` tells; another one gets the index. What they do wrong harms nobody
            else. When none is left, `wait` waits for the next.
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
        make_env: Callable[[int], BaseEnv] | None,
        num_envs: int,
        limits: RestartLimits | None = None,
        *,
        door: Door | None = None,
        ordered: bool = False,
        non_finite: NonFinite = NonFinite.STOP,
        awake: bool = True,
        editor: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; it must be 1 or more")
        if (make_env is None) == (door is None):
            raise ValueError("either make_env or door brings the environments: give one of them")
        if ordered and door is not None:
            raise ValueError("environments that come through a door have no order")
        self._clock = clock
        self._ordered = ordered
        self._non_finite = non_finite
        self._editor = editor
        self._warned: set[tuple[str, str]] = set()
        self._parameters: Parameters = {}
        self._attendance = None if door is None else Attendance(door, num_envs)
        self._specs = MergedSpecs() if door is None else MergedSpecs(door.refusal)
        self._kinds = PixelKinds()
        self._arrivals: Arrivals[Worker | None, PipelinedEnv | BaseException] = Arrivals(
            awake and num_envs < processors()
        )
        self._looked = clock()
        self._started = False
        self._works = False
        """The first reset is over: the environments can do what they are to do."""
        self._closed = False
        self._limits = limits or RestartLimits()
        self._workers: dict[int, Worker] = {}
        """By their indices, in this order."""
        if make_env is not None:
            for index in range(num_envs):
                self._hire(index, make_env)

    def __enter__(self) -> "EnvManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def num_envs(self) -> int:
        """How many environments there are, those that are being launched included."""
        return len(self._workers)

    @property
    def behavior_specs(self) -> Mapping[BehaviorId, BehaviorSpec]:
        """The behaviours that any environment has shown so far; none before the first `reset`."""
        return self._specs.view

    @property
    def restarts(self) -> int:
        """How often environments have been restarted, all together."""
        return sum(worker.history.restarts for worker in self._workers.values())

    def start(self) -> None:
        """Launch all environments side by side and wait until they stand.

        Raises:
            Exception: What kept the first one from starting that failed; the others are closed then.
        """
        try:
            if self._attendance is None:
                self._launch_all()
            else:
                self._await_enough(self._attendance)
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
        # Newcomers that are not there yet are reset when they are: nobody waits for them here.
        awaited = [worker for worker in self._workers.values() if worker.env is not None or not worker.guest]
        for worker in awaited:
            worker.answer = None
            if worker.state is WorkerState.WAITING:
                worker.reset_wanted = True
            elif worker.env is not None:
                self._tell(worker, worker.env, None)
        while any(self._workers.get(one.index) is one and one.answer is None for one in awaited):
            self._collect(math.inf)
        self._works = True
        return self._take()

    def set_parameters(self, parameters: Parameters) -> None:
        """Set environment parameters without a reset; they reach each environment when it is told next."""
        self._parameters = {**self._parameters, **parameters}
        for worker in self._workers.values():
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
        worker = self._workers.get(env)
        if worker is None:
            raise RuntimeError(f"there is no environment {env}; there are {list(self._workers)}")
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
            owed = any(worker.owes for worker in self._workers.values())
            answered = any(worker.answer is not None for worker in self._workers.values())
            if self._attendance is not None and self._attendance.untold:
                return self._take()
            if answered and not (owed and self._ordered):
                return self._take()
            if not owed and self._attendance is None:
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
        if self._attendance is not None:
            self._attendance.close()
        workers = self._workers.values()
        for worker in workers:
            worker.leave(WorkerState.CLOSED)
            worker.keeper.close(0.0 if at_once else CLOSE_SECONDS)
        end = time.monotonic() + 2 * CLOSE_SECONDS
        if self._attendance is not None:
            self._attendance.await_leaving(end)
        for worker in workers:
            # A launch cannot be hurried; its engine ends when the launch is over, or with this process.
            if not worker.keeper.launching and not worker.keeper.join(max(0.0, end - time.monotonic())):
                logger.warning("%s is still being closed", worker.name)
        if not any(worker.keeper.launching for worker in workers):
            self._arrivals.close()

    def _hire(self, index: int, make_env: Callable[[int], BaseEnv], guest: Newcomer | None = None) -> Worker:
        def report(outcome: PipelinedEnv | BaseException) -> None:
            self._arrivals.post(worker, outcome)

        history = RestartHistory(self._limits, self._clock())
        worker = self._workers[index] = Worker(index, Keeper(index, make_env, report), history, guest=guest)
        return worker

    def _admit(self) -> None:
        """Take in whoever waits at the door, without waiting until they stand."""
        if self._attendance is None:
            return
        for index, newcomer in self._attendance.newcomers(self._workers):
            self._hire(index, newcomer.make, newcomer).relaunch()
        self._workers = dict(sorted(self._workers.items()))

    @property
    def _standing(self) -> int:
        """How many environments can be sent something now or soon."""
        return sum(worker.env is not None for worker in self._workers.values())

    def _launch_all(self) -> None:
        for worker in self._workers.values():
            worker.relaunch()
        while any(worker.owes for worker in self._workers.values()):
            self._collect(math.inf)

    def _await_enough(self, attendance: Attendance) -> None:
        attendance.open(partial(self._arrivals.post, None))
        while self._standing < attendance.needed:
            self._collect(math.inf)
        attendance.begin()

    def _collect(self, timeout: float) -> None:
        """Wait for something to arrive, at most for `timeout` or until the next look; handle all there is."""
        for worker, launched in self._arrivals.wait(min(timeout, LOOK_SECONDS)):
            if worker is None:
                self._admit()
            elif self._workers.get(worker.index) is worker:  # and has not left meanwhile
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
            began = self._started or worker.guest is not None
            if not began or not isinstance(launched, RESTARTABLE):
                worker.leave(WorkerState.FAILED)
                raise launched
            self._failed(worker, launched)
            return
        worker.stand(launched, self._arrivals.selector, partial(self._arrivals.post, worker))
        if self._attendance is not None:
            self._attendance.joined(worker, self._standing)
        if self._started:  # a restart, or a newcomer
            launched.set_parameters(self._parameters)
            self._tell(worker, launched, None)

    def _look(self) -> None:
        """Find answers and ends that nobody has announced, and engines that are late."""
        now = self._clock()
        absent = now - self._looked > ABSENCE_SECONDS
        self._looked = now
        for worker in list(self._workers.values()):
            env = worker.env
            # Who waits for the run to begin owes nothing, but may go.
            owes = worker.state is WorkerState.WAITING or (worker.guest is not None and not self._started)
            if not owes or env is None:
                continue
            if env.ready():
                self._receive(worker, env)
            elif worker.state is WorkerState.WAITING and worker.late(now, absent):
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
        except (SpecConflictError, NonFiniteError) as error:
            if worker.guest is None:
                raise
            self._failed(worker, error)

    def _failed(self, worker: Worker, error: BaseException) -> None:
        """Start an environment again alone, or give up; one that came by itself just leaves.

        Raises:
            RestartLimitError: The limits leave no room for a restart.
            EngineStopped: Nor do they, and the engine ended in good order; or it is the Editor.
            UnityException: `error`, at the first reset: what has never worked will not the next time.
        """
        now = self._clock()
        worker.leave(WorkerState.FAILED)
        if self._attendance is not None:
            del self._workers[worker.index]
            self._attendance.left(worker, error, self._standing)
            return
        worker.history.failed(now, error)
        if self._editor and isinstance(error, UnityCommunicatorStoppedException):
            raise EngineStopped(f"The Editor has ended the session. ({error})") from error
        if not self._works:
            raise error
        if not worker.history.allows(now):
            raise worker.history.verdict(worker.name, error) from error
        worker.history.restarted(now)
        logger.warning("Restarting %s after '%s: %s'", worker.name, type(error).__name__, error)
        worker.relaunch()

    def _take(self) -> list[EnvironmentStep]:
        steps = [] if self._attendance is None else self._attendance.take_gone()
        for worker in self._workers.values():
            if worker.answer is not None:
                steps.append(worker.answer)
                worker.answer = None
        return steps
