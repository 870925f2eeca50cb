"""Who may call on the port of an engine: by the address, and by the process; and how addresses are written.

The engine that was started is told from other programs of this machine by the owner of its socket, which
Linux, macOS and Windows name for processes of the same user. Its descendants count as it does, and on Linux
what has left it and kept a variable of its environment.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

import psutil

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


logger = logging.getLogger(__name__)

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class ClientRules:
    """Who may call on a port."""

    networks: AllowedNetworks = THIS_MACHINE
    """From where engines may call besides this machine. If they name its address, any program of it may."""
    pid: int | None = None
    """The process that was started as the engine, which alone may call from this machine; None if somebody
    else starts it, as the Editor."""
    mark: str = ""
    """`NAME=VALUE` of a variable that no other process has got; empty for none."""

    def host_rejection_reason(self, host: str) -> str:
        """Why nobody may connect from this address; empty if somebody may."""
        return "" if self.networks.admit(host) else f"it is on another machine; --allow {host} admits it"

    def rejection_reason(self, client: Address, port: int) -> str:
        """Why this client may not be the engine; empty if it may.

        Args:
            client: Its address; still connected, as one that waits for an answer is.
            port: The port that it has called, of this process.
        """
        host, number = canonical(*client)
        if self.pid is None or not ip_address(host).is_loopback or self.networks.names(host):
            return self.host_rejection_reason(host)
        owned = _owns(_family(self.pid, self.mark), (host, number), port)
        if owned is None:
            _warn_once()
        if owned is not False:
            return ""
        if _has_ended(self.pid):
            return f"the engine that was started, process {self.pid}, has ended"
        return (
            f"it is not the engine that was started, process {self.pid}, but another program of this "
            f"machine; if it is meant, as a game in a container, --allow {host} admits it"
        )


def owner(client: Address, port: int) -> str:
    """Which process has connected to a port of ours, in words; nothing where the system does not tell."""
    try:
        found = next((c.pid for c in psutil.net_connections("tcp") if _client(c, port) == client), None)
        if found is None:
            return ""
        return f". It is process {found} ({' '.join(psutil.Process(found).cmdline())[:200]})"
    except (psutil.Error, OSError):
        return ""


def _owns(family: Iterable[psutil.Process], client: Address, port: int) -> bool | None:
    """Whether one of these processes is a connection's other end; None if the system does not tell."""
    try:
        ours = {canonical(*c.raddr) for c in psutil.Process().net_connections("tcp") if c.raddr}
    except (psutil.Error, OSError):
        return None
    if client not in ours:  # what is not listed at this end would not be at the other
        return None
    for process in family:
        try:
            if any(_client(c, port) == client for c in process.net_connections("tcp")):
                return True
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, OSError):  # another user's
            return None
    return False


def _family(pid: int, mark: str) -> Iterator[psutil.Process]:
    """The engine's process, its descendants, and what has left it but kept the variable of its guard."""
    try:
        engine = psutil.Process(pid)
        yield engine
        yield from engine.children(recursive=True)
    except psutil.NoSuchProcess:
        pass
    if sys.platform == "linux" and mark:
        for other in psutil.process_iter():
            with suppress(OSError, psutil.NoSuchProcess):
                if mark.encode() in Path("/proc", str(other.pid), "environ").read_bytes().split(b"\0"):
                    yield other


def _has_ended(pid: int) -> bool:
    """Whether a process is no more, or only its exit status is left."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error as error:
        return isinstance(error, psutil.NoSuchProcess)


def _client(connection: Any, port: int) -> Address | None:
    """The near end of a connection to this port of this machine; None for another connection."""
    if not connection.raddr or connection.raddr.port != port:
        return None
    return canonical(*connection.laddr)


@cache
def _warn_once() -> None:
    logger.warning(
        "This system does not tell which process calls: any program of this machine that speaks as an engine "
        "does may take the place of one that was started. This is said once."
    )
