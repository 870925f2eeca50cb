"""What a connection to an engine is made of: the engine's kind, its session, and its program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from selectors import BaseSelector
from typing import Protocol

from mlagents_envs.exception import UnityEnvironmentException

from .clients import ClientRules
from .engine_errors import EngineError
from .terms import Terms


@dataclass(frozen=True, slots=True)
class EngineKind:
    """What is particular to a kind of engine: its words in messages, and how it is told to quit."""

    terms: Terms
    quit: bytes
    """The message after which it ends."""

    @property
    def name(self) -> str:
        """Such as `Unity`."""
        return self.terms.name


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

    @property
    def has_client(self) -> bool:
        """Whether somebody is connected, the engine or one that has not shown yet whether it is."""

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


class ErrorListener(Protocol):
    """Finds errors in what an engine prints: `listener.EngineListener`."""

    def start(self) -> None:
        """Listen from now on."""

    def errors(self) -> Sequence[EngineError]:
        """The first of each kind of error that the engine has printed so far."""

    def close(self) -> None:
        """Read the rest, and stop listening."""
