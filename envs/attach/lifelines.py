"""Connections between machines, one of which may lose its power without a word."""

from __future__ import annotations

import socket
from contextlib import suppress

_IDLE_SECONDS = 20
_AGAIN_SECONDS = 5
_PROBES = 4
_UNHEARD_MILLISECONDS = 60_000

_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", _IDLE_SECONDS),
    ("TCP_KEEPALIVE", _IDLE_SECONDS),  # its name on macOS
    ("TCP_KEEPINTVL", _AGAIN_SECONDS),
    ("TCP_KEEPCNT", _PROBES),
)
"""Each as far as the system knows it."""


def prepare(connection: socket.socket, *, always_read: bool = True) -> None:
    """Let small messages leave at once, and have the connection end within a minute when the other machine is
    gone. By default systems take hours to find out that nobody is there.

    Args:
        connection: TCP.
        always_read: The other side reads at any time. One that does not, as a trainer that updates, may leave
            bytes of ours unread for longer than a minute, and must not be taken for gone because of that.
    """
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    unheard = (("TCP_USER_TIMEOUT", _UNHEARD_MILLISECONDS),) if always_read else ()
    for name, value in (*_OPTIONS, *unheard):
        if hasattr(socket, name):
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
