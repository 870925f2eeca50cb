"""Addresses in users' notation, and the networks that engines may connect from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

LAST_PORT = 65535


def split_address(text: str, default_port: int | None = None) -> tuple[str, int | None]:
    """Split `HOST`, `HOST:PORT`, `[IPv6]` or `[IPv6]:PORT` into host and port; a bare IPv6 address has none.

    Args:
        text: The user's input.
        default_port: Used if there is no port.

    Raises:
        ValueError: It is not valid; the message says what was expected.
    """
    host, port = _parts(text.strip())
    if not host or any(letter.isspace() or letter in "/[]" for letter in host):
        raise ValueError(
            f"found {text!r}; expected ADDRESS or ADDRESS:PORT, such as 127.0.0.1:5004, or [::1]:5004 for "
            "IPv6"
        )
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"found {text!r}; {host!r} is not a host name: {error}") from error
    if port is None:
        return host, default_port
    if not (port.isascii() and port.isdigit()) or int(port) > LAST_PORT:
        raise ValueError(f"found {text!r}; {port!r} is not a port, which is a number from 0 to {LAST_PORT}")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """`host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parts(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if bracket and (not rest or rest.startswith(":")):
            return host, rest[1:] if rest else None
        return "", None
    if text.count(":") > 1:  # an IPv6 address alone
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def canonical(host: str, port: int) -> tuple[str, int]:
    """The address without its zone, and an IPv4-mapped IPv6 address as IPv4."""
    return str(_address(host)), port


@dataclass(frozen=True, slots=True)
class AllowedNetworks:
    """The networks from which engines may connect without authentication, besides this machine."""

    allowed: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> AllowedNetworks:
        """Parse networks such as `10.0.0.0/8`, `192.168.1.7` or `fd00::/8`.

        Raises:
            ValueError: One of them is not a network; the message names it.
        """
        return cls(tuple(map(_network, texts)))

    def admit(self, host: str) -> bool:
        """Whether an engine at this address may connect."""
        address = _address(host)
        return address.is_loopback or self.names(host)

    def names(self, host: str) -> bool:
        """Whether one of the networks contains this address."""
        address = _address(host)
        return any(address in network for network in self.allowed)

    def __str__(self) -> str:
        return ", ".join(map(str, self.allowed))


THIS_MACHINE = AllowedNetworks()
"""No network besides it."""


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        try:
            strict = ip_network(text.strip(), strict=False)
        except ValueError:
            raise ValueError(
                f"found {text!r}; expected a network in CIDR notation, such as 192.168.1.0/24 or fd00::/8, "
                "or one address"
            ) from error
        raise ValueError(
            f"found {text!r}, an address within a network; did you mean {strict}, or "
            f"{text.split('/')[0]} alone?"
        ) from error


@lru_cache(256)  # most clients are of the same machines
def _address(host: str) -> IPv4Address | IPv6Address:
    """Parse an address without its zone; an IPv4-mapped IPv6 address becomes IPv4."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
