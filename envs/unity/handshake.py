"""The handshake with which a session begins."""

import logging
from dataclasses import dataclass

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
)

from ..engines.connection import EngineConnection
from ..engines.terms import PYTHON, Terms
from ..errors import WireError
from ..protocol.decoder import Decoder
from ..protocol.encoder import Encoder
from ..protocol.handshake import OWN_ENGINE, Capabilities, EngineHello, compatible
from .plugin import Plugin

logger = logging.getLogger(__name__)

_LOG_SECONDS = 1.0
"""How long an engine of another version may take to write its log and end, before its process is ended."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """The first two calls of an engine; afterwards it waits for the first reset.

    Where nobody has started the engine, as the Editor, any program of the machine may call: whose first call
    is no greeting is turned away, who leaves before the handshake is complete was no engine, and the next one
    that calls may be.
    """

    connection: EngineConnection
    plugin: Plugin
    decoder: Decoder
    encoder: Encoder
    seed: int
    num_areas: int
    name: str
    """The environment's, in messages."""

    def shake(self) -> Capabilities:
        """Wait for the engine, and answer its greeting.

        Returns:
            What the engine can do.

        Raises:
            UnityEnvironmentException: It speaks another version of the protocol, or ended.
            UnityTimeOutException: It did not call.
            UnityCommunicatorStoppedException: It ended the session.
            UnityCommunicationException: What it sent is not an initialization.
        """
        while True:
            self.connection.expect(self._why_no_greeting)
            try:
                return self._attempt()
            except UnityCommunicatorStoppedException:
                if not self.connection.wait_for_reconnect():
                    raise
                logger.debug("%s: who greeted has left before the handshake was complete.", self.name)

    def _why_no_greeting(self, data: bytes) -> str:
        return why_no_greeting(data, self.name, self.plugin)

    def _why_neither(self, data: bytes) -> str:
        """Once greeted, an engine may go on by another connection, with its second call."""
        return "" if _asks_for_reset(data, self.name, self.plugin) else self._why_no_greeting(data)

    def _attempt(self) -> Capabilities:
        hello = self._receive_hello()
        while True:
            if hello.name.startswith(OWN_ENGINE):
                self.connection.terms = PYTHON
            self.connection.expect(self._why_neither)
            # An engine of another version gets our initialization too: its own log then shows both versions.
            self.connection.reply(self.encoder.initialization(self.seed, self.num_areas))
            if not compatible(hello.communication_version, self.plugin.dialect.api_version):
                self.connection.await_exit(_LOG_SECONDS)
                raise _incompatible(self.plugin, hello, self.connection.terms, self.name)
            self.connection.stage = self.connection.terms.greeted
            ready = self.decoder.decode(self.connection.receive())
            _check_status(ready.status, self.name)
            if ready.hello is None:
                break
            if not self.connection.accepts_reconnect():
                raise UnityCommunicationException(
                    f"{self.name}: its second message is a greeting, as its first is."
                )
            hello = ready.hello  # of another one, which has called where the first one has left
        self.connection.begin(self.decoder.continues)
        # Not before: who greets and leaves must not fill the log.
        self._announce(hello)
        self.connection.heeds_quit = hello.name.startswith(OWN_ENGINE)
        self.connection.stage = self.connection.terms.idle
        return hello.capabilities

    def _announce(self, hello: EngineHello) -> None:
        self.connection.introduce(_introduction(self.plugin, hello))
        if not hello.capabilities.base_rl:
            logger.warning(
                "%s: the engine does not report that it supports reinforcement learning at all.", self.name
            )

    def _receive_hello(self) -> EngineHello:
        data = self.connection.receive()
        strange = f"{self.name}: the first message is not the initialization that an engine begins with"
        if self.decoder.is_mid_session(data):
            raise UnityCommunicationException(
                f"{strange}: it belongs to a session that is over. Restart the engine; one that is left over "
                "from an earlier run may have to be ended."
            )
        message = self.decoder.decode(data)
        _check_status(message.status, self.name)
        if message.hello is None:
            raise UnityCommunicationException(
                f"{strange}. Does something else than an ML-Agents engine call on this port?"
            )
        return message.hello


def why_no_greeting(data: bytes, where: str, plugin: Plugin) -> str:
    """Why a first call is not an engine's greeting; empty if it is."""
    decoder = Decoder(where, dialect=plugin.dialect)
    if decoder.is_mid_session(data):
        return "it is in the middle of a session that is over here; restart the engine"
    try:
        message = decoder.decode(data)
    except WireError:
        return "its first call is not a message of an ML-Agents engine"
    if message.status != 200 or message.hello is None:
        return "its first call is not the greeting of an ML-Agents engine"
    return ""


def _asks_for_reset(data: bytes, where: str, plugin: Plugin) -> bool:
    """Whether a call is the second one of a session, which has a header and no more."""
    try:
        message = Decoder(where, dialect=plugin.dialect).decode(data)
    except WireError:
        return False
    return message.status == 200 and message.hello is None and message.steps is None


def _introduction(plugin: Plugin, hello: EngineHello) -> str:
    own_name = hello.name.removeprefix(OWN_ENGINE)
    own = own_name != hello.name
    what = f"{own_name} ({plugin.protocol})" if own else f"{plugin.kind.name} environment"
    return (
        f"Connected to {what} with package version {hello.package_version} and communication version "
        f"{hello.communication_version}"
    )


def _incompatible(plugin: Plugin, hello: EngineHello, terms: Terms, name: str) -> UnityEnvironmentException:
    engine = terms.name
    return UnityEnvironmentException(
        f"The communication API version is not compatible between {engine} and python. Python API: "
        f"{plugin.dialect.api_version}, {engine} API: {hello.communication_version}. ({name}, package "
        f"version {hello.package_version or 'unknown'}.)\n {terms.releases}"
    )


def _check_status(status: int, name: str) -> None:
    if status != 200:
        raise UnityCommunicatorStoppedException(
            f"Communicator has exited. {name} ended the session during the handshake (status {status})."
        )
