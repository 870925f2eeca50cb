"""The trainer's end of a connection that exists already: an engine that was let in elsewhere."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_WRITE, BaseSelector, DefaultSelector
from typing import Protocol

from .peer import Peer, Stream
from .server import LINGER_SECONDS, PARTING_SECONDS, QUIT
from .spin_wait import ShortWait


class Endpoint(Protocol):
    """Where an engine's calls come in: a `TrainerEndpoint`, or a `ServedEndpoint`."""

    last_words: str
    """Why the connection is closed, for the other side; told by `close`."""

    @property
    def port(self) -> int:
        """The port on which the engine calls."""

    @property
    def disconnected(self) -> bool:
        """Whether the engine has gone."""

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Let a selector tell when to `pump`; None ends that."""

    def pump(self) -> None:
        """Take in what has arrived and send what could not be sent before, without waiting."""

    def receive(self, timeout: float) -> bytes | None:
        """The engine's next request; None when none came within `timeout` seconds or the engine has gone."""

    def reply(self, data: bytes) -> None:
        """Answer the request received last."""

    def close(self) -> None:
        """Let the last answer leave, and hang up."""


class ServedEndpoint:
    """Serves the calls of one engine over one connection; when that ends, the engine has gone.

    As a `TrainerEndpoint`, it is used by one thread at a time, and nothing happens between its calls.
    """

    def __init__(self, stream: Stream, name: str, allowance: int | None = None) -> None:
        """Takes the connection over.

        Args:
            stream: The socket, which does not block, or what stands for it.
            name: The address of the other side.
            allowance: Bytes that the other side may send before it is hung up on; see `trust`.
        """
        self.port: int = stream.getsockname()[1]
        self.last_words = ""
        """Why the connection is closed, for the other side; told by `close`."""
        self._peer = Peer(stream, name)
        self._peer.allowance = allowance
        self._selector = DefaultSelector()
        self._selector.register(stream, self._peer.watched)
        self._short_wait = ShortWait()
        self._watcher: BaseSelector | None = None
        self._token: object = None
        self.request: bytes | None = None
        """What has come and was not yet taken by `receive`."""
        self._gone = False
        self._closed = False
        self._flush()

    @property
    def name(self) -> str:
        """The address of the other side."""
        return self._peer.name

    @property
    def events(self) -> int:
        """What a selector should look for, for who has not left that to `watch`."""
        return self._peer.events

    @property
    def disconnected(self) -> bool:
        """Whether the other side has hung up, or given its call up."""
        return self._gone

    @property
    def complaint(self) -> str:
        """What the other side did wrong, if it was hung up on for that."""
        return self._peer.complaint

    def trust(self) -> None:
        """From now on it may send as much as it likes."""
        self._peer.allowance = None

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register the socket with a selector, so that it tells when to `pump`.

        Args:
            selector: None ends that.
            token: The `data` of the selector's key.
        """
        if self._watcher is not None and not self._gone:
            self._watcher.unregister(self._peer.stream)
        self._watcher, self._token = selector, token
        if selector is not None and not self._gone:
            selector.register(self._peer.stream, self._peer.watched, token)

    def pump(self) -> None:
        """Take in what has arrived and send what could not be sent before, without waiting."""
        self._handle(0.0)

    def receive(self, timeout: float) -> bytes | None:
        """The engine's next request; None when none came within `timeout` seconds or the engine has gone."""
        if self.request is None and not self._gone:
            self._read()
        deadline = time.monotonic() + timeout
        while self.request is None and not self._gone and (left := deadline - time.monotonic()) > 0:
            self._short_wait.wait(self._handle, left)
        request, self.request = self.request, None
        return request

    def reply(self, data: bytes) -> None:
        """Answers the request received last. Without effect when the engine has gone meanwhile."""
        if not self._gone and self._peer.server.waits:
            self._peer.server.reply(data)
            self._flush()

    def close(self) -> None:
        """Hangs up. An answer just given is still delivered; an engine that waits is told to quit."""
        self._end(self._part)

    def abandon(self, reason: str) -> None:
        """Hang up without waiting for the other side to take in what it is told: to quit, and why."""
        self.last_words = reason
        self._end(self._say_goodbye)

    def _handle(self, timeout: float) -> bool:
        """Wait for something to happen and take it in; whether anything did."""
        if self._gone:
            return True
        found = self._selector.select(timeout)
        for _, events in found:
            if events & EVENT_WRITE:
                self._flush()
            self._read()
        return bool(found)

    def _read(self) -> None:
        if self._gone:
            return
        goes_on = self._peer.read()
        server = self._peer.server
        if server.request is not None:
            self.request, server.request = server.request, None
        if server.connection.out:
            self._flush()
        if server.cancelled or not goes_on:
            self._drop()

    def _flush(self) -> None:
        peer = self._peer
        if not peer.flush():
            self._drop()
        elif peer.events != peer.watched:
            peer.watched = peer.events
            self._selector.modify(peer.stream, peer.watched)
            if self._watcher is not None:
                self._watcher.modify(peer.stream, peer.watched, self._token)

    def _drop(self) -> None:
        """The connection has ended."""
        if self._gone:
            return
        if self._watcher is not None:
            self._watcher.unregister(self._peer.stream)
        self._gone = True
        self._selector.unregister(self._peer.stream)
        self._peer.stream.close()

    def _end(self, part: Callable[[], None]) -> None:
        """Tell an engine that waits to quit, part from it, and hang up; once."""
        if self._closed:
            return
        self._closed = True
        self.watch(None)
        self.reply(QUIT)
        if not self._gone:
            part()
        self._drop()
        self._selector.close()

    def _say_goodbye(self) -> None:
        self._peer.server.connection.say_goodbye(reason=self.last_words)
        self._flush()

    def _part(self) -> None:
        """Let the last bytes leave, and give the other side a moment to hang up."""
        connection = self._peer.server.connection
        self._say_goodbye()
        deadline = time.monotonic() + PARTING_SECONDS
        while not self._gone and (connection.sending or connection.out):
            if (left := deadline - time.monotonic()) <= 0:
                return
            self._handle(left)
        if not self._gone:
            with suppress(OSError):
                self._peer.stream.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + LINGER_SECONDS
        while not self._gone and (left := deadline - time.monotonic()) > 0:
            self._handle(left)
