"""A relay's connection to a trainer on another machine."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from ..engines.address import join_address
from .forwarding import configure_keepalive
from .preamble import MAX_LINE, Preamble, PreambleError, Refusal, decode_answer
from .tls import TlsStream, UntrustedError, check_fingerprint

DIAL_SECONDS = 10.0
"""For each step until an engine's bytes can flow."""


RETRY_SECONDS = 2.0
"""Between two attempts, unless the trainer says when."""
_LONGEST_WAIT = 15.0
"""Between two attempts, whatever the trainer says."""
PATIENCE_SECONDS = 60.0
"""How long an engine waits for a trainer that is there."""

T = TypeVar("T")


class RelayRejectedError(Exception):
    """The trainer rejects this relay, and will again; the message is its reason."""


class UnreachableError(Exception):
    """Nothing answers there, or it is not a trainer; the message says what happened."""


class TryLaterError(UnreachableError):
    """The trainer is there but does not admit this relay now, as when others flood it or guess tokens.

    Args:
        message: What happened.
        seconds: When to try again.
    """

    def __init__(self, message: str, seconds: float = RETRY_SECONDS) -> None:
        super().__init__(message)
        self.seconds = min(max(seconds, 1.0), _LONGEST_WAIT)


def until_admitted(attempt: Callable[[], T], wait: Callable[[TryLaterError], bool]) -> T:
    """What an attempt returns, which is repeated while the trainer does not admit this relay yet.

    Args:
        attempt: Calls the trainer.
        wait: Waits as long as an error says; returns whether to go on.

    Raises:
        TryLaterError: It has not within `PATIENCE_SECONDS`, or `wait` says to stop.
        Exception: Others of `attempt`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return attempt()
        except TryLaterError as later:
            if time.monotonic() + later.seconds > deadline or not wait(later):
                raise


@dataclass(frozen=True)
class RemoteTrainer:
    """A trainer's address, how its identity is checked, and the token for it."""

    host: str
    port: int
    token: str = field(repr=False)
    context: ssl.SSLContext = field(repr=False)
    """Made by `tls.client_context`."""
    fingerprint: str | None = None
    """Of its certificate, if that is how its identity is checked."""

    @property
    def address(self) -> str:
        """As users write it."""
        return join_address(self.host, self.port)

    def probe(self, name: str | None = None) -> None:
        """Check whether an engine of this name would be admitted. Raises as `dial`."""
        self._dial(Preamble(self.token, name, probe=True)).close()

    def dial(self, name: str | None = None) -> TlsStream:
        """Open a non-blocking connection for an engine's bytes.

        Args:
            name: The name under which the engine is expected; None if it is not expected by name.

        Raises:
            RelayRejectedError: The trainer rejects this relay.
            UntrustedError: The trainer's certificate is not the expected one.
            TryLaterError: The trainer does not admit it yet.
            UnreachableError: Nothing answers, or it is not a trainer.
        """
        stream = TlsStream(encrypted := self._dial(Preamble(self.token, name)))
        encrypted.setblocking(False)
        return stream

    def _dial(self, preamble: Preamble) -> ssl.SSLSocket:
        try:
            plain = socket.create_connection((self.host, self.port), DIAL_SECONDS)
        except OSError as error:
            raise _unreachable(f"no trainer answers at {self.address}", error) from error
        try:
            configure_keepalive(plain, always_read=False)
            encrypted = self._encrypt(plain)
        except BaseException:
            plain.close()
            raise
        try:
            encrypted.sendall(preamble.encode())
            refusal = decode_answer(_read_line(encrypted))
        except (OSError, PreambleError) as error:
            encrypted.close()
            raise _unreachable(f"{self.address} does not answer as a trainer does", error) from error
        if refusal is not None:
            encrypted.close()
            raise self._rejected(refusal)
        return encrypted

    def _rejected(self, refusal: Refusal) -> RelayRejectedError | TryLaterError:
        if refusal.seconds is None:
            return RelayRejectedError(refusal.reason)
        why = f"the trainer at {self.address} does not admit relays from this address yet: {refusal.reason}"
        return TryLaterError(why, refusal.seconds)

    def _encrypt(self, plain: socket.socket) -> ssl.SSLSocket:
        try:
            encrypted = self.context.wrap_socket(plain, server_hostname=self.host)
        except ssl.SSLCertVerificationError as error:
            raise UntrustedError(
                f"its certificate is not trusted here ({error.verify_message.rstrip('.')}); give "
                "--fingerprint as the trainer prints it, or --ca with the certificate that signed it"
            ) from error
        except (OSError, ValueError) as error:
            raise _unreachable(
                f"{self.address} does not speak TLS, as a trainer with --listen and --token-file does", error
            ) from error
        if self.fingerprint is not None:
            try:
                check_fingerprint(encrypted, self.fingerprint)
            except UntrustedError:
                with suppress(OSError):
                    encrypted.close()
                raise
        return encrypted


def _read_line(encrypted: ssl.SSLSocket) -> bytes:
    """Read the trainer's answer, byte by byte: what follows belongs to the engine."""
    line = b""
    while not line.endswith(b"\n"):
        more = encrypted.recv(1)
        if not more:
            raise ConnectionAbortedError("it disconnected; its log says why")
        if len(line) > MAX_LINE:
            raise PreambleError("its answer is too long")
        line += more
    return line[:-1]


def _unreachable(what: str, error: Exception) -> UnreachableError:
    """The error for what went wrong: a trainer that is flooded answers late, or drops a connection."""
    overloaded = isinstance(error, TimeoutError | ssl.SSLEOFError | ssl.SSLZeroReturnError) or (
        isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
    )
    return (TryLaterError if overloaded else UnreachableError)(f"{what}: {_cause(error)}")


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing arrived within {DIAL_SECONDS:g} s"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
