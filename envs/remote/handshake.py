"""Somebody who has connected, until it is known to be an engine or is turned away.

What a relay says to a trainer before the engine's bytes, and what it is answered: a line each.

    lanista-relay/1 carry TOKEN NAME
    ok

The name is `-` for an engine that nobody waits for by name. With `try` in place of `carry` no engine
follows: the relay only wants to know whether it would be let in. A refusal is `no REASON`.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from selectors import EVENT_READ, EVENT_WRITE

from ..errors import WireError
from ..grpc.peer import Stream
from ..grpc.session import ServedEndpoint
from ..protocol.decoder import Decoder
from ..unity.connection import Engine, EngineConnection
from .address import Networks
from .tls import TlsStream

LONGEST = 1024
"""Bytes of a line."""
_VERSION = "lanista-relay/1"
_NOBODY = "-"
_LINE = re.compile(rf"{_VERSION} (try|carry) ([!-~]+) ([A-Za-z0-9._-]{{1,64}})")


class PreambleError(ValueError):
    """A line that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """Who a relay says that it is."""

    token: str = field(repr=False)
    name: str | None = None
    """For whom the engine is that follows; None for anybody."""
    trial: bool = False
    """No engine follows."""

    def encode(self) -> bytes:
        """The line. Raises PreambleError for a name that cannot be sent."""
        line = f"{_VERSION} {'try' if self.trial else 'carry'} {self.token} {self.name or _NOBODY}"
        if not _LINE.fullmatch(line) or self.name == _NOBODY:
            raise PreambleError(
                f"{self.name!r} cannot be the name of an engine: letters, digits, '.', '_', '-'"
            )
        return line.encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Preamble:
        """From the line, without its end.

        Raises:
            PreambleError: It is none.
        """
        text = line.decode("ascii", "replace")
        found = _LINE.fullmatch(text)
        if found is None:
            if text.startswith("lanista-relay/") and not text.startswith(_VERSION + " "):
                raise PreambleError("its relay is of another version of Lanista")
            raise PreambleError("it does not begin as a relay does")
        verb, token, name = found.groups()
        return cls(token, None if name == _NOBODY else name, verb == "try")


def encode_answer(refusal: str | None) -> bytes:
    """Let in, or not for this reason."""
    if refusal is None:
        return b"ok\n"
    words = " ".join(refusal.split())
    return b"no " + words.encode()[: LONGEST - 8] + b"\n"


def decode_answer(line: bytes) -> str | None:
    """The reason of a refusal; None for a welcome.

    Raises:
        PreambleError: It is neither.
    """
    text = line.decode("utf-8", "replace")
    if text == "ok":
        return None
    if text.startswith("no "):
        return "".join(letter for letter in text[3:] if letter.isprintable())
    raise PreambleError("it does not answer as a trainer does")


_TLS_HANDSHAKE = b"\x16"
"""The first byte of every TLS connection; gRPC begins with a letter."""
_GREETING_BYTES = 1 << 16
"""What an engine's first call may take, with all that HTTP/2 says before it; it takes a few hundred."""

Answer = Callable[[Preamble], str | None]
"""Whether a relay is let in: None, or the reason against it."""


class TurnedAwayError(Exception):
    """Who has connected is no engine, or none that may come in."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may come in."""

    networks: Networks = field(default_factory=Networks)
    """From where engines may call in plain text, besides this machine."""
    tls: ssl.SSLContext | None = None
    """How relays are spoken with; None where there are none."""


class Admitted:
    """An engine that has called for the first time and waits for its answer."""

    def __init__(self, endpoint: ServedEndpoint, where: str, name: str | None) -> None:
        self.endpoint = endpoint
        self.where = where
        """How messages call it: its address, or its relay's."""
        self.name = name
        """For whom it is; None for anybody."""

    def connection(self, name: str, timeout: float, engine: Engine | None = None) -> EngineConnection:
        """The connection of an environment; to be taken once.

        Args:
            name: How messages call the environment.
            timeout: Seconds that the engine has for each answer.
            engine: Its program, if anything is known of it.
        """
        return EngineConnection(self.endpoint, engine, timeout, name)

    def turn_away(self, reason: str = "") -> None:
        """Hang up; the engine is told to quit, its relay why."""
        self.endpoint.abandon(reason)


class Caller:
    """One connection on its way in. Nothing here waits: `go_on` does what can be done at once.

    Args:
        connection: The socket, which does not block.
        host: The other side's address.
        port: The other side's port.
        rules: Who may come in.
        answer: Decides about relays.
    """

    def __init__(
        self, connection: socket.socket, host: str, port: int, rules: Rules, answer: Answer, deadline: float
    ) -> None:
        self.host = host
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.deadline = deadline
        self.doing = "it said nothing"
        """What is told of it when its time is over."""
        self._rules = rules
        self._answer = answer
        self._socket: socket.socket = connection
        self._stream: Stream = connection
        self._endpoint: ServedEndpoint | None = None
        self._steps = self._arrive()

    def fileno(self) -> int:
        """The socket's number, for selectors."""
        return self._stream.fileno()

    def go_on(self) -> int | Admitted | None:
        """Do what can be done.

        Returns:
            What to wait for next, as selectors have it; or the engine; or None after a relay's trial.

        Raises:
            TurnedAwayError: Says why; `close` is to be called.
        """
        try:
            return next(self._steps)
        except StopIteration as end:
            return end.value if isinstance(end.value, Admitted) else None
        except ssl.SSLError as error:
            raise TurnedAwayError(_why_no_tls(error)) from error
        except OSError as error:
            raise TurnedAwayError(f"its connection broke ({error.strerror})") from error

    def close(self, reason: str = "") -> None:
        """Hang up."""
        if self._endpoint is not None:
            self._endpoint.abandon(reason)
        else:
            with suppress(OSError):
                self._stream.close()

    def _arrive(self) -> Generator[int, None, Admitted | None]:
        """All steps from the first byte to the greeting; yields what to wait for in between."""
        plain = self._rules.networks.admit(self.host)
        if self._rules.tls is None and not plain:
            raise TurnedAwayError(self._stranger())
        while (first := _peek(self._socket)) is None:
            yield EVENT_READ
        if not first:
            raise TurnedAwayError("it hung up without a word")
        name = None
        if first == _TLS_HANDSHAKE:
            preamble = yield from self._meet_relay()
            if preamble.trial:
                return None
            name = preamble.name
        elif not plain:
            raise TurnedAwayError(self._stranger())
        return (yield from self._greet(name))

    def _stranger(self) -> str:
        relays = "" if self._rules.tls is not None else ", which needs --token-file here"
        return (
            "engines on other machines are let in from the networks that --allow names, or come through "
            f"`lanista relay`{relays}"
        )

    def _meet_relay(self) -> Generator[int, None, Preamble]:
        """The handshake of TLS, and who the relay says that it is."""
        if self._rules.tls is None:
            raise TurnedAwayError(
                "it speaks TLS, as relays do, and none are expected; --token-file lets them in"
            )
        self.doing = "it did not complete the TLS handshake"
        encrypted = self._rules.tls.wrap_socket(self._socket, server_side=True, do_handshake_on_connect=False)
        self._socket = encrypted
        stream = self._stream = TlsStream(encrypted)
        while (event := _handshake(encrypted)) is not None:
            yield event
        self.doing = "it did not say who it is"
        line = b""
        while b"\n" not in line:
            try:
                more = stream.recv(LONGEST)
            except BlockingIOError:
                yield EVENT_READ
                continue
            line += more
            if not more or len(line) > LONGEST:
                raise TurnedAwayError(
                    "it hung up before it said who it is" if not more else "it says too much"
                )
        return self._answered(stream, line)

    def _answered(self, stream: TlsStream, line: bytes) -> Preamble:
        try:
            line, _, more = line.partition(b"\n")
            preamble = Preamble.decode(line)
            refusal = self._answer(preamble) if not more else "it did not wait for an answer"
        except PreambleError as error:
            raise TurnedAwayError(str(error)) from error
        stream.send(encode_answer(refusal))
        if refusal is not None:
            raise TurnedAwayError(refusal)
        self.where = f"a relay at {self.where}"
        return preamble

    def _greet(self, name: str | None) -> Generator[int, None, Admitted]:
        """Wait for the first call, which must be an engine's greeting."""
        self.doing = "it did not greet as an ML-Agents engine does"
        endpoint = self._endpoint = ServedEndpoint(self._stream, self.where, _GREETING_BYTES)
        while endpoint.request is None:
            endpoint.pump()
            if endpoint.request is None:
                if endpoint.disconnected:
                    raise TurnedAwayError(_why_ended(endpoint))
                yield endpoint.events
        if (strange := _no_greeting(endpoint.request, self.where)) is not None:
            raise TurnedAwayError(strange)
        endpoint.trust()
        self._endpoint = None
        return Admitted(endpoint, self.where, name)


def _peek(connection: socket.socket) -> bytes | None:
    """The first byte, which stays where it is; None before it has come, b"" where none will."""
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None


def _handshake(encrypted: ssl.SSLSocket) -> int | None:
    """What the handshake waits for; None when it is over."""
    try:
        encrypted.do_handshake()
    except ssl.SSLWantReadError:
        return EVENT_READ
    except ssl.SSLWantWriteError:
        return EVENT_WRITE
    return None


def _why_no_tls(error: ssl.SSLError) -> str:
    said = (error.reason or str(error)).replace("_", " ").lower()
    if "unknown ca" in said or "certificate unknown" in said or "bad certificate" in said:
        return "its relay does not trust the certificate of this run; it needs --fingerprint or --ca"
    return f"its TLS connection failed ({said})"


def _why_ended(endpoint: ServedEndpoint) -> str:
    complaint = endpoint.complaint
    if "GET " in complaint or "HTTP/1" in complaint:
        return "it speaks HTTP/1, as browsers do, and engines speak gRPC"
    if complaint:
        return f"it does not speak gRPC as engines do; {complaint}"
    return "it hung up before it greeted"


def _no_greeting(request: bytes, where: str) -> str | None:
    """Why a first call is not the greeting of an engine; None if it is."""
    try:
        message = Decoder(where).decode(request)
    except WireError:
        return "its first call is no message of an ML-Agents engine"
    if message.hello is None and message.steps is not None:
        return "it is in the middle of a session that is over here; start the engine again"
    if message.status != 200 or message.hello is None:
        return "its first call is not the greeting of an ML-Agents engine"
    return None
