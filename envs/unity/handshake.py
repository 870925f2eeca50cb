"""The handshake with which a session begins."""

import logging

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
)

from ..engines.connection import EngineConnection
from ..engines.plugin import Plugin
from ..protocol.decoder import Decoder
from ..protocol.encoder import Encoder
from ..protocol.handshake import OWN_ENGINE, Capabilities, EngineHello, compatible

logger = logging.getLogger(__name__)

_LOG_SECONDS = 1.0
"""How long an engine of another version may take to write its log and end, before its process is ended."""


def handshake(
    connection: EngineConnection,
    plugin: Plugin,
    decoder: Decoder,
    encoder: Encoder,
    seed: int,
    num_areas: int,
    name: str,
) -> Capabilities:
    """The first two calls of an engine; afterwards it waits for the first reset.

    Where nobody has started the engine, as the Editor, any program of the machine may call: who leaves before
    the handshake is complete was no engine, and the next one that calls may be.

    Returns:
        What the engine can do.

    Raises:
        UnityEnvironmentException: It speaks another version of the protocol, or ended.
        UnityTimeOutException: It did not call.
        UnityCommunicatorStoppedException: It ended the session.
        UnityCommunicationException: What it sent is not an initialization.
    """
    arguments = connection, plugin, decoder, encoder, seed, num_areas, name
    while True:
        try:
            return _shake_hands(*arguments)
        except UnityCommunicatorStoppedException:
            if not connection.await_another():
                raise
            logger.debug("%s: who greeted has left before the handshake was complete.", name)


def _shake_hands(
    connection: EngineConnection,
    plugin: Plugin,
    decoder: Decoder,
    encoder: Encoder,
    seed: int,
    num_areas: int,
    name: str,
) -> Capabilities:
    hello = _receive_hello(connection, decoder, name)
    while True:
        # An engine of another version gets our initialization too: its own log then shows the two versions.
        connection.reply(encoder.initialization(seed, num_areas))
        if not compatible(hello.communication_version, plugin.dialect.api_version):
            connection.await_exit(_LOG_SECONDS)
            raise _incompatible(plugin, hello, name)
        connection.stage = "It connected, but did not complete the handshake."
        ready = decoder.decode(connection.receive())
        _check_status(ready.status, name)
        if ready.hello is None:
            break
        if not connection.others_may_call():
            raise UnityCommunicationException(f"{name}: its second message is a greeting, as its first is.")
        hello = ready.hello  # of another one, which has called where the first one has left
    connection.begin(decoder.is_mid_session)
    # Not before: who greets and leaves must not fill the log.
    kind, own_name = plugin.kind.name, hello.name.removeprefix(OWN_ENGINE)
    own = own_name != hello.name
    logger.info(
        "Connected to %s with package version %s and communication version %s",
        f"{own_name} ({kind}'s protocol)" if own else f"{kind} environment",
        hello.package_version,
        hello.communication_version,
    )
    if not hello.capabilities.base_rl:
        logger.warning("%s: the engine does not report that it supports reinforcement learning at all.", name)
    connection.stage = plugin.idle
    return hello.capabilities


def _receive_hello(connection: EngineConnection, decoder: Decoder, name: str) -> EngineHello:
    data = connection.receive()
    strange = f"{name}: the first message is not the initialization that an engine begins with"
    if decoder.is_mid_session(data):
        raise UnityCommunicationException(
            f"{strange}: it belongs to a session that is over. Restart the engine; one that is left over "
            "from an earlier run may have to be ended."
        )
    message = decoder.decode(data)
    _check_status(message.status, name)
    if message.hello is None:
        raise UnityCommunicationException(
            f"{strange}. Does something else than an ML-Agents engine call on this port?"
        )
    return message.hello


def _incompatible(plugin: Plugin, hello: EngineHello, name: str) -> UnityEnvironmentException:
    engine = plugin.kind.name
    return UnityEnvironmentException(
        f"The communication API version is not compatible between {engine} and python. Python API: "
        f"{plugin.dialect.api_version}, {engine} API: {hello.communication_version}. ({name}, package "
        f"version {hello.package_version or 'unknown'}.)\n {plugin.releases}"
    )


def _check_status(status: int, name: str) -> None:
    if status != 200:
        raise UnityCommunicatorStoppedException(
            f"Communicator has exited. {name} ended the session during the handshake (status {status})."
        )
