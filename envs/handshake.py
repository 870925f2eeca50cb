"""The first two calls of an engine: who are you, and may we talk?"""

import logging

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
)

from .connection import EngineConnection
from .wire.codec import Capabilities, Decoder, EngineHello, encode_initialization
from .wire.versions import API_VERSION, compatible

logger = logging.getLogger(__name__)

_LAST_WORDS = 1.0
"""Seconds that an engine of another version has to write its log and end, before its process is ended."""


def shake_hands(
    connection: EngineConnection, decoder: Decoder, seed: int, num_areas: int, name: str
) -> Capabilities:
    """Greet an engine that has just started; afterwards it waits for the first reset.

    Returns:
        What the engine can do.

    Raises:
        UnityEnvironmentException: It speaks another version of the protocol, or ended.
        UnityTimeOutException: It did not call.
        UnityCommunicatorStoppedException: It ended the session.
        UnityCommunicationException: What it sent is not a greeting.
    """
    hello = _greeting(connection, decoder, name)
    # An engine of another version gets our greeting too: its own log then tells the two versions.
    connection.reply(encode_initialization(seed, num_areas))
    if not compatible(hello.communication_version, API_VERSION):
        connection.await_end(_LAST_WORDS)
        raise _another_version(hello, name)
    _welcome(hello, name)
    connection.stage = "It connected, but did not complete the handshake."
    _expect_ok(decoder.decode(connection.receive()).status, name)
    connection.stage = (
        "It connected, but no agent has asked for a decision: the scene needs an active agent, and each "
        "agent a Decision Requester component or code that calls RequestDecision."
    )
    return hello.capabilities


def _greeting(connection: EngineConnection, decoder: Decoder, name: str) -> EngineHello:
    message = decoder.decode(connection.receive())
    _expect_ok(message.status, name)
    if message.hello is None:
        raise UnityCommunicationException(
            f"{name}: the first message is not the initialization that an engine begins with. Does something "
            "else than an ML-Agents engine call on this port, or an engine left over from an earlier run?"
        )
    return message.hello


def _another_version(hello: EngineHello, name: str) -> UnityEnvironmentException:
    return UnityEnvironmentException(
        "The communication API version is not compatible between Unity and python. Python API: "
        f"{API_VERSION}, Unity API: {hello.communication_version}. ({name}, package version "
        f"{hello.package_version or 'unknown'}.)\n Use a com.unity.ml-agents package that speaks "
        f"{API_VERSION.split('.')[0]}.x of the API, such as 2.x, 3.x or 4.x."
    )


def _welcome(hello: EngineHello, name: str) -> None:
    logger.info(
        "Connected to Unity environment with package version %s and communication version %s",
        hello.package_version,
        hello.communication_version,
    )
    if not hello.capabilities.base_rl:
        logger.warning("%s: the engine does not tell that it can do reinforcement learning at all.", name)


def _expect_ok(status: int, name: str) -> None:
    if status != 200:
        raise UnityCommunicatorStoppedException(
            f"Communicator has exited. {name} ended the session during the handshake (status {status})."
        )
