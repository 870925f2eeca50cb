"""A relay's connection to a trainer on another machine."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field

from ..callers.address import join_address
from .forwarding import configure_keepalive
from .preamble import MAX_LINE, Preamble, PreambleError, decode_answer
from .tls import TlsStream, UntrustedError, check_fingerprint

DIAL_SECONDS = 10.0
"""For each step until an engine's bytes can flow."""


class RelayRejectedError(Exception):
    """The trainer rejects this relay; the message is its reason."""


class UnreachableError(Exception):
    """Nothing answers there, or it is not a trainer; the message says what happened."""


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
            UnreachableError: Nothing answers, or it is not a trainer.
        """
        stream = TlsStream(encrypted := self._dial(Preamble(self.token, name)))
        encrypted.setblocking(False)
        return stream

    def _dial(self, preamble: Preamble) -> ssl.SSLSocket:
        try:
            plain = socket.create_connection((self.host, self.port), DIAL_SECONDS)
        except OSError as error:
            raise UnreachableError(f"no trainer answers at {self.address}: {_cause(error)}") from error
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
            raise UnreachableError(
                f"{self.address} does not answer as a trainer does: {_cause(error)}"
            ) from error
        if refusal is not None:
            encrypted.close()
            raise RelayRejectedError(refusal)
        return encrypted

    def _encrypt(self, plain: socket.socket) -> ssl.SSLSocket:
        try:
            encrypted = self.context.wrap_socket(plain, server_hostname=self.host)
        except ssl.SSLCertVerificationError as error:
            raise UntrustedError(
                f"its certificate is not trusted here ({error.verify_message.rstrip('.')}); give "
                "--fingerprint as the trainer prints it, or --ca with the certificate that signed it"
            ) from error
        except (OSError, ValueError) as error:
            raise UnreachableError(
                f"{self.address} does not speak TLS, as a trainer started with --listen and --token-file "
                f"does: {_cause(error)}"
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
        if not more or len(line) > MAX_LINE:
            raise PreambleError("it disconnected; its log says why" if not more else "its answer is too long")
        line += more
    return line[:-1]


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing arrived within {DIAL_SECONDS:g} s"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)
