"""The connection to one engine: waiting for its messages, and why it does not answer."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from selectors import BaseSelector

from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
    UnityTimeOutException,
)

from .engine_errors import EngineError
from .interfaces import Engine, EngineKind, EngineSession, ErrorListener
from .logs import listed_errors

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
"""How often the engine's process is checked while waiting for its message."""
_EXIT_SECONDS = 2.0
"""How long an engine whose connection is gone may take to end, so that its exit code can be reported."""
_DEAF_SECONDS = 1.0
"""How long an engine that need not heed the message to quit yet may take to end."""
_MAX_REASON = 500
"""Characters of the reason that an engine is given for a disconnect."""


def was_rejected(rejection: str) -> str:
    """A sentence for an engine that has not begun: that who called was turned away; empty if nobody was.

    It goes before all guesses at what else may be wrong.
    """
    return rejection and f"A program called, and was turned away: {rejection}."


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
        listener: Finds errors in the log of an engine without a process of ours; None if there is none.
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
        listener: ErrorListener | None = None,
    ) -> None:
        self.kind = kind
        self._listener = listener
        if listener is not None:
            listener.start()
        self.terms = kind.terms
        """The words for the engine in messages: those of its kind, unless more is known of it."""
        self._windowless = windowless
        self._session = session
        self._process = process
        self.timeout = timeout
        self._name = name
        self._arrived: bytes | None = None
        self._our_turn = False
        self._quit_sent = False
        self._failure: UnityException | None = None
        """Why the engine is lost, to be raised again whatever else is asked of it."""
        self._dropped_at: float | None = None
        """When the connection was first seen to be gone while the process still ran."""
        self._has_called = False
        self.heeds_quit = True
        """Whether it ends when it is told to quit. A Unity player does not before the first reset, when the
        Academy begins: it goes on without a trainer."""
        self.introduction: list[str] | None = None
        """What is still to be logged of it, where others decide first whether it may take part; else None."""
        self.stage = ""
        """What the engine has done so far, for the message of a timeout; empty before its first call."""
        self._opened_by = os.getpid()
        self._disowned = False
        """Whether this is a forked process, and the engine its parent's."""

    @property
    def port(self) -> int:
        """The port on which the engine calls."""
        return self._session.port

    @property
    def exit_code(self) -> int | None:
        """The exit code of the engine's process; None while it runs, or where it is not known."""
        return None if self._process is None else self._process.returncode

    @property
    def awaits_call(self) -> bool:
        """Whether it is the engine's turn."""
        return not self._our_turn

    def watch(self, selector: BaseSelector | None, token: object) -> None:
        """Let a selector report, with `token` as its keys' data, when to call `poll`; None ends that."""
        self._session.watch(selector, token)

    def introduce(self, line: str) -> None:
        """Log what the engine has said of itself, or keep it until it may take part."""
        if self.introduction is None:
            logger.info("%s", line)
        else:
            self.introduction.append(line)

    def disown(self) -> None:
        """In a forked process: use the engine no more, and leave it alone."""
        self._disowned = True
        self._failure = UnityEnvironmentException(
            f"{self._name} was opened by process {self._opened_by}, and process {os.getpid()}, which was "
            "forked from it, cannot use it: an engine talks to one process. Open the environment in the "
            "process that steps it, as in the function that a pool or a vector environment calls there."
        )

    def poll(self) -> bytes | None:
        """The engine's next message if it has arrived, processing all that the sockets have."""
        if self._failure is not None:
            return None
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
            UnityEnvironmentException: The engine's process has ended, or lost its connection; or this process
                was forked from the one that has opened the environment.
            UnityCommunicatorStoppedException: The Editor's connection is gone.
        """
        self._check_not_lost()
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
            self._failure = self._why_gone()
            raise self._failure
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
        if self._failure is None or not self.accepts_reconnect():
            return False
        self._failure = None
        self._our_turn = self._has_called = False
        self.stage = "Who has called has left before the handshake was complete, and nobody has called since."
        return True

    def gone(self) -> bool:
        """Whether the engine is lost, and `receive` can say why without waiting."""
        return self._failure is not None or (self._is_diagnosed() and self._time_to_exit() <= 0)

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
        state = self.log_tail()
        rejected = "" if self._has_called else was_rejected(self._session.rejection)
        late = (
            f"The {self.terms.name} environment took too long to respond: {self._name} did not answer within "
            f"{self.timeout:g} s. {rejected or self.stage or self._why_no_call()}{state}"
        )
        error = None if self._process is None else self._process.external_error()
        if not (self.stage or rejected):
            late += f"\nMake sure that :\n{self.terms.checklist}"
            late += "" if self._windowless or not self.terms.displays else f"\n{self.terms.displays}"
        self._failure = error or UnityTimeOutException(late)
        return self._failure

    def _check_not_lost(self) -> None:
        """Raise the error with which the engine was lost, if it was: the next call has the same cause."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _why_no_call(self) -> str:
        """What may be wrong with an engine that has not called."""
        if self._session.has_client:
            return self.terms.connected
        started = self._process is not None
        return self.terms.never_called if started else self.terms.not_played or self.terms.never_called

    def reply(self, message: bytes) -> None:
        """Answer the engine's call, so that it continues.

        Raises:
            UnityCommunicatorStoppedException: The engine was told to quit.
            UnityCommunicationException: The engine has not called since the last reply.
            UnityException: The engine is lost, or another process's: the error that told so.
        """
        if self._failure is not None:
            self._check_not_lost()
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
            self._our_turn = False
            self._session.reply(self.kind.quit)
            self._quit_sent = True

    def errors(self) -> Sequence[EngineError]:
        """The first of each kind of error that the engine has printed so far, where that is known."""
        source = self._process or self._listener
        return () if source is None else source.errors()

    def output(self) -> str:
        """The last lines that the engine's process has written, while it runs; may be empty."""
        return "" if self._process is None else self._process.output()

    def log_tail(self) -> str:
        """The state and the last lines of the engine's process, to be appended to a message; may be empty."""
        if self._process is not None:
            return f" {self._process.describe(self._has_called)}"
        return listed_errors(self.errors())

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
                answer, or has never called, gets none: it would not receive the message to quit. One that
                need not heed it yet has nothing to lose, and gets a second.
        """
        if self._disowned:
            return
        if self._failure is not None or not self._has_called:
            timeout = 0.0
        elif timeout is None:
            timeout = self.timeout
        if not self.heeds_quit:
            timeout = min(timeout, _DEAF_SECONDS)
        deadline = time.monotonic() + timeout
        try:
            self._quit(deadline)
            if self._process is not None and not self._process.wait(max(0.0, deadline - time.monotonic())):
                if timeout > 0 and self.heeds_quit:
                    logger.warning("Environment timed out shutting down. Killing... (%s)", self._name)
                self._process.kill()
        except BaseException:  # a second Ctrl-C must not leave the engine behind
            if self._process is not None:
                self._process.kill()
            raise
        finally:
            self._session.close()
            if self._listener is not None:
                self._listener.close()

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
            what = f"{self.terms.ended_early}: {rejected or 'what it wrote may tell why.'} "
            if self.terms.displays and not (self._windowless or rejected):
                what += "Where there is no display, --no-graphics helps. "
        else:
            what = ""
        return UnityEnvironmentException(f"{self._name}: {what}{self._process.describe(self._has_called)}")
