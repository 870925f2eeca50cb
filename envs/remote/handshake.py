"""A connection until it is known to be an engine or is rejected."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from selectors import EVENT_READ, EVENT_WRITE

from ..engines.address import AllowedNetworks
from ..engines.connection import EngineConnection
from ..engines.interfaces import Engine, EngineKind, EngineSession
from ..engines.listening import has_hung_up
from ..engines.session import Stream
from ..grpc.server import Peer, ServerSession
from ..protocol.handshake import OLD_UNITY, OLDEST_UNITY
from ..unity.handshake import why_no_greeting
from ..unity.launch import EDITORS, plugin_of
from .forwarding import configure_keepalive
from .preamble import MAX_LINE, Preamble, PreambleError, Refusal, encode_answer
from .tls import TlsStream

_TLS_HANDSHAKE = b"\x16"
"""The first byte of every TLS connection; gRPC starts with a letter."""


@dataclass(frozen=True, slots=True)
class GreetedEngine:
    """An engine that says nothing before it is greeted, so that only who expects it knows what it is."""

    kind: EngineKind
    serve: Callable[[Stream, str], EngineSession]
    """Greets the engine at the other end of a connection; the second argument is its place, for messages."""


class RejectedError(Exception):
    """The client is not an engine, or not one that is admitted.

    Args:
        reason: Why, for the log and for its relay.
        seconds: When it may be admitted if it calls again; None if it will not be.
    """

    def __init__(self, reason: str, seconds: int | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds


Answer = Callable[[Preamble, str], GreetedEngine | None]
"""Admits a relay at an address, or raises RejectedError; returns what its engine is, None for one that calls
by gRPC."""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Which clients are admitted."""

    networks: AllowedNetworks = field(default_factory=AllowedNetworks)
    """The networks from which engines may connect in plain text, besides this machine."""
    tls: ssl.SSLContext | None = None
    """The TLS context for relays; None to admit none."""


class AttachedEngine:
    """An engine that has sent its first call and waits for the answer, or that has been greeted."""

    def __init__(
        self,
        session: EngineSession,
        kind: EngineKind,
        where: str,
        name: str | None,
        file_name: str | None = None,
    ) -> None:
        self.session = session
        self.kind = kind
        self.where = where
        """The engine's address or its relay's, for messages."""
        self.name = name
        """The name under which the engine is expected; None if it is not expected by name."""
        self.file_name = file_name
        """The environment name that tells the plug-in, if the engine's first call was to the gRPC server."""
        self.on_rejected: Callable[[], None] = lambda: None
        """Called if the engine has left, or is turned away, before it takes part."""

    def connection(
        self, name: str, timeout: float, engine: Engine | None = None, *, windowless: bool = False
    ) -> EngineConnection:
        """The connection for an environment; to be called once.

        Args:
            name: The environment's name in messages.
            timeout: Seconds that the engine has for each answer.
            engine: The engine's program, if known.
            windowless: Whether the engine was launched without a window.
        """
        return EngineConnection(self.session, engine, timeout, name, self.kind, windowless=windowless)

    def has_left(self) -> bool:
        """Whether the engine's connection has ended already; does not wait."""
        for _ in range(2):  # what it sent last, and the end behind that
            self.session.pump()
        return self.session.disconnected

    def reject(self, reason: str = "") -> None:
        """Disconnect: the engine is asked to quit, and its relay gets the reason."""
        self.session.closing_reason = reason
        self.session.close(wait=False)


class IncomingConnection:
    """One connection that is not admitted yet. Nothing blocks: `advance` does what can be done at once.

    Args:
        connection: The non-blocking socket.
        host: The other side's address.
        port: The other side's port.
        rules: Which clients are admitted.
        answer: Decides about relays.
    """

    def __init__(
        self,
        connection: socket.socket,
        host: str,
        port: int,
        rules: AccessRules,
        answer: Answer,
        deadline: float,
    ) -> None:
        self.host = host
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.deadline = deadline
        self.stage = "it sent nothing"
        """The reason for which the connection is rejected if its time runs out."""
        self._rules = rules
        self._answer = answer
        self._socket: socket.socket = connection
        self._stream: Stream = connection
        self._peer: Peer | None = None
        self._session: ServerSession | None = None
        self.cost = 0.0
        """Seconds of processor time that the connection has taken."""
        self._steps = self._admit_steps()

    def fileno(self) -> int:
        """The file descriptor, for selectors."""
        return self._stream.fileno()

    def advance(self) -> int | AttachedEngine | None:
        """Do what can be done.

        Returns:
            The selector events to wait for; or the engine; or None after a relay's probe.

        Raises:
            RejectedError: The connection is rejected; call `close`.
        """
        try:
            return next(self._steps)
        except StopIteration as end:
            return end.value if isinstance(end.value, AttachedEngine) else None
        except ssl.SSLError as error:
            raise RejectedError(_why_tls_failed(error)) from error
        except OSError as error:
            raise RejectedError(f"its connection broke ({error.strerror})") from error

    def close(self, reason: str = "") -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.closing_reason = reason
            self._session.close(wait=False)
            return
        if self._peer is not None and not self._peer.error and not has_hung_up(self._socket):
            self._peer.server.connection.send_goaway(reason=reason)
            self._peer.flush()
        with suppress(OSError):
            self._stream.close()

    def _admit_steps(self) -> Generator[int, None, AttachedEngine | None]:
        """All steps from the first byte to the greeting; yields the selector events to wait for."""
        plain = self._rules.networks.admit(self.host)
        if self._rules.tls is None and not plain:
            raise RejectedError(self._plain_rejection_reason())
        while (first := _peek_byte(self._socket)) is None:
            yield EVENT_READ
        if not first:
            raise RejectedError("it disconnected without sending anything")
        name = None
        if first == _TLS_HANDSHAKE:
            preamble, greeted = yield from self._receive_preamble()
            if preamble.probe:
                return None
            name = preamble.name
            configure_keepalive(self._socket)
            if greeted is not None:
                session = greeted.serve(self._stream, self.where)
                return AttachedEngine(session, greeted.kind, self.where, name)
        elif not plain:
            raise RejectedError(self._plain_rejection_reason())
        return (yield from self._receive_greeting(name))

    def _plain_rejection_reason(self) -> str:
        relays = "" if self._rules.tls is not None else ", which needs --token-file here"
        return (
            "engines on other machines are admitted from the networks that --allow names, or through "
            f"`lanista relay`{relays}"
        )

    def _receive_preamble(self) -> Generator[int, None, tuple[Preamble, GreetedEngine | None]]:
        """The TLS handshake and the relay's preamble, with how to greet its engine."""
        if self._rules.tls is None:
            raise RejectedError(
                "it speaks TLS, as relays do, and relays are not admitted; --token-file admits them"
            )
        self.stage = "it did not complete the TLS handshake"
        encrypted = self._rules.tls.wrap_socket(self._socket, server_side=True, do_handshake_on_connect=False)
        self._socket = encrypted
        stream = self._stream = TlsStream(encrypted)
        while (event := _continue_handshake(encrypted)) is not None:
            yield event
        self.stage = "it did not send its preamble"
        line = b""
        while b"\n" not in line:
            try:
                more = stream.recv(MAX_LINE)
            except BlockingIOError:
                yield EVENT_READ
                continue
            line += more
            if not more or len(line) > MAX_LINE:
                raise RejectedError(
                    "it disconnected before its preamble" if not more else "its preamble is too long"
                )
        return self._check_preamble(stream, line)

    def _check_preamble(self, stream: TlsStream, line: bytes) -> tuple[Preamble, GreetedEngine | None]:
        line, _, more = line.partition(b"\n")
        try:
            preamble = Preamble.decode(line)
            if more:
                raise RejectedError("it did not wait for the answer")
            greeted = self._answer(preamble, self.host)
        except PreambleError as error:
            stream.send(encode_answer(Refusal(str(error))))
            raise RejectedError(str(error)) from error
        except RejectedError as error:
            stream.send(encode_answer(Refusal(str(error), error.seconds)))
            raise
        stream.send(encode_answer(None))
        self.where = f"a relay at {self.where}"
        return preamble, greeted

    def _receive_greeting(self, name: str | None) -> Generator[int, None, AttachedEngine]:
        """Wait for the first call, which must be an engine's greeting."""
        self.stage = "it did not greet as an ML-Agents engine does"
        peer = self._peer = Peer(self._stream, self.where)
        while peer.server.request is None:
            usable = peer.receive() and not peer.server.cancelled
            if peer.server.request is None:
                usable = peer.flush() and usable
                if not usable:
                    raise RejectedError(why_ended(peer.error))
                yield peer.events
        session = self._session = ServerSession(peer=peer)  # not before: most clients come to nothing
        file_name = EDITORS[peer.server.path]
        plugin = plugin_of(file_name)
        assert session.request is not None
        if strange := why_no_greeting(session.request, self.where, plugin):
            raise RejectedError(strange)
        peer.admit()
        self._session = self._peer = None
        configure_keepalive(self._socket)
        return AttachedEngine(session, plugin.kind, self.where, name, file_name)


def _peek_byte(connection: socket.socket) -> bytes | None:
    """The first byte, without consuming it; None before it has arrived, b"" if none will."""
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None


def _continue_handshake(encrypted: ssl.SSLSocket) -> int | None:
    """The selector event that the handshake waits for; None when it is complete."""
    try:
        encrypted.do_handshake()
    except ssl.SSLWantReadError:
        return EVENT_READ
    except ssl.SSLWantWriteError:
        return EVENT_WRITE
    return None


def _why_tls_failed(error: ssl.SSLError) -> str:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "unknown ca" in reason or "certificate unknown" in reason or "bad certificate" in reason:
        return "its relay does not trust the certificate of this run; it needs --fingerprint or --ca"
    return f"its TLS connection failed ({reason})"


def why_ended(complaint: str) -> str:
    """Why a caller is no engine, from what HTTP/2 says of its bytes; empty if it has only disconnected."""
    if "GET " in complaint or "HTTP/1" in complaint:
        return "it speaks HTTP/1, as browsers do, but engines speak gRPC"
    if complaint in (OLD_UNITY, OLDEST_UNITY):
        return complaint
    if complaint:
        return f"it does not speak gRPC as engines do; {complaint}"
    return "it disconnected before its greeting"
