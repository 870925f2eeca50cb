"""A trainer on another machine, as a relay reaches it."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field

from . import forwarding as lifelines
from .address import join_address
from .handshake import LONGEST, Preamble, PreambleError, decode_answer
from .tls import TlsStream, UntrustedError, check_fingerprint

DIAL_SECONDS = 10.0
"""What the trainer has for each step until an engine's bytes can flow."""


class RefusedError(Exception):
    """The trainer does not let this relay in; the message is its reason."""


class UnreachableError(Exception):
    """Nobody answers there, or nobody who speaks as a trainer does; the message says what happened."""


@dataclass(frozen=True)
class Trainer:
    """Where a trainer is, how it is recognised, and how we show that we may come in."""

    host: str
    port: int
    token: str = field(repr=False)
    context: ssl.SSLContext = field(repr=False)
    """As `tls.client_context` makes it."""
    fingerprint: str | None = None
    """Of its certificate, if that is how it is recognised."""

    @property
    def address(self) -> str:
        """As users write it."""
        return join_address(self.host, self.port)

    def try_out(self, name: str | None = None) -> None:
        """Find out whether we would be let in, with an engine of this name. Raises as `dial`."""
        self._dial(Preamble(self.token, name, trial=True)).close()

    def dial(self, name: str | None = None) -> TlsStream:
        """A connection that takes an engine's bytes; it does not block.

        Args:
            name: For whom the engine is; None for anybody.

        Raises:
            RefusedError: It does not let us in.
            UntrustedError: It is not the trainer whose certificate we know.
            UnreachableError: Nobody answers, or nobody who is a trainer.
        """
        stream = TlsStream(encrypted := self._dial(Preamble(self.token, name)))
        encrypted.setblocking(False)
        return stream

    def _dial(self, preamble: Preamble) -> ssl.SSLSocket:
        try:
            plain = socket.create_connection((self.host, self.port), DIAL_SECONDS)
        except OSError as error:
            raise UnreachableError(f"no trainer answers at {self.address}: {_told(error)}") from error
        try:
            lifelines.prepare(plain, always_read=False)
            encrypted = self._encrypted(plain)
        except BaseException:
            plain.close()
            raise
        try:
            encrypted.sendall(preamble.encode())
            refusal = decode_answer(_line(encrypted))
        except (OSError, PreambleError) as error:
            encrypted.close()
            raise UnreachableError(
                f"{self.address} does not answer as a trainer does: {_told(error)}"
            ) from error
        if refusal is not None:
            encrypted.close()
            raise RefusedError(refusal)
        return encrypted

    def _encrypted(self, plain: socket.socket) -> ssl.SSLSocket:
        try:
            encrypted = self.context.wrap_socket(plain, server_hostname=self.host)
        except ssl.SSLCertVerificationError as error:
            raise UntrustedError(
                f"its certificate is not trusted here ({error.verify_message.rstrip('.')}); give "
                "--fingerprint as the trainer prints it, or --ca with the certificate that signed it"
            ) from error
        except (OSError, ValueError) as error:
            raise UnreachableError(
                f"{self.address} does not speak TLS as a trainer does that was started with --listen and "
                f"--token-file: {_told(error)}"
            ) from error
        if self.fingerprint is not None:
            try:
                check_fingerprint(encrypted, self.fingerprint)
            except UntrustedError:
                with suppress(OSError):
                    encrypted.close()
                raise
        return encrypted


def _line(encrypted: ssl.SSLSocket) -> bytes:
    """The trainer's answer. Byte by byte: what follows it belongs to the engine."""
    line = b""
    while not line.endswith(b"\n"):
        more = encrypted.recv(1)
        if not more or len(line) > LONGEST:
            raise PreambleError("it hung up; its log tells why" if not more else "it says too much")
        line += more
    return line[:-1]


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came within {DIAL_SECONDS:g} s"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
