"""An engine as a BaseEnv, whatever protocol it speaks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from selectors import BaseSelector
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorMapping, BehaviorSpec
from mlagents_envs.exception import UnityActionException, UnityEnvironmentException, UnityException
from numpy.typing import NDArray

from ..base import BehaviorSteps, EngineStatistics, no_steps
from ..errors import WireError
from ..side_channels import SideChannel
from ..validation import NO_AGENTS, NonFinitePolicy, check_finite, check_shape, with_action
from . import shutdown
from .connection import EngineConnection
from .options import Connect, EngineOptions
from .terms import Terms


class StepMessage(Protocol):
    """A decoded message of an engine."""

    @property
    def steps(self) -> Mapping[str, BehaviorSteps] | None:
        """The steps of the behaviors that have agents; None when the message is not about agents."""


E = TypeVar("E", bound="EngineEnvironment[Any]")
M = TypeVar("M", bound=StepMessage)
M_co = TypeVar("M_co", bound=StepMessage, covariant=True)


class Answer(Protocol[M_co]):
    """A message that may still be being decoded."""

    @property
    def done(self) -> bool:
        """Whether `result` would return or raise without waiting."""

    def result(self) -> M_co:
        """The message. Raises WireError when it cannot be read."""


class EngineEnvironment(BaseEnv, Generic[M]):  # type: ignore[misc]
    """An engine and its agents.

    `step` and `reset` wait for the engine. To drive several environments, send first (`send_step`,
    `send_reset`), and receive from each when `poll` is true. Once the engine is lost, because it has ended or
    has not answered in time, each of these raises the error that told so.

    A subclass reads and writes the messages of one protocol: it defines the methods that are abstract here.
    Its own constructor takes keyword arguments, and `of` the options as one value.

    Args:
        name: The environment's name in messages.
        timeout_wait: Seconds that the engine has for each answer.
        specs: The behaviors that the engine has described so far, filled by the subclass.
        non_finite: What to do about NaN and infinities, `stop` or `zero`; None lets them pass. Only what
            collects trajectories can drop them, such as an `EnvManager`.

    Raises:
        ValueError: `non_finite` is none of these.
    """

    def __init__(
        self, name: str, timeout_wait: float, specs: Mapping[str, BehaviorSpec], non_finite: str | None
    ) -> None:
        policy = None if non_finite is None else NonFinitePolicy(non_finite)
        if policy is NonFinitePolicy.DROP:
            raise ValueError(
                f"non_finite='drop' drops an agent's trajectory, and a {type(self).__name__} has none. Give "
                "'stop', 'zero' or None, or let an EnvManager(..., non_finite=NonFinitePolicy.DROP) step it."
            )
        self.name = name
        self.timeout_wait = float(timeout_wait)
        self.on_arrival: Callable[[], None] | None = None
        """A function that is called, from another thread, when the engine's process has ended or images have
        been decoded."""
        self._non_finite = policy
        self._warned: set[tuple[str, str]] = set()
        self._known_specs = specs
        self._specs = BehaviorMapping(specs)
        self._steps: dict[str, BehaviorSteps] = {}
        self._actions: dict[str, ActionTuple] = {}
        self._pending: Answer[M] | WireError | None = None
        """The answer or the error that `poll` has found, for `receive`."""
        self._was_reset = False
        self._loaded = False

    @classmethod
    def of(cls: type[E], options: EngineOptions, side_channels: Sequence[SideChannel] = ()) -> E:
        """Open the environment of these options. Raises as the constructor."""
        env = cls.__new__(cls)
        env._open(options, side_channels)
        return env

    @abstractmethod
    def _open(self, options: EngineOptions, side_channels: Sequence[SideChannel]) -> None:
        """Initialize the environment, and connect to its engine."""

    def _connect(self, connect: Connect, greet: Callable[[EngineConnection], None]) -> None:
        """Connect to the engine; `greet` does what a session begins with. Closes the engine if it fails."""
        self._connection = connect(self._announce)
        self._loaded = True
        shutdown.register(self._connection)
        try:
            greet(self._connection)
        except BaseException as error:
            self._connection.set_closing_reason(str(error))
            self._close(timeout=0.0)
            raise

    @abstractmethod
    def _encode_reset(self) -> bytes:
        """The message that resets the engine."""

    @abstractmethod
    def _encode_step(self, actions: Mapping[str, ActionTuple]) -> bytes:
        """The message with the actions of every behavior that has agents which wait for them."""

    @abstractmethod
    def _read(self, data: bytes) -> Answer[M] | None:
        """Begin to decode a message; None if it was answered at once and another will come.

        Raises:
            WireError: It cannot be read.
        """

    @abstractmethod
    def _check(self, message: M) -> None:
        """Refuse a message that is no answer to a step or a reset.

        Raises:
            UnityException: The message is something else; the error says what.
        """

    def _process(self, message: M) -> None:
        """Process what a message brings besides its agents."""

    @property
    def port(self) -> int:
        """The port on which the engine calls."""
        return self._connection.port

    def take_introduction(self) -> list[str]:
        """What is to be logged of the engine now that it may take part; it is not kept back any longer."""
        lines, self._connection.introduction = self._connection.introduction, None
        return lines or []

    @property
    def terms(self) -> Terms:
        """The words for the engine in messages to its users."""
        return self._connection.terms

    @property
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviors that the engine has described so far; none before the first reset."""
        return self._specs  # type: ignore[no-any-return]

    def reset(self) -> None:
        """Start new episodes and wait for the first observations.

        Raises:
            UnityTimeOutException: The engine did not answer in time.
            UnityEnvironmentException: The engine's process ended.
            UnityCommunicatorStoppedException: The engine ended the session.
            UnityCommunicationException: What the engine sent cannot be read.
            NonFiniteError: An observation or a reward is not finite, and `non_finite` is `stop`.
        """
        self.send_reset()
        self.receive()

    def step(self) -> None:
        """Let the agents act and wait until some of them need a decision again, or have ended.

        Agents without actions get zeros. A first step without a reset is a reset. Raises as `reset` does.
        """
        self.send_step()
        self.receive()

    def send_reset(self) -> None:
        """Answer the engine with a reset; return at once."""
        self._check_loaded()
        self._connection.reply(self._encode_reset())
        self._was_reset = True
        self._connection.heeds_quit = True

    def send_step(self) -> None:
        """Answer the engine with the actions that were set; return at once."""
        if not (self._was_reset and self._loaded):
            self.send_reset()
            return
        actions = {}
        for name, spec in self._known_specs.items():
            waiting = len(self._steps[name][0]) if name in self._steps else 0
            if waiting:
                actions[name] = self._actions.get(name) or spec.action_spec.empty_action(waiting)
        self._connection.reply(self._encode_step(actions))

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register the engine's sockets with a selector, so that it reports when to call `poll`.

        Args:
            selector: It may serve many environments at once. None unregisters them.
            token: The `data` of the selector's keys.
        """
        if self._loaded:
            self._connection.watch(selector, token)

    def poll(self) -> bool:
        """Whether `receive` would return or raise without waiting.

        Starts to read the engine's answer when it is there. While other threads decode its images, this is
        false; `on_arrival` is called when they have finished.
        """
        if self._pending is None:
            if not self._loaded:
                self._check_loaded()
            data = self._connection.poll()
            if data is None:
                return self._connection.gone()
            self._start_reading(data)
        pending = self._pending
        return isinstance(pending, WireError) or (pending is not None and pending.done)

    @property
    def awaits_answer(self) -> bool:
        """Whether a step or a reset was sent, and its answer not received yet."""
        return self._pending is not None or self._connection.awaits_call

    def receive(self) -> None:
        """Process the engine's answer, waiting for it. Raises as `reset` does."""
        while self._pending is None:
            self._check_loaded()
            self._start_reading(self._await_message(self._connection))
        pending, self._pending = self._pending, None
        if isinstance(pending, WireError):
            raise pending
        message = pending.result()
        self._check(message)
        self._connection.stage = self._connection.terms.silent
        self._actions.clear()
        self._update(message.steps or {})
        self._process(message)

    def _await_message(self, connection: EngineConnection) -> bytes:
        """The engine's next message; raises as `EngineConnection.receive`."""
        return connection.receive()

    def get_steps(self, behavior_name: str) -> BehaviorSteps:
        """A behavior's agents in the last answer: DecisionSteps and TerminalSteps. Not a copy.

        Raises:
            UnityActionException: The engine has described no such behavior.
        """
        steps = self._steps.get(behavior_name)
        if steps is None:
            self._check_behavior(behavior_name)
            return self._steps[behavior_name]
        return steps

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Set what a behavior's agents do in the next step.

        Args:
            behavior_name: The behavior.
            action: [n, continuous] and [n, branches], in the order of the last DecisionSteps.

        Raises:
            UnityActionException: The engine has described no such behavior, or a shape is wrong.
        """
        steps = self._steps.get(behavior_name)
        if steps is None:
            self._check_behavior(behavior_name)
            return
        check_shape(self._known_specs[behavior_name], action, len(steps[0]), behavior_name)
        self._actions[behavior_name] = action

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Set what one agent does in the next step.

        Args:
            behavior_name: The agent's behavior.
            agent_id: Its id in the last DecisionSteps.
            action: [1, continuous] and [1, branches].

        Raises:
            UnityActionException: The engine has described no such behavior, or a shape is wrong.
            IndexError: The agent does not wait for a decision.
        """
        self._check_behavior(behavior_name)
        if behavior_name not in self._steps:
            return
        spec = self._known_specs[behavior_name]
        check_shape(spec, action, 1, behavior_name)
        self._actions[behavior_name] = with_action(
            self._actions.get(behavior_name),
            spec.action_spec,
            self._steps[behavior_name][0],
            agent_id,
            action,
            behavior_name,
        )

    def lost_lives(self, behavior_name: str) -> NDArray[np.int32]:
        """Return no agents: engines report a lost life as the end of an episode."""
        return NO_AGENTS

    @abstractmethod
    def statistics(self) -> EngineStatistics:
        """The statistics that the engine's code has reported since the last call."""

    @abstractmethod
    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters; they arrive with the next step or reset.

        Args:
            parameters: Numbers, or samplers as in the configuration.

        Raises:
            UnityEnvironmentException: The engine takes no such parameters.
        """

    def output(self) -> str:
        """The last lines that the engine has written, to be appended to a message; may be empty."""
        return self._connection.output()

    def timed_out(self) -> UnityException:
        """Abandon the engine, which has not answered in time: `close` will not wait for it.

        Returns:
            The error to raise or report, with what is known of the engine.
        """
        return self._connection.timed_out()

    def close(self, timeout: float | None = None) -> None:
        """End the session and the engine's process.

        Args:
            timeout: Seconds that the engine has to end by itself before it is killed; by default
                `timeout_wait`, but none once it has failed to answer.

        Raises:
            UnityEnvironmentException: It has been closed already.
        """
        self._check_loaded()
        self._close(timeout)

    def _close(self, timeout: float | None = None) -> None:
        if self._loaded:
            self._loaded = False
            self._pending = None
            shutdown.unregister(self._connection)
            self._connection.close(timeout)

    def _start_reading(self, data: bytes) -> None:
        try:
            self._pending = self._read(data)
        except WireError as error:
            self._pending = error

    def _announce(self) -> None:
        if self.on_arrival is not None:
            self.on_arrival()

    def _update(self, steps: Mapping[str, BehaviorSteps]) -> None:
        """Store every behavior's agents, none where the message does not mention it."""
        for name, spec in self._known_specs.items():
            if name not in self._steps:
                self._connection.introduce(f"Connected new brain: {name}")
            found = steps.get(name) or no_steps(spec)
            if self._non_finite is not None:
                found, _ = check_finite(found, spec, self.name, name, self._non_finite, self._warned)
            self._steps[name] = found

    def _check_loaded(self) -> None:
        if not self._loaded:
            raise UnityEnvironmentException(f"No {self.terms.name} environment is loaded.")

    def _check_behavior(self, name: str) -> None:
        if name not in self._known_specs:
            raise UnityActionException(
                f"The group {name} does not correspond to an existing agent group in the environment. "
                f"Its groups are {', '.join(self._known_specs) or 'not known before the first reset'}."
            )
