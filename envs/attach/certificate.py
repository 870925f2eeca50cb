"""A certificate that a trainer makes for itself, for one run."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from .tls import fingerprint, server_context

DAYS = 3650
"""A run may be long; relays go by the fingerprint anyway."""


class NoCryptographyError(Exception):
    """The package that makes certificates is not installed."""


def require_cryptography() -> None:
    """Find out before anything is written whether a certificate can be made.

    Raises:
        NoCryptographyError: The package for it is missing; the message says what to do.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise NoCryptographyError(
            "relays need a certificate, and the package that makes one is not installed: "
            "pip install 'lanista[relay]'. Or give a certificate of your own with --tls-cert and --tls-key."
        ) from error


def self_signed(name: str) -> tuple[ssl.SSLContext, str]:
    """A new certificate with a key that nobody else has, and its fingerprint.

    Args:
        name: The address or host name for which it is.

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
    """Python's ssl reads keys from files alone; this one is gone at once, and nobody else may read it."""
    with tempfile.TemporaryDirectory(prefix="lanista-") as folder:  # of mode 0700
        path = Path(folder) / "trainer.pem"
        path.write_bytes(pem)
        return server_context(path)
