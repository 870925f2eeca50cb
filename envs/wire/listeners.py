"""The sockets on which a trainer listens."""

import errno
import socket
import sys

from .errors import PortInUseError

_BACKLOG = 16
_TRIES = 20
"""How many free ports of one loopback are tried until one is free on the other, too."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Non-blocking sockets that listen on one port.

    Args:
        host: `localhost` is 127.0.0.1 and, where the machine has it, ::1; else an address of this machine.
        port: TCP port; 0 takes one that is free on all addresses.

    Raises:
        PortInUseError: Somebody else listens there.
        OSError: The address is none of this machine's.
    """
    addresses = _addresses(host)
    for tries_left in reversed(range(_TRIES)):
        try:
            return _listen(addresses, port)
        except PortInUseError:
            if port != 0 or tries_left == 0:
                raise
    raise AssertionError("unreachable")


def _listen(addresses: list[str], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            sockets.append(_bound(address, port))
            port = sockets[-1].getsockname()[1]
    except BaseException:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _addresses(host: str) -> list[str]:
    if host == "localhost":
        return ["127.0.0.1", "::1"] if _has_ipv6_loopback() else ["127.0.0.1"]
    return [host.strip("[]")]


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _bound(address: str, port: int) -> socket.socket:
    family, _, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # there SO_REUSEADDR would let two listeners share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # The wildcard takes IPv4's connections, too.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
        listener.bind(target)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortInUseError(
                error.errno, f"Port {port} of {address} cannot be used: {error.strerror}"
            ) from error
        raise
    return listener
