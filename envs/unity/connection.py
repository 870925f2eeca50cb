"""An engine at the other end of the wire: waiting for it, and finding out why it does not answer.

The first two calls of an engine: who are you, and may we talk?
"""

import logging
import time
from selectors import BaseSelector
from typing import Protocol

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
    UnityTimeOutException,
)

from ..grpc.session import Endpoint
from ..protocol.decoder import Capabilities, Decoder, EngineHello, encode_initialization, encode_quit
from ..protocol.handshake import API_VERSION, compatible

logger = logging.getLogger(__name__)

_SLICE = 0.1
"""Seconds between two looks at the engine's process while waiting for its message."""
_LAST_BREATH = 2.0
"""Seconds that an engine whose connection is gone has to end, so that its exit code can be told."""

_LAST_WORDS = 500
"""Letters of what an engine is told when it is sent away."""

_CHECKLIST = """\
\t The environment does not need user interaction to launch
\t The Agents' Behavior Parameters > Behavior Type is set to "Default"
\t The environment and the Python interface have compatible versions.
\t If you're running on a headless server without graphics support, turn off display by either \
passing --no-graphics option or build your Unity executable as server build."""


class Engine(Protocol):
    """The program at the other end: a process of ours (`EngineProcess`), or one on another machine."""

    @property
    def returncode(self) -> int | None:
        """None while it runs, or where nothing is known; else its exit code."""

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended, at most `timeout` seconds; whether it has."""

    def kill(self) -> None:
        """End it at once, with all that belongs to it."""

    def describe(self) -> str:
        """How it is, or how it ended, with the last lines that it wrote."""

    def looked_into(self) -> bool:
        """Whether all that can be found out is known, its connection being gone. Does not wait."""

    def excuse(self) -> UnityEnvironmentException | None:
        """What to raise where the engine is not to blame for its end."""


class EngineConnection:
    """One engine: the socket on which it calls and, if we have started it, its process.

    Engine and trainer take turns. The engine's call brings a message and waits for the reply.

    Args:
        endpoint: Where the engine calls.
        process: The engine's program; None for one that we have not started, such as the Editor.
        timeout: Seconds within which the engine has to answer.
        name: How messages call this environment.
    """

    def __init__(self, endpoint: Endpoint, process: Engine | None, timeout: float, name: str) -> None:
        self._endpoint = endpoint
        self._process = process
        self.timeout = timeout
        self._name = name
        self._arrived: bytes | None = None
        self._engine_waits = False
        self._dismissed = False
        self._lost = False
        self._called = False
        self.answered = False
        """Whether it has answered a reset: its scene is as it should be."""
        self.stage = "It has not called yet: it did not start, or it has no ML-Agents communicator."
        """What the engine has done so far, for the message of a timeout."""

    @property
    def port(self) -> int:
        """The port on which the engine calls."""
        return self._endpoint.port

    def watch(self, selector: BaseSelector | None, token: object) -> None:
        """Let a selector know the sockets, with `token` as its keys' data; it then tells when to ask `ready`.

        None ends that.
        """
        self._endpoint.watch(selector, token)

    @property
    def arrived(self) -> bool:
        """Whether `ready` has found a message."""
        return self._arrived is not None

    def ready(self) -> bool:
        """Whether `receive` would not wait: a message is there, or the engine is gone.

        Takes in whatever the sockets have.
        """
        if self._engine_waits:
            self._endpoint.pump()
        elif self._arrived is None:
            self._arrived = self._endpoint.receive(0.0)
        return self._arrived is not None or self._gone()

    def receive(self) -> bytes:
        """The engine's next message.

        Raises:
            UnityTimeOutException: Nothing came within the timeout.
            UnityEnvironmentException: The engine's process has ended, or lost its connection.
            UnityCommunicatorStoppedException: The Editor's connection is gone.
        """
        deadline = time.monotonic() + self.timeout
        while self._arrived is None and not self._gone():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise self.overdue()
            self._arrived = self._endpoint.receive(min(_SLICE, remaining))
            if self._process is not None and self._endpoint.disconnected:
                self._process.wait(min(_SLICE, remaining))
        message, self._arrived = self._arrived, None
        if message is None:  # gone; its last message may have come in the same instant
            message = self._endpoint.receive(0.0)
        if message is None:
            self._lost = True
            raise self._why_gone()
        self._engine_waits = self._called = True
        return message

    def overdue(self) -> UnityException:
        """Give the engine up, since it did not answer in time: `close` will not wait for it.

        Returns:
            The error to raise, with what is known of the engine.
        """
        self._lost = True
        late = self._why_late()
        excuse = None if self._process is None else self._process.excuse()
        return excuse or UnityTimeOutException(late)

    def reply(self, message: bytes) -> None:
        """Answer the engine's call; it goes on now.

        Raises:
            UnityCommunicatorStoppedException: The engine was dismissed.
            UnityCommunicationException: The engine has not called since the last reply.
        """
        if self._dismissed:
            raise UnityCommunicatorStoppedException(
                f"Communicator has exited. {self._name} was told to quit."
            )
        if not self._engine_waits:
            raise UnityCommunicationException(
                f"{self._name} has not answered the last request yet, so that nothing new can be asked of it."
            )
        self._engine_waits = False
        self._endpoint.reply(message)

    def dismiss(self) -> None:
        """Tell the engine to quit if it waits for an answer; return at once. `close` then awaits its end."""
        if self._dismissed:
            return
        self.ready()  # takes a call in that has just come
        self._engine_waits = self._engine_waits or self._arrived is not None
        if self._engine_waits:
            self.reply(encode_quit())
            self._dismissed = True

    def part(self, reason: str) -> None:
        """The engine is about to be closed for this reason: `close` tells it the first line."""
        self._endpoint.last_words = (reason.strip().splitlines() or [""])[0][:_LAST_WORDS]

    def await_end(self, timeout: float) -> None:
        """Give the engine's process, if we have started it, some seconds to end by itself."""
        if self._process is not None:
            self._process.wait(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Tell the engine to quit, wait for its end, and kill it if it does not come.

        Args:
            timeout: Seconds to wait for it; by default the connection's own. An engine that has failed to
                answer, or has never called, gets none: it will not hear that it is to quit.
        """
        if self._lost or not self._called:
            timeout = 0.0
        elif timeout is None:
            timeout = self.timeout
        deadline = time.monotonic() + timeout
        try:
            self._quit(deadline)
            if self._process is not None and not self._process.wait(max(0.0, deadline - time.monotonic())):
                if timeout > 0:
                    logger.warning("Environment timed out shutting down. Killing... (%s)", self._name)
                self._process.kill()
        except BaseException:  # a second Ctrl-C must not leave the engine behind
            if self._process is not None:
                self._process.kill()
            raise
        finally:
            self._endpoint.close()

    def _quit(self, deadline: float) -> None:
        """Answer the call in which the engine waits, or the one that it is about to make, with quit."""
        while not self._dismissed and not self._hung_up():
            self.dismiss()
            remaining = deadline - time.monotonic()
            if self._dismissed or remaining <= 0:
                return
            self._arrived = self._endpoint.receive(min(_SLICE, remaining))

    def _hung_up(self) -> bool:
        return self._endpoint.disconnected or (self._process is not None and self._process.wait(0.0))

    def _gone(self) -> bool:
        """Whether it has hung up, and what is to be known about that is known."""
        return self._hung_up() and (self._process is None or self._process.looked_into())

    def _why_gone(self) -> UnityException:
        if self._process is None:
            return UnityCommunicatorStoppedException(
                f"Communicator has exited. The connection to {self._name} was dropped by the other side."
            )
        self._process.wait(_LAST_BREATH)
        if (excuse := self._process.excuse()) is not None:
            return excuse
        if self._process.returncode is None:
            what = "The engine has dropped its connection. "
        elif not self._called:
            what = (
                "The engine ended before it called the trainer: what it wrote may tell why. Where there is "
                "no display, --no-graphics helps. "
            )
        else:
            what = ""
        return UnityEnvironmentException(f"{self._name}: {what}{self._process.describe()}")

    def _why_late(self) -> str:
        state = "" if self._process is None else f" {self._process.describe()}"
        late = (
            f"The Unity environment took too long to respond: {self._name} did not answer within "
            f"{self.timeout:g} s. {self.stage}{state}"
        )
        return late if self.answered else f"{late}\nMake sure that :\n{_CHECKLIST}"


_LAST_WORDS_SECONDS = 1.0
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
        connection.await_end(_LAST_WORDS_SECONDS)
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
