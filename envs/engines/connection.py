"""The connection to one engine: waiting for its messages, and why it does not answer."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from selectors import BaseSelector
from typing import Protocol

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
    UnityTimeOutException,
)

from .clients import ClientRules
from .engine_errors import EngineError

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
"""How often the engine's process is checked while waiting for its message."""
_EXIT_SECONDS = 2.0
"""How long an engine whose connection is gone may take to end, so that its exit code can be reported."""
_MAX_REASON = 500
"""Characters of the reason that an engine is given for a disconnect."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """What is particular to a kind of engine: its words in messages, and how it is told to quit."""

    name: str
    """Such as `Unity`."""
    quit: bytes
    """The message after which it ends."""
    never_called: str
    """A sentence for one that has not called: what may be wrong."""
    checklist: str
    """What to look at when one does not begin, a line each."""
    displays: str
    """A further line for one that was launched with a window."""


def was_rejected(rejection: str) -> str:
    """A sentence for an engine that has not begun: that who called was turned away; empty if nobody was.

    It goes before all guesses at what else may be wrong.
    """
    return rejection and f"A program called, and was turned away: {rejection}."


class EngineSession(Protocol):
    """A server for one engine's calls: `grpc.server.ServerSession`, or grpcio's.

    One thread at a time uses it, and nothing happens between its calls.
    """

    closing_reason: str
    """Why the session is closed, for the engine; `close` sends it."""
    client_rules: ClientRules
    """Who may call on the port."""
    fault: str
    """Why this side has cut the connection, where what the engine sends is no message at all; else empty."""
    objection: Callable[[bytes], str] | None
    """Why a first call on another connection is not the engine's, empty if it may be; None: any may."""

    @property
    def rejection(self) -> str:
        """Why the last client was turned away; empty if there was none."""

    @property
    def port(self) -> int:
        """The port on which the engine calls."""

    @property
    def disconnected(self) -> bool:
        """Whether the engine has gone."""

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Let a selector report when to call `pump`; None ends that."""

    def pump(self) -> None:
        """Process what has arrived and send what could not be sent before, without waiting."""

    def receive(self, timeout: float) -> bytes | None:
        """The engine's next request; None if none arrived within `timeout` seconds or the engine has gone."""

    def reply(self, data: bytes) -> None:
        """Respond to the request received last. Has no effect when the engine has gone meanwhile."""

    def wait_for_reconnect(self) -> bool:
        """Forget the engine, which has gone, so that another one may begin; whether one can call."""

    def close(self, wait: bool = True) -> None:
        """Tell an engine that still waits for an answer to quit, and stop serving.

        Args:
            wait: For the last answer to leave.
        """


class Engine(Protocol):
    """The program at the other end: a process of ours (`EngineProcess`), or one on another machine."""

    @property
    def returncode(self) -> int | None:
        """None while it runs, or where nothing is known; else its exit code."""

    def wait(self, timeout: float) -> bool:
        """Wait until it has ended, at most `timeout` seconds; whether it has."""

    def kill(self) -> None:
        """End it at once, with all its children."""

    def describe(self, called: bool = True) -> str:
        """Its state, or how it ended, with what it wrote; `called`: whether the trainer has heard from it."""

    def output(self) -> str:
        """The last lines that it has written so far; nothing where they cannot be had."""

    def errors(self) -> Sequence[EngineError]:
        """The first of each kind of error that it has printed so far, where that is known."""

    def is_diagnosed(self) -> bool:
        """Whether all that can be found out about a lost connection is known. Does not wait."""

    def external_error(self) -> UnityEnvironmentException | None:
        """What to raise if something other than the engine is to blame for its end."""


class EngineConnection:
    """One engine: the session in which it calls and, if we have started it, its process.

    Engine and trainer take turns. The engine's call brings a message and waits for the reply.

    Args:
        session: The server that the engine calls.
        process: The engine's program; None for one that we have not started, such as the Editor.
        timeout: Seconds within which the engine has to answer.
        name: The environment's name in messages.
        kind: The engine's.
        windowless: It was launched without a window.
    """

    def __init__(
        self,
        session: EngineSession,
        process: Engine | None,
        timeout: float,
        name: str,
        kind: EngineKind,
        *,
        windowless: bool = False,
    ) -> None:
        self.kind = kind
        self._windowless = windowless
        self._session = session
        self._process = process
        self.timeout = timeout
        self._name = name
        self._arrived: bytes | None = None
        self._our_turn = False
        self._quit_sent = False
        self._lost = False
        self._dropped_at: float | None = None
        """When the connection was first seen to be gone while the process still ran."""
        self._has_called = False
        self.answered = False
        """Whether it has answered a reset, so that its scene is set up correctly."""
        self.stage = kind.never_called
        """What the engine has done so far, for the message of a timeout."""

    @property
    def port(self) -> int:
        """The port on which the engine calls."""
        return self._session.port

    @property
    def awaits_call(self) -> bool:
        """Whether it is the engine's turn."""
        return not self._our_turn

    def watch(self, selector: BaseSelector | None, token: object) -> None:
        """Let a selector report, with `token` as its keys' data, when to call `poll`; None ends that."""
        self._session.watch(selector, token)

    def poll(self) -> bytes | None:
        """The engine's next message if it has arrived, processing all that the sockets have."""
        if self._our_turn:
            self._session.pump()
            return None
        message, self._arrived = self._arrived, None
        if message is None:
            message = self._session.receive(0.0)
        if message is not None:
            self._our_turn = self._has_called = True
        return message

    def receive(self) -> bytes:
        """The engine's next message.

        Raises:
            UnityTimeOutException: Nothing came within the timeout.
            UnityEnvironmentException: The engine's process has ended, or lost its connection.
            UnityCommunicatorStoppedException: The Editor's connection is gone.
        """
        deadline = time.monotonic() + self.timeout
        while self._arrived is None and not self._is_diagnosed():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise self.timed_out()
            self._arrived = self._session.receive(min(_POLL_SECONDS, remaining))
            if self._process is not None and self._session.disconnected:
                self._process.wait(min(_POLL_SECONDS, remaining))
        message, self._arrived = self._arrived, None
        if message is None:  # gone; its last message may have come in the same instant
            message = self._session.receive(0.0)
        if message is None:
            self._lost = True
            raise self._why_gone()
        self._our_turn = self._has_called = True
        return message

    def expect(self, objection: Callable[[bytes], str]) -> None:
        """Turn away clients that are no engines, where any program may call before the session has begun.

        Args:
            objection: Why a first call is not an engine's; empty if it is.
        """
        if self._process is None:
            self._session.objection = objection

    def begin(self, continues: Callable[[bytes], bool]) -> None:
        """The session has begun: from now on who calls anew must go on with it, as an engine that reconnects.

        Args:
            continues: Whether a call does.
        """
        other = "a session with an engine is under way, and it would begin another"
        self._session.objection = lambda call: "" if continues(call) else other

    def accepts_reconnect(self) -> bool:
        """Whether any program may be the engine, and begin in the place of one that has left."""
        return self._process is None and self._session.wait_for_reconnect()

    def wait_for_reconnect(self) -> bool:
        """Forget who has called and left before it was an engine; whether another may call in its place.

        None may where we have started the engine, or where it was met elsewhere.
        """
        if not (self._lost and self.accepts_reconnect()):
            return False
        self._our_turn = self._lost = self._has_called = False
        self.stage = self.kind.never_called
        return True

    def gone(self) -> bool:
        """Whether the engine has disconnected, and `receive` can say why without waiting."""
        return self._is_diagnosed() and self._time_to_exit() <= 0

    def _is_diagnosed(self) -> bool:
        """Whether the engine has disconnected, and all that can be known is known, but how it ends."""
        return self._disconnected() and (self._process is None or self._process.is_diagnosed())

    def _time_to_exit(self) -> float:
        """Seconds that the process of an engine that has disconnected still has, to end by itself."""
        process = self._process
        if (
            process is None
            or process.wait(0.0)
            or self._session.fault
            or process.external_error() is not None
        ):
            return 0.0
        if self._dropped_at is None:
            self._dropped_at = time.monotonic()
        return max(0.0, self._dropped_at + _EXIT_SECONDS - time.monotonic())

    def timed_out(self) -> UnityException:
        """Abandon the engine, which has not answered in time: `close` will not wait for it.

        Returns:
            The error to raise, with what is known of the engine.
        """
        self._lost = True
        state = "" if self._process is None else f" {self._process.describe(self._has_called)}"
        rejected = "" if self._has_called else was_rejected(self._session.rejection)
        late = (
            f"The {self.kind.name} environment took too long to respond: {self._name} did not answer within "
            f"{self.timeout:g} s. {rejected or self.stage}{state}"
        )
        error = None if self._process is None else self._process.external_error()
        if not (self.answered or rejected):
            late += f"\nMake sure that :\n{self.kind.checklist}"
            late += "" if self._windowless else f"\n{self.kind.displays}"
        return error or UnityTimeOutException(late)

    def reply(self, message: bytes) -> None:
        """Answer the engine's call, so that it continues.

        Raises:
            UnityCommunicatorStoppedException: The engine was told to quit.
            UnityCommunicationException: The engine has not called since the last reply.
        """
        if self._quit_sent:
            raise UnityCommunicatorStoppedException(
                f"Communicator has exited. {self._name} was told to quit."
            )
        if not self._our_turn:
            raise UnityCommunicationException(
                f"{self._name} has not answered the last request yet, so that nothing new can be asked of it."
            )
        self._our_turn = False
        self._session.reply(message)

    def send_quit(self) -> None:
        """Tell the engine to quit if it waits for an answer; return at once. `close` then awaits its end."""
        if self._quit_sent:
            return
        if not self._our_turn and self._arrived is None:
            self._arrived = self._session.receive(0.0)  # a call that has just come
        self._our_turn = self._our_turn or self._arrived is not None
        if self._our_turn:
            self.reply(self.kind.quit)
            self._quit_sent = True

    def errors(self) -> Sequence[EngineError]:
        """The first of each kind of error that the engine has printed so far, where that is known."""
        return () if self._process is None else self._process.errors()

    def output(self) -> str:
        """The last lines that the engine's process has written, while it runs; may be empty."""
        return "" if self._process is None else self._process.output()

    def log_tail(self) -> str:
        """The state and the last lines of the engine's process, to be appended to a message; may be empty."""
        return "" if self._process is None else f" {self._process.describe(self._has_called)}"

    def set_closing_reason(self, reason: str) -> None:
        """`close` will send the engine the first line of this."""
        self._session.closing_reason = (reason.strip().splitlines() or [""])[0][:_MAX_REASON]

    def await_exit(self, timeout: float) -> None:
        """Give the engine's process, if we have started it, `timeout` seconds to end by itself."""
        if self._process is not None:
            self._process.wait(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Tell the engine to quit, wait for its end, and kill it if it does not end.

        Args:
            timeout: Seconds to wait; by default the connection's own. An engine that has failed to
                answer, or has never called, gets none: it would not receive the message to quit.
        """
        if self._lost or not self._has_called:
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
            self._session.close()

    def _quit(self, deadline: float) -> None:
        """Answer the call in which the engine waits, or the one that it is about to make, with quit."""
        while not self._quit_sent and not self._disconnected():
            self.send_quit()
            remaining = deadline - time.monotonic()
            if self._quit_sent or remaining <= 0:
                return
            self._arrived = self._session.receive(min(_POLL_SECONDS, remaining))

    def _disconnected(self) -> bool:
        return self._session.disconnected or (self._process is not None and self._process.wait(0.0))

    def _why_gone(self) -> UnityException:
        error = None if self._process is None else self._process.external_error()
        if error is not None:
            return error
        if self._session.fault:
            what = f"{self._name}: its connection was closed, since {self._session.fault}."
            return UnityCommunicationException(f"{what}{self.log_tail()}")
        if self._process is None:
            return UnityCommunicatorStoppedException(
                f"Communicator has exited. The connection to {self._name} was dropped by the other side."
            )
        self._process.wait(self._time_to_exit())
        if self._process.returncode is None:
            what = "The engine has dropped its connection. "
        elif not self._has_called:
            rejected = was_rejected(self._session.rejection)
            what = (
                f"The engine ended before it called the trainer: {rejected or 'what it wrote may tell why.'} "
            )
            if not (self._windowless or rejected):
                what += "Where there is no display, --no-graphics helps. "
        else:
            what = ""
        return UnityEnvironmentException(f"{self._name}: {what}{self._process.describe(self._has_called)}")
