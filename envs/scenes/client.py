"""Runs a world as an engine: the process at the other end of the wire."""

import logging
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from mlagents_envs.exception import UnityException

from ..errors import TrainerGoneError
from ..grpc.client import EngineEndpoint
from ..protocol.dialect import UNITY, Dialect
from ..protocol.engine import StepEncoder, encode_hello, encode_ready
from ..protocol.engine_decoder import ReplyDecoder, TrainerReply
from ..protocol.handshake import OWN_ENGINE
from ..side_channels import (
    DefaultTrainingAnalyticsSideChannel,
    EngineConfigurationChannel,
    IncomingMessage,
    OutgoingMessage,
    SideChannel,
    SideChannelManager,
)
from .options import UsageError, options_of, parse
from .world import Actions, Batches, Parameters, World

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 20.0
"""A trainer listens before it starts its engines, so waiting longer is useless."""
USAGE_STATUS = 2
FAILED_STATUS = 1

_PACKAGE_VERSION = "4.0.0"
"""The version of Unity's package whose behavior this follows; trainers log it."""


class UnexpectedActionsError(Exception):
    """The trainer's actions do not fit the agents that requested them."""


class _EngineSettings(SideChannel):
    """Window, quality and time scale: a world has none of them and always runs at full speed."""

    def __init__(self) -> None:
        super().__init__(EngineConfigurationChannel().channel_id)

    def on_message_received(self, msg: IncomingMessage) -> None:
        kind = EngineConfigurationChannel.ConfigurationType(msg.read_int32())
        logger.info("The trainer sets %s, which means nothing here.", kind.name)


class _Statistics(SideChannel):
    """Sends the world's statistics to the trainer."""

    def __init__(self) -> None:
        super().__init__(uuid.UUID("a1d8f7b7-cec8-50f9-b78b-d3e165a78520"))

    def send_from(self, world: World) -> None:
        for key, value, aggregation in world.statistics():
            message = OutgoingMessage()
            message.write_string(key)
            message.write_float32(value)
            message.write_int32(aggregation.value)
            self.queue_message_to_send(message)

    def on_message_received(self, msg: IncomingMessage) -> None:
        raise UnityException("The trainer sent statistics; they only go to the trainer.")


class _Analytics(SideChannel):
    """The training analytics that ML-Agents' trainers send to Unity; ignored."""

    def __init__(self) -> None:
        super().__init__(DefaultTrainingAnalyticsSideChannel.CHANNEL_ID)

    def on_message_received(self, msg: IncomingMessage) -> None:
        pass


class Session:
    """Serves one world to one trainer, from the handshake to the end."""

    def __init__(
        self,
        world: World,
        endpoint: EngineEndpoint,
        with_areas: Callable[[int], World] | None = None,
        dialect: Dialect = UNITY,
        name: str = "",
    ) -> None:
        """Prepare to serve.

        Args:
            world: What is stepped.
            endpoint: The connection.
            with_areas: Makes the world with a number of areas; None if it has no such option.
            dialect: What the trainer speaks.
            name: By which the trainer's log calls the world; that of its class by default.
        """
        self._name = name or type(world).__name__
        self._dialect = dialect
        self._world = world
        self._endpoint = endpoint
        self._with_areas = with_areas
        self._parameters = Parameters()
        self._statistics = _Statistics()

    def run(self) -> None:
        """Serve the trainer until it quits.

        Raises:
            TrainerGoneError: The connection was lost.
        """
        decoder = ReplyDecoder(self._dialect)
        greeting = encode_hello(OWN_ENGINE + self._name, _PACKAGE_VERSION, dialect=self._dialect)
        hello = decoder.decode(self._endpoint.exchange(greeting))
        if hello.kind == "quit":
            logger.info("The trainer refused the handshake.")
            return
        # The trainer's number of areas overrides the command line's, but 1 is only its default.
        if hello.num_areas > 1 and self._with_areas is not None:
            self._world = self._with_areas(hello.num_areas)
        self._world.prepare(hello.seed, hello.num_areas)
        # A seed is any 32 bits; negative ones are valid.
        random = np.random.default_rng(hello.seed & 0xFFFFFFFF)
        specs = self._world.specs()
        encoder = StepEncoder(specs, self._world.png_level, self._dialect)
        reply = decoder.decode(self._endpoint.exchange(encode_ready()))
        batches: Batches | None = None
        channels = self._open_channels()
        while reply.kind != "quit":
            channels.process(reply.side_channel)
            if reply.kind == "reset" or batches is None:
                batches = self._world.reset(random, self._parameters)
            else:
                check_actions(reply.actions, batches, specs)
                batches = self._step(reply)
            if not batches.keys() <= specs.keys():
                specs = self._world.specs()
                encoder.add(specs)
            self._statistics.send_from(self._world)
            reply = decoder.decode(self._endpoint.exchange(encoder.encode(batches, channels.generate())))
        logger.info("The trainer said goodbye.")

    def _open_channels(self) -> SideChannelManager:
        """The channels that every trainer expects, and those of the world."""
        usual = [self._parameters, self._statistics, _EngineSettings(), _Analytics()]
        return SideChannelManager([*usual, *self._world.side_channels()], "the trainer")

    def _step(self, reply: TrainerReply) -> Batches:
        """Step the world until it has something to report."""
        batches = self._world.step(reply.actions)
        while not (any(len(batch.agent_id) for batch in batches.values()) or self._world.over()):
            batches = self._world.step({})
        return batches


def check_actions(actions: Actions, batches: Batches, specs: Mapping[str, BehaviorSpec]) -> None:
    """Check that the trainer sent actions for each agent that requested a decision, and for no other.

    Raises:
        UnexpectedActionsError: It did not.
    """
    for name, batch in batches.items():
        asking = len(batch.done) - int(np.count_nonzero(batch.done))
        spec = specs[name].action_spec
        expected = ((asking, spec.continuous_size), (asking, spec.discrete_size))
        found = tuple(part.shape for part in actions[name]) if name in actions else ((0, 0), (0, 0))
        if asking and found != expected:
            raise UnexpectedActionsError(
                f"Behavior {name!r}: the deciding agents need continuous and discrete actions of "
                f"the shapes {expected[0]} and {expected[1]}; the trainer sent {found[0]} and {found[1]}."
            )


def main(make: type[World], arguments: Sequence[str] | None = None, program: str | None = None) -> int:
    """Run a world as the program of this process.

    Args:
        make: The world's class; its constructor's keyword parameters become the program's options.
        arguments: The command line; that of the process when None.
        program: How the help calls the program.

    Returns:
        The exit status: 0 after the trainer quit, 1 if the connection was lost or the world failed,
        2 for a command line that cannot be understood.
    """
    program = program or Path(sys.argv[0]).name
    try:
        given = parse(make, sys.argv[1:] if arguments is None else arguments, program)
        start_log(given.log_file)
        endpoint = EngineEndpoint(given.port, path=given.dialect.path)
        # Before connecting to the trainer, so that wrong options are reported on the command line.
        world = make(**given.options)
    except (UsageError, ValueError, OSError) as error:
        usage = error.usage if isinstance(error, UsageError) else ""
        print(f"{program}: {error}\n\n{usage}".rstrip(), file=sys.stderr)
        return USAGE_STATUS
    logger.info("%s calls the trainer on port %d; options %s.", program, given.port, dict(given.options))
    takes_areas = "areas" in options_of(make)
    with_areas = (lambda areas: make(**{**given.options, "areas": areas})) if takes_areas else None
    return serve(Session(world, endpoint, with_areas, given.dialect, program), endpoint)


def start_log(log_file: str | None) -> TextIO:
    """Log to a file ("-" for the standard output, None for standard error); returns the stream."""
    if log_file and log_file != "-":
        Path(log_file).parent.mkdir(parents=True, exist_ok=True)
        stream: TextIO = Path(log_file).open("w", encoding="utf-8")  # noqa: SIM115 (to the end)
    else:
        stream = sys.stdout if log_file else sys.stderr
    handler = logging.StreamHandler(stream)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", handlers=[handler], force=True)
    return stream


def serve(session: Session, endpoint: EngineEndpoint) -> int:
    """Connect to the trainer and serve it to the end; returns the exit status, as `main`."""
    try:
        endpoint.connect(CONNECT_SECONDS)
        session.run()
    except TrainerGoneError as error:
        logger.error("%s", error)
        return FAILED_STATUS
    except KeyboardInterrupt:
        logger.info("Interrupted.")
        return FAILED_STATUS
    except Exception:  # whatever a scene raises belongs in its log
        logger.exception("The scene failed.")
        return FAILED_STATUS
    finally:
        endpoint.close()
    return 0
