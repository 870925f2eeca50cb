"""TLS between a relay and a trainer: trust, self-signed certificates, and a non-blocking stream."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
import ssl
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ..utils.installation import install_command


class UntrustedError(Exception):
    """The other side's certificate is not the expected one."""


class TlsStream:
    """An encrypted connection that behaves like a non-blocking socket.

    Bytes that TLS has buffered are read at once, so that none wait where no selector sees them.
    """

    def __init__(self, encrypted: ssl.SSLSocket) -> None:
        """Wrap a non-blocking connection whose handshake is complete."""
        self._encrypted = encrypted

    def recv(self, size: int, /) -> bytes:
        """Receive up to `size` bytes; b"" at the end."""
        parts: list[bytes] = []
        left = size
        try:
            while left > 0:
                part = self._encrypted.recv(left)
                if not part:
                    break
                parts.append(part)
                left -= len(part)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not parts:
                raise BlockingIOError from None
        except OSError:
            if not parts:
                raise
        return b"".join(parts)

    def send(self, data: bytes | bytearray, /) -> int:
        """Send what can be sent at once; returns the number of bytes.

        Bytes that were not sent must be passed again unchanged, with or without more after them.
        """
        try:
            return self._encrypted.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def fileno(self) -> int:
        """The file descriptor."""
        return self._encrypted.fileno()

    def shutdown(self, how: int, /) -> None:
        """Shut down the connection; if only the sending side is shut, receiving goes on."""
        # Without TLS's close_notify, which cannot be sent without reading; HTTP/2 marks the end of messages.
        # SSLSocket.shutdown would drop the encryption and receive raw bytes.
        socket.socket.shutdown(self._encrypted, how)

    def close(self) -> None:
        """Close the socket."""
        self._encrypted.close()

    def getsockname(self) -> Any:
        """The local address."""
        return self._encrypted.getsockname()


def server_context(certificate: str | Path, key: str | Path | None = None) -> ssl.SSLContext:
    """The trainer's context.

    Args:
        certificate: A PEM file with the certificate, and its chain if any.
        key: A PEM file with its private key; None if that is in the same file.

    Raises:
        OSError: A file cannot be read.
        ssl.SSLError: They are not a certificate and its key (also an OSError).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # sessions are not resumed
    context.load_cert_chain(certificate, key, password=_no_password)
    return context


def client_context(ca: str | Path | None = None, *, pinned: bool = False) -> ssl.SSLContext:
    """The relay's context.

    Args:
        ca: A PEM file with the certificates to trust; None for those of the system.
        pinned: The certificate is compared with a fingerprint by `check_fingerprint` instead.

    Raises:
        OSError: The file cannot be read, or contains no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if pinned:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca is not None:
        context.load_verify_locations(ca)
    else:
        context.load_default_certs()
    return context


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 of a certificate (DER), as `openssl x509 -fingerprint -sha256` writes it."""
    digest = hashlib.sha256(certificate).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))


def file_fingerprint(certificate: str | Path) -> str:
    """The fingerprint of the first certificate in a PEM file.

    Raises:
        OSError: It cannot be read.
        ValueError: It contains none.
    """
    text = Path(certificate).read_text(encoding="ascii", errors="replace")
    found = re.search(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.DOTALL)
    if found is None:
        raise ValueError("it contains no certificate")
    return fingerprint(ssl.PEM_cert_to_DER_cert(found[0]))


def read_fingerprint(text: str) -> str:
    """A fingerprint that a user gave, with or without colons, in any case.

    Raises:
        ValueError: It is not a SHA-256.
    """
    digits = re.sub(r"(?i)^sha-?256[:=]", "", text.strip()).replace(":", "").replace(" ", "").upper()
    if not re.fullmatch(r"[0-9A-F]{64}", digits):
        raise ValueError(
            f"found {text!r}; expected the 64 hexadecimal digits of a SHA-256 (with or without colons), "
            "which the trainer prints when it starts to listen"
        )
    return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))


def check_fingerprint(connection: ssl.SSLSocket, expected: str) -> None:
    """Compare the other side's certificate with the expected fingerprint.

    Raises:
        UntrustedError: They differ.
    """
    found = fingerprint(connection.getpeercert(binary_form=True) or b"")
    if not hmac.compare_digest(found, expected):
        raise UntrustedError(f"its certificate has the fingerprint {found}, but {expected} was expected")


def _no_password() -> str:
    """The password of an encrypted key: without one OpenSSL would prompt at the terminal."""
    return ""


DAYS = 3650
"""Validity. A run may be long, and relays check the fingerprint anyway."""


class NoCryptographyError(Exception):
    """The package that makes certificates is not installed."""


def require_cryptography() -> None:
    """Check that a certificate can be made, before anything is written.

    Raises:
        NoCryptographyError: The package for it is missing; the message says how to install it.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise NoCryptographyError(
            "relays need a certificate, and the package that makes one is not installed: "
            f"{install_command('relay')}. Or give a certificate of your own with --tls-cert and --tls-key."
        ) from error


def self_signed(name: str) -> tuple[ssl.SSLContext, str]:
    """Make a certificate with a new key; returns its context and fingerprint.

    Args:
        name: The address or host name that it is for.

    Raises:
        NoCryptographyError: The package `cryptography` is not installed.
    """
    require_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lanista")])
    now = datetime.now(timezone.utc)
    try:
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = _loaded(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return context, fingerprint(certificate.public_bytes(serialization.Encoding.DER))


def _loaded(pem: bytes) -> ssl.SSLContext:
    """Load a certificate and its key; ssl reads keys only from files, so from a private temporary one."""
    with tempfile.TemporaryDirectory(prefix="lanista-") as folder:  # of mode 0700
        path = Path(folder) / "trainer.pem"
        path.touch(0o600)
        path.write_bytes(pem)
        return server_context(path)
