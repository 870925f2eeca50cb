"""The trainer's end of the connection: it serves the engine's calls, in the thread of who asks for them.

No thread of its own: a second thread would have to wait for the interpreter's lock, up to five milliseconds,
each time the trainer computes while the engine calls.

The sockets on which a trainer listens.
"""

import errno
import logging
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, DefaultSelector, SelectorKey

from ..errors import PortInUseError
from .calls import FAILED_PRECONDITION
from .peer import Peer, Stream
from .spin_wait import ShortWait

logger = logging.getLogger(__name__)

QUIT = bytes.fromhex("0a03089003")  # a header of status 400
PARTING_SECONDS = 1.0
"""What the last bytes for an engine have to leave."""
LINGER_SECONDS = 0.2
"""What an engine then has to hang up; bytes that came later would make the system drop ours."""
_RETURN_SECONDS = 1.0
"""What an engine that has hung up between two calls has to call again: channels of gRPC may reconnect."""
_STRANGERS = 32
"""Connections of which more make room by hanging up the oldest that has not served."""
_PAUSE_SECONDS = 1.0
"""For how long nobody is let in when the system cannot open another connection."""


class TrainerEndpoint:
    """A server at which one engine calls and waits in the call for its answer.

    One thread at a time may use it, and nothing happens between its calls: `receive`, or `pump` when a
    selector that `watch` knows says so, must be called for anything to be taken in. The engine's bytes are
    passed on as they are.
    """

    def __init__(self, port: int, host: str = "localhost") -> None:
        """Listens at once.

        Args:
            port: TCP port; 0 takes a free one (see `port`).
            host: `localhost` is 127.0.0.1 and, where the machine has it, ::1; else an address of this
                machine, which then listens beside these.

        Raises:
            PortInUseError: Somebody else listens there.
            PermissionError: This user may not listen on this port.
            OSError: The address is none of this machine's.
        """
        self.last_words = ""
        """Why the connection is closed, for the other side; told by `close`."""
        self._listeners = listen(host, port)
        self.port: int = self._listeners[0].getsockname()[1]
        self._selector = DefaultSelector()
        self._short_wait = ShortWait()
        self._watcher: BaseSelector | None = None
        self._token: object = None
        self._peers: list[Peer] = []
        self._engine: Peer | None = None
        self._request: bytes | None = None
        self._gone = False
        self._hung_up: float | None = None
        self._closed = False
        self._paused_until: float | None = None
        self._warned = False
        for listener in self._listeners:
            self._selector.register(listener, EVENT_READ)

    @property
    def disconnected(self) -> bool:
        """Whether the engine has gone: it hung up before it had an answer (its process died, say), or
        between two calls and has not come back.
        """
        if self._hung_up is not None and time.monotonic() - self._hung_up >= _RETURN_SECONDS:
            self._gone = True
        return self._gone

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register all sockets, now and later, with a selector, so that it tells when to `pump`.

        Args:
            selector: None ends that.
            token: The `data` of the selector's keys.
        """
        if self._watcher is not None:
            for key in self._selector.get_map().values():
                self._watcher.unregister(key.fileobj)
        self._watcher, self._token = selector, token
        if selector is not None:
            for key in self._selector.get_map().values():
                selector.register(key.fileobj, key.events, token)

    def pump(self) -> None:
        """Take in what has arrived and send what could not be sent before, without waiting."""
        if not self._closed:
            self._let_in_again()
            self._handle(self._selector.select(0))

    def receive(self, timeout: float) -> bytes | None:
        """The engine's next request; None when none came within `timeout` seconds or the engine has gone."""
        if self._request is None and not self._closed:
            if timeout > 0:
                self._wait(timeout)
            else:
                if self._engine is not None:
                    self._read(self._engine)
                if self._request is None:
                    self.pump()
        request, self._request = self._request, None
        return request

    def reply(self, data: bytes) -> None:
        """Answers the request received last. Without effect when the engine has gone meanwhile."""
        engine = self._engine
        if engine is not None and engine.server.waits:
            engine.server.reply(data)
            self._flush(engine)

    def close(self) -> None:
        """Stops listening. An answer just given is still delivered; an engine that waits is told to quit."""
        if self._closed:
            return
        self.watch(None)
        self.reply(QUIT)
        if self._engine is not None:
            self._part(self._engine)
        self._closed = True
        self._selector.close()
        for waiting in (*self._listeners, *(peer.stream for peer in self._peers)):
            waiting.close()
        self._engine = None
        self._peers.clear()

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self._request is None and not self.disconnected and not self._closed:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            if self._hung_up is not None:
                remaining = min(remaining, _RETURN_SECONDS)
            if self._paused_until is not None:
                remaining = min(remaining, _PAUSE_SECONDS)
                self._let_in_again()
            self._handle(self._short_wait.wait(self._selector.select, remaining))

    def _handle(self, ready: Sequence[tuple[SelectorKey, int]]) -> None:
        for key, events in ready:
            peer = key.data
            if peer is None:
                self._accept(key.fileobj)  # type: ignore[arg-type]
            elif peer in self._peers:  # and not dropped on account of another one
                if events & EVENT_WRITE:
                    self._flush(peer)
                if events & EVENT_READ and peer in self._peers:
                    self._read(peer)

    def _accept(self, listener: socket.socket) -> None:
        if self._paused_until is not None:  # since the other listener was tried
            return
        try:
            connection, name = accept(listener)
        except OSError as error:
            if error.errno in OUT_OF_RESOURCES:
                self._let_nobody_in(error)
            else:  # it has hung up already
                logger.debug("A connection to port %d came to nothing: %s", self.port, error)
            return
        peer = Peer(connection, name)
        self._peers.append(peer)
        self._register(connection, peer)
        self._flush(peer)
        strangers = [peer for peer in self._peers if peer is not self._engine]
        if len(strangers) > _STRANGERS:
            self._drop(strangers[0])

    def _let_nobody_in(self, reason: OSError) -> None:
        """Stop looking at the listeners for a while: who waits there would be announced again and again."""
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        for listener in self._listeners:
            self._unregister(listener)
        if not self._warned:
            self._warned = True
            logger.warning(
                "A connection to port %d cannot be opened: %s. Allow more open files (ulimit -n). It is "
                "tried again every second; this is said once.",
                self.port,
                reason.strerror,
            )

    def _let_in_again(self) -> None:
        if self._paused_until is not None and time.monotonic() >= self._paused_until:
            self._paused_until = None
            for listener in self._listeners:
                self._register(listener, None)

    def _register(self, waiting: socket.socket | Stream, peer: Peer | None) -> None:
        self._selector.register(waiting, EVENT_READ, peer)
        if self._watcher is not None:
            self._watcher.register(waiting, EVENT_READ, self._token)

    def _unregister(self, waiting: socket.socket | Stream) -> None:
        self._selector.unregister(waiting)
        if self._watcher is not None:
            self._watcher.unregister(waiting)

    def _read(self, peer: Peer) -> None:
        """Take in what a connection has brought."""
        server = peer.server
        goes_on = peer.read()
        if peer.complaint:
            logger.warning(
                "The connection of %s to port %d is closed: %s.", peer.name, self.port, peer.complaint
            )
        if server.request is not None:
            self._take(peer)
        elif server.cancelled:
            server.cancelled = False
            if peer is self._engine:
                self._gone = True
        if server.connection.out:
            self._flush(peer)
        if not goes_on:
            self._drop(peer)

    def _take(self, peer: Peer) -> None:
        """A call has come: the engine's, unless another engine is connected."""
        engine = self._engine
        if engine is not None and engine is not peer:
            self._read(engine)  # it may have gone, or said goodbye, without having been looked at
            if self._engine is engine and (engine.server.waits or not engine.server.worn_out):
                peer.server.refuse(FAILED_PRECONDITION, "Another engine is connected to this port.")
                return
        self._request, peer.server.request = peer.server.request, None
        self._engine = peer
        self._gone, self._hung_up = False, None

    def _flush(self, peer: Peer) -> None:
        """Send what there is to be sent, as much as the system takes; the rest follows when it takes more."""
        if not peer.flush():
            self._drop(peer)
            return
        if peer.events != peer.watched:
            peer.watched = peer.events
            self._selector.modify(peer.stream, peer.watched, peer)
            if self._watcher is not None:
                self._watcher.modify(peer.stream, peer.watched, self._token)

    def _drop(self, peer: Peer) -> None:
        """A connection has ended."""
        if peer not in self._peers:
            return
        self._peers.remove(peer)
        self._unregister(peer.stream)
        peer.stream.close()
        if peer is self._engine:
            self._engine = None
            if peer.server.waits:
                self._gone = True
            else:
                self._hung_up = time.monotonic()

    def _part(self, engine: Peer) -> None:
        """Let the last bytes for the engine leave, and give it a moment to hang up."""
        engine.server.connection.say_goodbye(reason=self.last_words)
        self._flush(engine)
        deadline = time.monotonic() + PARTING_SECONDS
        while self._engine is engine and (engine.server.connection.sending or engine.server.connection.out):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            self._handle(self._selector.select(remaining))
        if self._engine is engine:
            with suppress(OSError):
                engine.stream.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + LINGER_SECONDS
        while self._engine is engine and (remaining := deadline - time.monotonic()) > 0:
            self._handle(self._selector.select(remaining))


OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Why `accept` fails although somebody waits to be let in."""
_BACKLOG = 16
_TRIES = 20
"""How many free ports of one address are tried until one is free on the others, too."""
_PRIVILEGED = 1024
"""Ports below this one are the system's own on most machines."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Non-blocking sockets that listen on one port.

    Args:
        host: `localhost` is 127.0.0.1 and, where the machine has it, ::1; else an address of this machine,
            and these two as well: engines on this machine dial `localhost` whatever the address.
        port: TCP port; 0 takes one that is free on all addresses.

    Raises:
        PortInUseError: Somebody else listens there.
        PermissionError: This user may not listen on this port.
        OSError: The address is none of this machine's.
    """
    addresses = _addresses(host.strip("[]"))
    for tries_left in reversed(range(_TRIES)):
        try:
            return _listen(addresses, port)
        except PortInUseError:
            if port != 0 or tries_left == 0:
                raise
    raise AssertionError("unreachable")


def accept(listener: socket.socket) -> tuple[socket.socket, str]:
    """Let somebody in: the connection, which does not block, and the address of who called.

    Raises:
        OSError: It has hung up already, or the system has no room for it (`OUT_OF_RESOURCES`).
    """
    connection, address = listener.accept()
    connection.setblocking(False)
    with suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, f"{address[0]}:{address[1]}"


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
    """The address itself, if it is not `localhost`, and the loopbacks that it does not include."""
    loopbacks = ["127.0.0.1", "::1"] if _has_ipv6_loopback() else ["127.0.0.1"]
    if host == "localhost":
        return loopbacks
    given = str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    included = {given, *{"::": ("127.0.0.1", "::1"), "0.0.0.0": ("127.0.0.1",)}.get(given, ())}
    return [given, *(address for address in loopbacks if address not in included)]


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
        if error.errno == errno.EACCES and sys.platform != "win32" and port < _PRIVILEGED:
            raise PermissionError(
                error.errno,
                f"port {port} needs privileges, as ports below {_PRIVILEGED} do; choose one from there on",
            ) from error
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortInUseError(
                error.errno, f"Port {port} of {address} cannot be used: {error.strerror}"
            ) from error
        raise
    return listener
