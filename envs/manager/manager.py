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
from ..engines.selector import EventSelector
from ..engines.terms import terms_of
from ..errors import EnvContractError
from ..images import ImageDtypes
from ..validation import NonFinitePolicy
from .admission import Admission
from .async_env import AsyncEnv, EnvSource, Parameters, PendingEnv
from .restarts import EngineStopped, RestartHistory, RestartLimits, StopAsked
from .specs import MergedSpecs, SpecConflictError
from .worker import ABSENCE_SECONDS, EnvLauncher, Worker, WorkerState

logger = getLogger(__name__)

RESTARTABLE = (
    UnityCommunicationException,
    UnityTimeOutException,
    UnityEnvironmentException,
    UnityCommunicatorStoppedException,
    UnitySideChannelException,
)
"""Failures of an engine that a restart may fix, unless they are `_NOT_RESTARTABLE` ones."""
_NOT_RESTARTABLE = (SpecConflictError, EnvContractError)

POLL_SECONDS = 0.1
"""Seconds between two polls of environments that have not announced anything."""
CLOSE_SECONDS = 10.0
"""Seconds that engines may take to end by themselves."""


class EnvManager:
    """One to N environments, each of which continues as soon as it has answered and was sent its actions.

    One thread owns the manager and calls all its methods. An engine that dies, or does not answer within
    its `timeout_wait`, is closed and launched again while the others go on; its first step after that has
    `fresh=True`.

    Args:
        make_env: Launches environment 0 to num_envs - 1; called from other threads, several at once, and
            again for a restart. A UnityEnvironment should be made with `non_finite=None`, since the
            manager checks the numbers. A plain BaseEnv is stepped in the manager's thread.
            None if there is a `source`.
        num_envs: How many environments; with a source, how many must have connected for `start` to return.
        source: Where environments come from that start by themselves, at any time. They are not started
            again, but leave, which a step with `left` reports; another one gets the index. Their errors do
            not affect the others. When none is left, `wait` waits for the next.
        limits: How often each may be restarted.
        ordered: `wait` returns all environments' answers together: a repeatable run.
        non_finite: What to do about NaN and infinities.
        spin: Stay awake while answers come soon (see `SpinWait`), unless engines fill the processors. Not for
            a process in which other threads compute.
        editor: The engine is an editor; when it stops, the run is finished instead of restarted.
        in_threads: Environments are launched and closed in threads of their own, several at a time; False:
            in the manager's thread, which also steps them.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        make_env: Callable[[int], BaseEnv] | None,
        num_envs: int,
        limits: RestartLimits | None = None,
        *,
        source: EnvSource | None = None,
        ordered: bool = False,
        non_finite: NonFinitePolicy = NonFinitePolicy.STOP,
        spin: bool = True,
        editor: bool = False,
        in_threads: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs is {num_envs}; it must be 1 or more")
        if (make_env is None) == (source is None):
            raise ValueError("either make_env or source provides the environments: give one of them")
        if ordered and source is not None:
            raise ValueError("environments that come from a source have no order")
        self._clock = clock
        self._ordered = ordered
        self._non_finite = non_finite
        self._editor = editor
        self._in_threads = in_threads
        self._warned: set[tuple[str, str]] = set()
        self._parameters: Parameters = {}
        self._admission = None if source is None else Admission(source, num_envs)
        self._specs = MergedSpecs() if source is None else MergedSpecs(source.refusal)
        self._dtypes = ImageDtypes()
        self._events: EventSelector[Worker | None, AsyncEnv | BaseException] = EventSelector(
            spin and num_envs < processors()
        )
        self._polled_at = clock()
        self._launched = False
        self._started = False
        self._works = False
        """Whether the first reset is over: the environments work."""
        self._closed = False
        self._limits = limits or RestartLimits()
        self.should_stop: Callable[[], bool] = lambda: False
        """A function that is asked while `start` and `reset` wait, which raise `StopAsked` if it is true."""
        self._workers: dict[int, Worker] = {}
        """The workers by their indices, in this order."""
        if make_env is not None:
            for index in range(num_envs):
                self._add_worker(index, make_env)

    def __enter__(self) -> "EnvManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def num_envs(self) -> int:
        """How many environments there are, including those that are being launched."""
        return len(self._workers)

    @property
    def behavior_specs(self) -> Mapping[BehaviorId, BehaviorSpec]:
        """The behaviors that any environment has shown so far; none before the first `reset`."""
        return self._specs.view

    @property
    def present(self) -> list[AsyncEnv]:
        """The environments that are launched, in the order of their indices."""
        return [worker.env for worker in self._workers.values() if worker.env is not None]

    @property
    def restarts(self) -> int:
        """How often environments have been restarted, all together."""
        return sum(worker.history.restarts for worker in self._workers.values())

    def launch(self) -> None:
        """Begin to launch the environments side by side and return at once; none that come from a source."""
        if self._launched or self._admission is not None:
            return
        self._launched = True
        for worker in self._workers.values():
            worker.relaunch()

    def start(self) -> None:
        """Launch all environments side by side and wait until they are ready.

        Raises:
            Exception: What kept the first one from starting that failed; the others are closed then.
            StopAsked: The run is to end; likewise.
        """
        try:
            if self._admission is None:
                self._launch_all()
            else:
                self._await_enough(self._admission)
        except BaseException:
            self.close()
            raise
        self._started = True

    def reset(self, parameters: Parameters | None = None) -> list[EnvironmentStep]:
        """Reset every environment and wait for all of them; answers that are still pending are void.

        Args:
            parameters: Environment parameters that every environment, also one that is restarted later,
                gets before its reset. None leaves them as they are.

        Returns:
            The first step of each, in order.

        Raises:
            RuntimeError: Before `start`.
            UnityException: At the first reset, what kept an environment from answering.
            RestartLimitError, EngineStopped, NonFiniteError, SpecConflictError: As `wait`.
            StopAsked: The run is to end, and some have not answered yet.
        """
        if not self._started:
            raise RuntimeError("reset() before start()")
        if parameters is not None:
            self.set_parameters(parameters)
        # Environments that are still joining are reset once they have: they are not waited for here.
        awaited = [w for w in self._workers.values() if w.env is not None or w.pending_env is None]
        for worker in awaited:
            worker.answer = None
            if worker.state is WorkerState.WAITING:
                worker.reset_wanted = True
            elif worker.env is not None:
                self._send(worker, worker.env, None)
        while any(self._workers.get(one.index) is one and one.answer is None for one in awaited):
            self._await_events()
        self._works = True
        return self._take_answers()

    def set_parameters(self, parameters: Parameters) -> None:
        """Set environment parameters without a reset; each environment gets them with its next message."""
        self._parameters = {**self._parameters, **parameters}
        for worker in self._workers.values():
            if worker.env is not None:
                worker.env.set_parameters(parameters)

    def send(self, env: int, decisions: Mapping[BehaviorId, Decision]) -> None:
        """Send an environment that has answered its agents' actions; return at once.

        Args:
            env: Its index.
            decisions: Per behavior, the decisions for the agents of its last step; agents of a behavior
                without any get zeros.

        Raises:
            RuntimeError: It has not answered what it was sent last.
            UnityActionException: A behavior that it does not have, or actions of a wrong shape.
            RestartLimitError, EngineStopped: As `wait`.
        """
        worker = self._workers.get(env)
        if worker is None:
            raise RuntimeError(f"there is no environment {env}; there are {list(self._workers)}")
        if worker.state is not WorkerState.IDLE or worker.env is None:
            raise RuntimeError(f"{worker.name} cannot be sent anything now: {worker.state.value}")
        for name, decision in decisions.items():
            worker.env.set_actions(name, decision.env_action)
        self._send(worker, worker.env, decisions)

    def wait(self, timeout: float | None = None) -> list[EnvironmentStep]:
        """Wait until at least one environment has answered; with `ordered`, all whose answer is pending.

        Args:
            timeout: Seconds after which an empty list is returned; None waits as long as it takes.

        Returns:
            One step of each environment that has answered, in the order of their indices.

        Raises:
            RestartLimitError: An engine failed more often than the limits allow.
            EngineStopped: The game was stopped in the editor.
            NonFiniteError: A number is not finite, and `non_finite` is STOP.
            SpecConflictError: Environments describe a behavior differently.
            RuntimeError: No answer is pending.
        """
        end = math.inf if timeout is None else self._clock() + timeout
        polled = False
        while True:
            is_pending = has_answer = False
            for worker in self._workers.values():
                if worker.answer is not None:
                    has_answer = True
                elif worker.state is WorkerState.WAITING or worker.state is WorkerState.STARTING:
                    is_pending = True
            done = has_answer and not (is_pending and self._ordered)
            if self._admission is not None:
                done = done or self._admission.has_removed
            elif not (is_pending or has_answer):
                raise RuntimeError("wait() with no environment that was sent anything")
            remaining = 0.0 if done else end - self._clock()
            if polled and done:
                return self._take_answers()
            if polled and remaining <= 0:
                return []
            self._process_events(max(0.0, remaining))
            polled = True

    def close(self, *, at_once: bool = False) -> None:
        """Close all environments side by side, by force where one takes longer than 10 s.

        Args:
            at_once: By force where one has not ended already.
        """
        if self._closed:
            return
        self._closed = True
        if self._admission is not None:
            self._admission.close()
        workers = self._workers.values()
        for worker in workers:
            worker.detach(WorkerState.CLOSED)
            worker.launcher.close(0.0 if at_once else CLOSE_SECONDS)
        end = time.monotonic() + 2 * CLOSE_SECONDS
        if self._admission is not None:
            self._admission.await_closing(end)
        for worker in workers:
            # A launch cannot be hurried; its engine ends when the launch is over, or with this process.
            if not worker.launcher.launching and not worker.launcher.join(max(0.0, end - time.monotonic())):
                logger.warning("%s is still being closed", worker.name)
        if not any(worker.launcher.launching for worker in workers):
            self._events.close()

    def _add_worker(
        self, index: int, make_env: Callable[[int], BaseEnv], pending_env: PendingEnv | None = None
    ) -> Worker:
        def report(outcome: AsyncEnv | BaseException) -> None:
            self._events.post(worker, outcome)

        history = RestartHistory(self._limits, self._clock())
        launcher = EnvLauncher(index, make_env, report, in_thread=self._in_threads)
        worker = self._workers[index] = Worker(index, launcher, history, pending_env=pending_env)
        return worker

    def _admit(self) -> None:
        """Launch the environments that want to join, without waiting until they are ready."""
        if self._admission is None:
            return
        for index, pending_env in self._admission.pending(self._workers):
            self._add_worker(index, pending_env.make, pending_env).relaunch()
        self._workers = dict(sorted(self._workers.items()))

    @property
    def _num_running(self) -> int:
        """How many environments can be sent something now or soon."""
        return sum(worker.env is not None for worker in self._workers.values())

    def _launch_all(self) -> None:
        self.launch()
        while any(worker.is_pending for worker in self._workers.values()):
            self._await_events()

    def _await_enough(self, admission: Admission) -> None:
        admission.open(partial(self._events.post, None))
        while self._num_running < admission.needed:
            self._await_events()
        admission.start()

    def _await_events(self) -> None:
        """Handle the next events, unless the run is to end."""
        if self.should_stop():
            raise StopAsked
        self._process_events(math.inf)

    def _process_events(self, timeout: float) -> None:
        """Wait for events, at most for `timeout` or until it is time to poll; handle all there are."""
        events = self._events.wait(min(timeout, POLL_SECONDS))
        while events:
            worker, launched = events.popleft()
            if worker is None:
                self._admit()
            elif self._workers.get(worker.index) is not worker:
                continue  # it has left meanwhile
            elif launched is not None:
                self._finish_launch(worker, launched)
            # Polled in any state, for that empties its sockets. Not ready is what was announced again, or by
            # an engine that has been replaced since.
            elif worker.env is not None and worker.env.poll() and worker.state is WorkerState.WAITING:
                self._receive(worker, worker.env)
        if self._clock() - self._polled_at >= POLL_SECONDS:
            self._poll_all()

    def _finish_launch(self, worker: Worker, launched: AsyncEnv | BaseException) -> None:
        """Continue with an environment that was launched, or could not be."""
        if isinstance(launched, BaseException):
            started = self._started or worker.pending_env is not None
            # One that has come by itself may be anybody's: no fault of it is the others'.
            expected = Exception if worker.pending_env is not None else RESTARTABLE
            if not started or not isinstance(launched, expected):
                worker.detach(WorkerState.FAILED)
                raise launched
            self._failed(worker, launched)
            return
        worker.attach(launched, self._events.selector, partial(self._events.post, worker))
        if self._admission is not None:
            self._admission.connected(worker, self._num_running)
        if self._started:  # a restart, or one that has joined
            launched.set_parameters(self._parameters)
            self._send(worker, launched, None)

    def _poll_all(self) -> None:
        """Find answers and ends that were not announced, and engines that are late."""
        now = self._clock()
        absent = now - self._polled_at > ABSENCE_SECONDS
        self._polled_at = now
        for worker in list(self._workers.values()):
            env = worker.env
            waiting = worker.state is WorkerState.WAITING
            # One that waits for the run to begin has no answer pending, but may leave.
            joining = worker.pending_env is not None and not self._started
            if env is None or not (waiting or joining):
                continue
            if env.poll():
                self._receive(worker, env)
            elif waiting and worker.is_late(now, absent):
                self._failed(worker, env.timed_out())

    def _send(self, worker: Worker, env: AsyncEnv, decisions: Mapping[BehaviorId, Decision] | None) -> None:
        """Send a step, or a reset if `decisions` is None."""
        try:
            worker.send(env, decisions, self._clock())
        except RESTARTABLE as error:
            self._failed(worker, error)

    def _receive(self, worker: Worker, env: AsyncEnv) -> None:
        try:
            worker.answer = worker.receive(env, self._specs, self._dtypes, self._non_finite, self._warned)
        except Exception as error:
            restartable = isinstance(error, RESTARTABLE) and not isinstance(error, _NOT_RESTARTABLE)
            if worker.pending_env is None and not restartable:
                raise
            self._failed(worker, error)
        else:
            if worker.reset_wanted:
                self._send(worker, env, None)
            elif self._admission is not None and not worker.has_joined:
                present = 1 + sum(one.has_joined for one in self._workers.values())
                self._admission.joined(worker, present)

    def _failed(self, worker: Worker, error: BaseException) -> None:
        """Restart one environment, or give up; one that started by itself just leaves.

        Raises:
            RestartLimitError: The limits leave no room for a restart.
            EngineStopped: It is an editor, in which the game was stopped.
            UnityException: `error`, at the first reset: what has never worked will not work the next time.
        """
        now, terms = self._clock(), terms_of(worker.env)
        worker.detach(WorkerState.FAILED)
        if self._admission is not None:
            del self._workers[worker.index]
            self._admission.left(worker, error, self._num_running)
            return
        worker.history.failed(now, error)
        if self._editor and isinstance(error, UnityCommunicatorStoppedException):
            editor = terms.editor[:1].upper() + terms.editor[1:]
            raise EngineStopped(f"{editor} has ended the session. ({error})") from error
        if not self._works:
            raise error
        if not worker.history.allows(now):
            raise worker.history.error(worker.name, error) from error
        worker.history.restarted(now)
        logger.warning("Restarting %s after '%s: %s'", worker.name, type(error).__name__, error)
        worker.relaunch()

    def _take_answers(self) -> list[EnvironmentStep]:
        steps = [] if self._admission is None else self._admission.take_removed()
        for worker in self._workers.values():
            if worker.answer is not None:
                steps.append(worker.answer)
                worker.answer = None
        return steps
