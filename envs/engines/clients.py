"""Who may call on the port of an engine: by the address, and by the process that calls.

The engine that was started is told from other programs of this machine by the owner of its socket, which
Linux, macOS and Windows name for processes of the same user. Its descendants count as it does, and on Linux
what has left it and kept a variable of its environment.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil

from .address import THIS_MACHINE, AllowedNetworks, canonical

logger = logging.getLogger(__name__)

OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Why nothing can be opened, and nobody accepted, for now."""

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True)
class ClientRules:
    """The rules for who may call on a port."""

    networks: AllowedNetworks = THIS_MACHINE
    """The networks from which engines may call besides this machine. If they contain its own address, any
    program of it may."""
    pid: int | None = None
    """The process that was started as the engine, which alone may call from this machine; None if somebody
    else starts it, as the Editor."""
    mark: str = ""
    """An environment variable, as `NAME=VALUE`, that no other process has; empty for none."""

    def host_rejection_reason(self, host: str) -> str:
        """Why nobody may connect from this address; empty if somebody may."""
        return "" if self.networks.admit(host) else f"it is on another machine; --allow {host} admits it"

    def rejection_reason(self, client: Address, port: int) -> str:
        """Why this client may not be the engine; empty if it may.

        Args:
            client: The client's address; still connected, as one that waits for an answer is.
            port: The port that it has called, of this process.
        """
        host, number = canonical(*client)
        if self.pid is None or not ip_address(host).is_loopback or self.networks.names(host):
            return self.host_rejection_reason(host)
        try:
            if not _is_listed((host, number), port):
                return "it left before it could be answered"
            if _owns(_family(self.pid, self.mark), (host, number), port):
                return ""
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:
                return f"the system does not tell which process it is: {error.strerror}"
            return _admitted_unknown()
        except psutil.Error:  # another user's process, among others
            return _admitted_unknown()
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


def _is_listed(client: Address, port: int) -> bool:
    """Whether a connection of ours is still there: one that has ended is listed at neither end.

    Raises:
        OSError, psutil.Error: The system tells of no connections, or not now.
    """
    listed = psutil.Process().net_connections("tcp")
    if any(c.raddr and canonical(*c.raddr) == client for c in listed):
        return True
    if not any(c.laddr and c.laddr.port == port for c in listed):  # not even those who listen there
        raise psutil.Error
    return False


def _owns(family: Iterable[psutil.Process], client: Address, port: int) -> bool:
    """Whether one of these processes is a connection's other end.

    Raises:
        OSError, psutil.Error: The system does not tell.
    """
    for process in family:
        with suppress(psutil.NoSuchProcess):
            if any(_client(c, port) == client for c in process.net_connections("tcp")):
                return True
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


def _admitted_unknown() -> str:
    """The reason, none, for turning away whom the system does not know, with a warning."""
    _warn_once()
    return ""


@cache
def _warn_once() -> None:
    logger.warning(
        "This system does not tell which process calls: any program of this machine that speaks as an engine "
        "does may take the place of one that was started. This is said once."
    )
