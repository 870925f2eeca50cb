"""A Unity environment, or any engine that speaks its protocol, as a BaseEnv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
)

from ..base import EngineStatistics
from ..engines import ports
from ..engines.connection import EngineConnection
from ..engines.environment import Answer, EngineEnvironment
from ..engines.options import Connect, EngineOptions, Transport
from ..errors import OtherEngineError
from ..images import Images
from ..protocol.decoder import Decoder, EngineMessage
from ..protocol.encoder import Encoder
from ..protocol.handshake import API_VERSION
from ..side_channels import EnvironmentParametersChannel, SideChannel, SideChannelManager, StatsSideChannel
from ..validation import NonFinitePolicy
from .handshake import Handshake
from .launch import is_editor, launch, plugin_of, terms_of_engine


class UnityEnvironment(EngineEnvironment[EngineMessage]):
    """An engine and its agents, launched from an executable or met in the Editor.

    `step` and `reset` wait for the engine. To drive several environments, send first (`send_step`,
    `send_reset`), and receive from each when `poll` is true.

    Args:
        file_name: The executable, or one of Lanista's scenes such as `scene:ball3d`; None waits for the
            Unity Editor. After `unreal:` a game of Unreal; that alone waits for Unreal's editor.
        worker_id: Which of several environments this is; added to the port, and part of the log's name.
        base_port: The port of worker 0. Without it the Editor gets 5004, and an executable the first
            free port from 5005 + worker_id on.
        seed: For the engine's random numbers.
        no_graphics: Launch the executable without a window.
        no_graphics_monitor: Launch without a window unless this is worker 0.
        timeout_wait: Seconds that the engine has for its start and for each answer.
        additional_args: More arguments for the executable.
        side_channels: The channels that messages may use, each with a UUID of its own.
        log_folder: Where the executable writes `Player-<worker_id>.log`, and that of the one before is kept
            as `Player-<worker_id>.1.log` and so on; made if it is missing.
        num_areas: How many copies of its training area the engine makes, if it can.
        listen: The address on which the engine calls; `localhost` is reachable from this machine alone, and
            always listened on as well.
        allow: Networks (CIDR) from which it may call besides this machine. Those that contain 127.0.0.1 let
            any program of this machine call, not only the one that was launched.
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
        ValueError: `non_finite` is none of these, or `allow` has what is no network.
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
        allow: Sequence[str] = (),
        non_finite: str | None = NonFinitePolicy.STOP.value,
        engine_name: str | None = None,
        images: Images = "float32",
        connect: Connect | None = None,
        transport: Transport = "lean",
    ) -> None:
        options = EngineOptions.of(
            path=file_name,
            worker_id=worker_id,
            base_port=base_port,
            seed=seed,
            no_graphics=no_graphics,
            no_graphics_monitor=no_graphics_monitor,
            timeout_wait=timeout_wait,
            additional_args=additional_args,
            log_folder=log_folder,
            num_areas=num_areas,
            listen=listen,
            allow=allow,
            non_finite=non_finite,
            engine_name=engine_name,
            images=images,
            connect=connect,
            transport=transport,
        )
        self._open(options, side_channels or ())

    def _open(self, options: EngineOptions, side_channels: Sequence[SideChannel]) -> None:
        if is_editor(options.path) and options.worker_id != 0 and options.connect is None:
            raise UnityEnvironmentException(
                "If the environment name is None, the worker-id must be 0 in order to connect with the "
                f"Editor, but it is {options.worker_id}."
            )
        plugin = plugin_of(options.path)
        self._decoder = Decoder(options.name, options.images, plugin.dialect)
        self._encoder = Encoder(plugin.dialect)
        super().__init__(options.name, options.timeout_wait, self._decoder.specs, options.non_finite)
        self.worker_id = options.worker_id
        self._channels = list(side_channels)
        self._side_channels = SideChannelManager(self._channels, where=self.name)
        statistics = [channel for channel in self._channels if isinstance(channel, StatsSideChannel)]
        self._statistics = statistics[0] if statistics else None

        def greet(connection: EngineConnection) -> None:
            connection.terms = terms_of_engine(options.path)
            if connection.kind is not plugin.kind:
                raise OtherEngineError(connection.port, connection.kind.name, plugin.kind.name)
            handshake = Handshake(
                connection,
                plugin,
                self._decoder,
                self._encoder,
                options.seed,
                options.num_areas,
                self.name,
            )
            self.academy_capabilities = handshake.shake()

        self._connect(options.connect or partial(launch, options), greet)

    def _encode_reset(self) -> bytes:
        return self._encoder.reset(self._side_channels.generate(), self._decoder.specs)

    def _encode_step(self, actions: Mapping[str, ActionTuple]) -> bytes:
        deprecated = not self.academy_capabilities.hybrid_actions
        side_channel = b""
        for channel in self._channels:
            if channel.message_queue:
                side_channel = self._side_channels.generate()
                break
        return self._encoder.actions(actions, side_channel, deprecated_field=deprecated)

    def _read(self, data: bytes) -> Answer[EngineMessage]:
        return self._decoder.start(data, self._announce)

    def _check(self, message: EngineMessage) -> None:
        """Refuse the end of the session, and what is sent only at its start: this is another engine."""
        if message.status != 200:
            # At once: until it is answered the Editor is frozen, also while a run is being saved.
            self._connection.send_quit()
            raise UnityCommunicatorStoppedException(
                f"Communicator has exited. ({self.name} ended the session.){self._connection.log_tail()}"
            )
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

    def _process(self, message: EngineMessage) -> None:
        if message.side_channel:
            self._side_channels.process(message.side_channel)

    def statistics(self) -> EngineStatistics:
        """What the engine's code has reported since the last call; nothing without a `StatsSideChannel`."""
        if self._statistics is None or not self._statistics.stats:
            return {}
        return self._statistics.get_and_reset_stats()

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
