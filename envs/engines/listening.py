"""Listening for engines, and accepting those that call, at little cost to the run however many there are."""

from __future__ import annotations

import errno
import logging
import select
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from selectors import EVENT_READ, BaseSelector
from typing import Any, Generic, Protocol, TypeVar

from ..errors import AddressInUseError
from .clients import OUT_OF_RESOURCES, ClientRules, owner
from .limits import RejectionLog
from .socket_groups import make_selector

logger = logging.getLogger(__name__)


class HasFileno(Protocol):
    """A socket, or what stands for one."""

    def fileno(self) -> int:
        """Its file descriptor."""


_BACKLOG = 16
"""Clients that wait at a port of one engine."""
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
        backlog: Clients that may wait to be accepted; the system puts off those beyond them for seconds.

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


_AT_ONCE = 16
"""Clients that are accepted at once while the engine is awaited; if there were as many, it pauses."""
_AWAITED_PAUSE_SECONDS = 0.02
_OCCUPIED_PAUSE_SECONDS = 0.1
"""How long nobody is accepted after somebody was, while the engine's place is taken."""
_RESOURCES_PAUSE_SECONDS = 1.0
"""How long nothing is accepted after the system could not open another connection."""


C = TypeVar("C", bound=HasFileno)


class ClientSelector(Generic[C]):
    """The listeners of a port and the connections of its clients, in a selector and in one that watches it.

    The data of the selector's keys is the client, None for a listener.
    """

    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self.selector = make_selector()
        self.connected: dict[C, None] = {}
        """The clients, those first that came first."""
        self._listeners = listeners
        self._watcher: BaseSelector | None = None
        self._token: object = None
        self._paused_until: float | None = None
        for listener in listeners:
            self._register(listener, None)

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register all sockets, now and later, with another selector too; None unregisters them."""
        keys = list(self.selector.get_map().values())
        if self._watcher is not None:
            for key in keys:
                self._watcher.unregister(key.fileobj)
        self._watcher, self._token = selector, token
        if selector is not None:
            for key in keys:
                selector.register(key.fileobj, key.events, token)

    def add(self, client: C) -> None:
        """Report what a client sends."""
        self.connected[client] = None
        self._register(client, client)

    def modify(self, client: C, events: int) -> None:
        """Report these events of a client from now on."""
        self.selector.modify(client, events, client)
        if self._watcher is not None:
            self._watcher.modify(client, events, self._token)

    def remove(self, client: C) -> None:
        """Report nothing more of a client, whose connection is still open."""
        del self.connected[client]
        self._unregister(client)

    def pause(self, seconds: float) -> None:
        """Ignore the listeners for a while: a selector would report those that wait again and again."""
        if self._paused_until is None:
            for listener in self._listeners:
                self._unregister(listener)
        self._paused_until = max(self._paused_until or 0.0, time.monotonic() + seconds)

    @property
    def is_paused(self) -> bool:
        """Whether the listeners are ignored."""
        return self._paused_until is not None

    @property
    def pause_left(self) -> float | None:
        """Seconds until `resume` has something to do; None if there is no pause."""
        return None if self._paused_until is None else max(0.0, self._paused_until - time.monotonic())

    def resume(self) -> None:
        """Listen again if a pause is over."""
        if self._paused_until is not None and time.monotonic() >= self._paused_until:
            self._paused_until = None
            for listener in self._listeners:
                self._register(listener, None)

    def close(self) -> None:
        """Stop listening. The clients' connections stay open."""
        self.selector.close()
        for listener in self._listeners:
            listener.close()

    def _register(self, fileobj: HasFileno, client: C | None) -> None:
        self.selector.register(fileobj, EVENT_READ, client)
        if self._watcher is not None:
            self._watcher.register(fileobj, EVENT_READ, self._token)

    def _unregister(self, fileobj: HasFileno) -> None:
        self.selector.unregister(fileobj)
        if self._watcher is not None:
            self._watcher.unregister(fileobj)


class Acceptor:
    """Accepts clients at the listeners of one engine's port.

    Args:
        clients: The listeners, which pause after somebody was accepted.
        port: Theirs.
    """

    def __init__(self, clients: ClientSelector[Any], port: int) -> None:
        self._rejections = RejectionLog(f" from port {port}")
        self._clients = clients
        self._port = port
        self._warned = False

    @property
    def rejection(self) -> str:
        """Why the last client was rejected; empty if none was."""
        return self._rejections.last

    def accept(
        self, listener: socket.socket, rules: ClientRules, occupied: bool
    ) -> list[tuple[socket.socket, str]]:
        """Those that wait at a listener and may be the engine by their addresses, a few at a time.

        Args:
            listener: Which has reported somebody.
            rules: Who may call.
            occupied: The engine is here and can have no successor, so that whoever calls is none.

        Returns:
            Their connections and addresses.
        """
        if self._clients.is_paused:  # since another listener was tried
            return []
        most = 1 if occupied else _AT_ONCE
        found, is_flood = self._accept(listener, most)
        if occupied or is_flood:
            self._clients.pause(_OCCUPIED_PAUSE_SECONDS if occupied else _AWAITED_PAUSE_SECONDS)
        admitted = []
        for connection, name in found:
            refusal = rules.host_rejection_reason(_address(name)[0])
            if occupied and rules.pid is not None:
                if first_byte(connection) is None:  # as another run does that looks for a free port
                    connection.close()
                    continue
                refusal = "the engine that was started is connected already"
            if refusal:
                self.turn_away(connection, name, refusal)
            else:
                admitted.append((connection, name))
        return admitted

    def rejection_reason(self, name: str, rules: ClientRules) -> str:
        """Why who has connected from this address and called is not the engine; empty if it may be."""
        return rules.rejection_reason(_address(name), self._port)

    def turn_away(self, connection: socket.socket, name: str, reason: str) -> None:
        """Close a connection, and log why."""
        self.log(name, reason)
        connection.close()

    def log(self, name: str, reason: str) -> None:
        """Log why a connection is about to be closed, with its owner if it is the first with this reason."""
        host, port = _address(name)
        self._rejections.log(host, name, reason, lambda: owner((host, port), self._port))

    def close(self) -> None:
        """Log how many rejections were not logged."""
        self._rejections.finish_period()

    def _accept(self, listener: socket.socket, most: int) -> tuple[list[tuple[socket.socket, str]], bool]:
        """Those that wait and have not hung up yet; and whether there may be more."""
        found: list[tuple[socket.socket, str]] = []
        for _ in range(most):
            try:
                connection, name = accept(listener)
                if has_hung_up(connection):
                    connection.close()
                else:
                    found.append((connection, name))
            except (BlockingIOError, InterruptedError):
                return found, False
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    self._run_out(error)
                else:  # it has hung up already
                    logger.debug("A connection to port %d came to nothing: %s", self._port, error)
                return found, False
        return found, True

    def _run_out(self, reason: OSError) -> None:
        self._clients.pause(_RESOURCES_PAUSE_SECONDS)
        if not self._warned:
            self._warned = True
            logger.warning(
                "A connection to port %d cannot be opened: %s. Allow more open files (ulimit -n). It is "
                "tried again every second; this is said once.",
                self._port,
                reason.strerror,
            )


def _address(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)
