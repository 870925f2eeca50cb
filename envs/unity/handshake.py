"""Unity's kind of engine, and the handshake with which a session begins."""

import logging

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
)

from ..engines.connection import EngineConnection, EngineKind
from ..protocol.decoder import Decoder
from ..protocol.encoder import Encoder, encode_quit
from ..protocol.handshake import API_VERSION, Capabilities, EngineHello, compatible

logger = logging.getLogger(__name__)

UNITY = EngineKind(
    name="Unity",
    quit=encode_quit(),
    never_called="It has not called yet: it did not start, or it has no ML-Agents communicator.",
    checklist="""\
\t The environment does not need user interaction to launch
\t The Agents' Behavior Parameters > Behavior Type is set to "Default"
\t The environment and the Python interface have compatible versions.
\t If you're running on a headless server without graphics support, turn off display by either \
passing --no-graphics option or build your Unity executable as server build.""",
)

_LOG_SECONDS = 1.0
"""How long an engine of another version may take to write its log and end, before its process is ended."""


def handshake(
    connection: EngineConnection, decoder: Decoder, seed: int, num_areas: int, name: str
) -> Capabilities:
    """The first two calls of an engine; afterwards it waits for the first reset.

    Returns:
        What the engine can do.

    Raises:
        UnityEnvironmentException: It speaks another version of the protocol, or ended.
        UnityTimeOutException: It did not call.
        UnityCommunicatorStoppedException: It ended the session.
        UnityCommunicationException: What it sent is not an initialization.
    """
    hello = _receive_hello(connection, decoder, name)
    # An engine of another version gets our initialization too: its own log then shows the two versions.
    connection.reply(Encoder().initialization(seed, num_areas))
    if not compatible(hello.communication_version, API_VERSION):
        connection.await_exit(_LOG_SECONDS)
        raise _incompatible(hello, name)
    logger.info(
        "Connected to Unity environment with package version %s and communication version %s",
        hello.package_version,
        hello.communication_version,
    )
    if not hello.capabilities.base_rl:
        logger.warning("%s: the engine does not report that it supports reinforcement learning at all.", name)
    connection.stage = "It connected, but did not complete the handshake."
    _check_status(decoder.decode(connection.receive()).status, name)
    connection.stage = (
        "It connected, but no agent has asked for a decision: the scene needs an active agent, and each "
        "agent a Decision Requester component or code that calls RequestDecision."
    )
    return hello.capabilities


def _receive_hello(connection: EngineConnection, decoder: Decoder, name: str) -> EngineHello:
    message = decoder.decode(connection.receive())
    _check_status(message.status, name)
    if message.hello is None:
        raise UnityCommunicationException(
            f"{name}: the first message is not the initialization that an engine begins with. Does something "
            "else than an ML-Agents engine call on this port, or an engine left over from an earlier run?"
        )
    return message.hello


def _incompatible(hello: EngineHello, name: str) -> UnityEnvironmentException:
    return UnityEnvironmentException(
        "The communication API version is not compatible between Unity and python. Python API: "
        f"{API_VERSION}, Unity API: {hello.communication_version}. ({name}, package version "
        f"{hello.package_version or 'unknown'}.)\n Use a com.unity.ml-agents package that speaks "
        f"{API_VERSION.split('.')[0]}.x of the API, such as 2.x, 3.x or 4.x."
    )


def _check_status(status: int, name: str) -> None:
    if status != 200:
        raise UnityCommunicatorStoppedException(
            f"Communicator has exited. {name} ended the session during the handshake (status {status})."
        )
