"""The sockets on which a trainer listens."""

import errno
import select
import socket
import sys
from contextlib import suppress
from typing import Protocol

from ..errors import AddressInUseError


class HasFileno(Protocol):
    """A socket, or what stands for one."""

    def fileno(self) -> int:
        """Its file descriptor."""


OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Why `accept` fails although a client waits to be accepted."""
_BACKLOG = 16
"""Callers that wait at a port of one engine."""
_ATTEMPTS = 20
"""How many free ports of one address are tried until one is free on the others, too."""
_PRIVILEGED = 1024
"""Ports below this one need privileges on most machines."""


def listen(host: str, port: int, backlog: int = _BACKLOG) -> list[socket.socket]:
    """Non-blocking sockets that listen on one port.

    Args:
        host: `localhost` is 127.0.0.1 and, where the machine has it, ::1; else an address of this machine,
            and these two as well: engines on this machine dial `localhost` whatever the address.
        port: TCP port; 0 takes one that is free on all addresses.
        backlog: Callers that may wait to be accepted; the system puts off those beyond them for seconds.

    Raises:
        AddressInUseError: Another listener has the port.
        PermissionError: This user may not listen on this port.
        OSError: The address is not one of this machine.
    """
    addresses = _addresses(host.strip("[]"))
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            return _listen(addresses, port, backlog)
        except AddressInUseError:
            if port != 0 or attempts_left == 0:
                raise
    raise AssertionError("unreachable")


def accept(listener: socket.socket) -> tuple[socket.socket, str]:
    """Accept a client: its connection, which does not block, and its address.

    Raises:
        OSError: It has hung up already, or the system is out of resources (`OUT_OF_RESOURCES`).
    """
    connection, address = listener.accept()
    connection.setblocking(False)
    with suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, f"{address[0]}:{address[1]}"


def has_hung_up(connection: HasFileno) -> bool:
    """Whether a client has, whatever it sent before; elsewhere than on Linux only if that has been read."""
    if sys.platform == "linux":
        poll = select.poll()
        poll.register(connection, select.POLLRDHUP)
        return bool(poll.poll(0))
    return isinstance(connection, socket.socket) and first_byte(connection) == b""


def first_byte(connection: socket.socket) -> bytes | None:
    """What a client has sent first, which stays to be read; None for nothing yet, b"" if it has hung up."""
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def _listen(addresses: list[str], port: int, backlog: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            sockets.append(_bound(address, port, backlog))
            port = sockets[-1].getsockname()[1]
    except BaseException:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _addresses(host: str) -> list[str]:
    """The address itself, if it is not `localhost`, and the loopback addresses that it does not include."""
    loopbacks = ["127.0.0.1", "::1"] if _has_ipv6_loopback() else ["127.0.0.1"]
    if host == "localhost":
        return loopbacks
    given = str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    covered = {"::": ("127.0.0.1", "::1"), "0.0.0.0": ("127.0.0.1",)}  # noqa: S104 (nothing is bound here)
    included = {given, *covered.get(given, ())}
    return [given, *(address for address in loopbacks if address not in included)]


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _bound(address: str, port: int, backlog: int) -> socket.socket:
    family, _, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # there SO_REUSEADDR would let two listeners share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # The wildcard accepts IPv4 connections, too.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
        listener.bind(target)
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EACCES and sys.platform != "win32" and port < _PRIVILEGED:
            raise PermissionError(
                error.errno,
                f"port {port} needs privileges, as ports below {_PRIVILEGED} do; choose one from there on",
            ) from error
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise AddressInUseError(
                error.errno, f"Port {port} of {address} cannot be used: {error.strerror}"
            ) from error
        raise
    return listener
