"""A Unity environment, or any engine that speaks its protocol, as a BaseEnv."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from selectors import BaseSelector

import numpy as np
from mlagents_envs.base_env import ActionTuple, BaseEnv, BehaviorMapping, BehaviorSpec
from mlagents_envs.exception import (
    UnityActionException,
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
)
from numpy.typing import NDArray

from ..base import BehaviorSteps, EngineStatistics, no_steps
from ..errors import WireError
from ..images import Images
from ..protocol.decoder import Decoder, EngineMessage, PendingMessage, encode_actions, encode_reset
from ..protocol.handshake import API_VERSION
from ..side_channels import EnvironmentParametersChannel, SideChannel, SideChannelManager, StatsSideChannel
from ..validation import NO_AGENTS, NonFinitePolicy, check_finite, check_shape, with_action
from . import ports, shutdown
from .connection import EngineConnection, handshake
from .launch import Launch, Transport

logger = logging.getLogger(__name__)

Connect = Callable[[Callable[[], None]], EngineConnection]
"""Connects to an engine, as a `Launch` does; the argument is called when the engine's process ends."""


class UnityEnvironment(BaseEnv):  # type: ignore[misc]
    """An engine and its agents, launched from an executable or met in the Editor.

    `step` and `reset` wait for the engine. To drive several environments, send first (`send_step`,
    `send_reset`), and receive from each when `poll` is true.

    Args:
        file_name: The executable, or one of Lanista's scenes such as `scene:ball3d`; None waits for the
            Unity Editor.
        worker_id: Which of several environments this is; added to the port, and part of the log's name.
        base_port: The port of worker 0. Without it the Editor gets 5004, and an executable the first
            free port from 5005 + worker_id on.
        seed: For the engine's random numbers.
        no_graphics: Launch the executable without a window.
        no_graphics_monitor: Launch without a window unless this is worker 0.
        timeout_wait: Seconds that the engine has for its start and for each answer.
        additional_args: More arguments for the executable.
        side_channels: The channels that messages may use, each with a UUID of its own.
        log_folder: Where the executable writes `Player-<worker_id>.log`; made if it is missing.
        num_areas: How many copies of its training area the engine makes, if it can.
        listen: The address on which the engine calls; `localhost` is reachable from this machine alone, and
            always listened on as well.
        non_finite: What to do about NaN and infinities, `stop` or `zero`; None lets them pass. Only what
            collects trajectories can drop them, such as an `EnvManager`.
        engine_name: The environment's name in messages.
        images: The type in which `get_steps` returns compressed images: `float32` in 0 to 1, as in ML-Agents,
            or the `uint8` that these are made of, a quarter of the memory. Images in which channels are
            averaged (gray ones) are float32 in any case.
        connect: Connects to an engine that already runs, in place of `file_name` and all options of its
            launch; its argument is to be called when the engine's process ends, if that can be known.
        transport: The gRPC server that the engine calls: `lean`, Lanista's own, or `grpcio` for an engine or
            a proxy that needs a full one.

    Raises:
        ValueError: `non_finite` is none of these.
        UnityEnvironmentException: The executable is missing, may not be executed, ended, or speaks
            another version of the protocol.
        UnityWorkerInUseException: The Editor's port, or the requested one, is taken.
        UnityTimeOutException: The engine did not connect in time.
        UnityCommunicationException: What the engine sent cannot be read.
    """

    API_VERSION = API_VERSION
    DEFAULT_EDITOR_PORT = ports.EDITOR_PORT
    BASE_ENVIRONMENT_PORT = ports.FIRST_PORT

    def __init__(
        self,
        file_name: str | None = None,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,
        no_graphics_monitor: bool = False,
        timeout_wait: float = 60,
        additional_args: Sequence[str] | None = None,
        side_channels: Sequence[SideChannel] | None = None,
        log_folder: str | Path | None = None,
        num_areas: int = 1,
        *,
        listen: str = "localhost",
        non_finite: str | None = NonFinitePolicy.STOP.value,
        engine_name: str | None = None,
        images: Images = "float32",
        connect: Connect | None = None,
        transport: Transport = "lean",
    ) -> None:
        if file_name is None and worker_id != 0 and connect is None:
            raise UnityEnvironmentException(
                "If the environment name is None, the worker-id must be 0 in order to connect with the "
                f"Editor, but it is {worker_id}."
            )
        policy = None if non_finite is None else NonFinitePolicy(non_finite)
        if policy is NonFinitePolicy.DROP:
            raise ValueError(
                "non_finite='drop' drops an agent's trajectory, and a UnityEnvironment has none. Give "
                "'stop', 'zero' or None, or let an EnvManager(..., non_finite=NonFinitePolicy.DROP) step it."
            )
        self.name = engine_name or f"environment {worker_id}"
        self.worker_id = worker_id
        self.timeout_wait = float(timeout_wait)
        self.on_arrival: Callable[[], None] | None = None
        """Called, from another thread, when the engine's process has ended or images have been decoded."""
        self._channels = list(side_channels or ())
        self._side_channels = SideChannelManager(self._channels, where=self.name)
        statistics = [channel for channel in self._channels if isinstance(channel, StatsSideChannel)]
        self._statistics = statistics[0] if statistics else None
        self._non_finite = policy
        self._warned: set[tuple[str, str]] = set()
        self._decoder = Decoder(self.name, images)
        self._specs = BehaviorMapping(self._decoder.specs)
        self._steps: dict[str, BehaviorSteps] = {}
        self._actions: dict[str, ActionTuple] = {}
        self._was_reset = False
        self._loaded = False
        launch = connect or Launch(
            file_name,
            worker_id,
            base_port,
            listen,
            windowless=no_graphics or (no_graphics_monitor and worker_id != 0),
            additional_args=tuple(additional_args or ()),
            log_folder=None if log_folder is None else Path(log_folder),
            timeout=self.timeout_wait,
            name=self.name,
            transport=transport,
        )
        self._connection = launch(self._announce)
        self._pending: EngineMessage | PendingMessage | WireError | None = None
        """What `poll` has found, for `receive`."""
        self._loaded = True
        shutdown.register(self._connection)
        try:
            self.academy_capabilities = handshake(self._connection, self._decoder, seed, num_areas, self.name)
        except BaseException as error:
            self._connection.set_closing_reason(str(error))
            self._close(timeout=0.0)
            raise

    @property
    def port(self) -> int:
        """The port on which the engine calls."""
        return self._connection.port

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
        self._connection.reply(encode_reset(self._side_channels.generate()))
        self._was_reset = True

    def send_step(self) -> None:
        """Answer the engine with the actions that were set; return at once."""
        if not (self._was_reset and self._loaded):
            self.send_reset()
            return
        actions = {}
        for name, spec in self._decoder.specs.items():
            waiting = len(self._steps[name][0]) if name in self._steps else 0
            if waiting:
                actions[name] = self._actions.get(name) or spec.action_spec.empty_action(waiting)
        deprecated = not self.academy_capabilities.hybrid_actions
        side_channel = b""
        for channel in self._channels:
            if channel.message_queue:
                side_channel = self._side_channels.generate()
                break
        self._connection.reply(encode_actions(actions, side_channel, deprecated_field=deprecated))

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
        return not isinstance(self._pending, PendingMessage) or self._pending.done

    def receive(self) -> None:
        """Process the engine's answer, waiting for it. Raises as `reset` does."""
        if self._pending is None:
            self._check_loaded()
            self._start_reading(self._connection.receive())
        pending, self._pending = self._pending, None
        message = pending.result() if isinstance(pending, PendingMessage) else pending
        if isinstance(message, WireError):
            raise message
        assert message is not None
        if message.status != 200:
            # At once: until it is answered the Editor is frozen, also while a run is being saved.
            self._connection.send_quit()
            raise UnityCommunicatorStoppedException(
                f"Communicator has exited. ({self.name} ended the session.)"
            )
        if message.hello is not None or message.steps is None:
            self._check_expected(message)
        self._connection.stage = "It answered before, and then no more."
        self._connection.answered = True
        self._actions.clear()
        self._update(message)
        if message.side_channel:
            self._side_channels.process(message.side_channel)

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
        check_shape(self._decoder.specs[behavior_name], action, len(steps[0]), behavior_name)
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
        spec = self._decoder.specs[behavior_name]
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
        """No agents: engines report a lost life as the end of an episode."""
        return NO_AGENTS

    def statistics(self) -> EngineStatistics:
        """What the engine's code has reported since the last call; nothing without a `StatsSideChannel`."""
        if self._statistics is None or not self._statistics.stats:
            return {}
        return self._statistics.get_and_reset_stats()

    def timed_out(self) -> UnityException:
        """Abandon the engine, which has not answered in time: `close` will not wait for it.

        Returns:
            The error to raise or report, with what is known of the engine.
        """
        return self._connection.timed_out()

    def set_parameters(self, parameters: Mapping[str, object]) -> None:
        """Set environment parameters; they arrive with the next step or reset.

        Args:
            parameters: Numbers, or samplers as in the configuration: objects whose
                `apply(name, channel)` sends them.

        Raises:
            UnityEnvironmentException: There is no `EnvironmentParametersChannel` to send them on.
        """
        if not parameters:
            return
        channel = next((c for c in self._channels if isinstance(c, EnvironmentParametersChannel)), None)
        if channel is None:
            raise UnityEnvironmentException(
                f"{self.name} has no EnvironmentParametersChannel among its side channels, so that these "
                f"parameters cannot be set: {sorted(parameters)}."
            )
        channel.set_parameters(parameters)

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
            self._pending = self._decoder.start(data, self._announce)
        except WireError as error:
            self._pending = error

    def _announce(self) -> None:
        if self.on_arrival is not None:
            self.on_arrival()

    def _update(self, message: EngineMessage) -> None:
        """Store every behavior's agents, none where the message does not mention it."""
        steps = message.steps or {}
        for name, spec in self._decoder.specs.items():
            if name not in self._steps:
                logger.info("Connected new brain: %s", name)
            found = steps.get(name) or no_steps(spec)
            if self._non_finite is not None:
                found, _ = check_finite(found, spec, self.name, name, self._non_finite, self._warned)
            self._steps[name] = found

    def _check_expected(self, message: EngineMessage) -> None:
        """Refuse what is sent only at the start of a session: this is another engine."""
        if message.hello is not None and message.hello.communication_version:
            came = f"the greeting of an engine ({message.hello.name or 'without a name'})"
        elif message.steps is None:
            came = "a message that tells nothing of any agents (it has no rl_output)"
        else:
            return
        raise UnityCommunicationException(
            f"{self.name}: in the middle of the session came {came} instead of the agents' observations. Was "
            f"the engine started again, or does another one call on port {self.port}?"
        )

    def _check_loaded(self) -> None:
        if not self._loaded:
            raise UnityEnvironmentException("No Unity environment is loaded.")

    def _check_behavior(self, name: str) -> None:
        if name not in self._decoder.specs:
            raise UnityActionException(
                f"The group {name} does not correspond to an existing agent group in the environment. "
                f"Its groups are {', '.join(self._decoder.specs) or 'not known before the first reset'}."
            )
