"""The ports on which engines call."""

import errno
import os
import socket
from collections.abc import Callable
from typing import TypeVar

import psutil
from mlagents_envs.exception import UnityEnvironmentException, UnityWorkerInUseException

from .options import EngineOptions

EDITOR_PORT = 5004
"""The port on which the Unity Editor calls."""
FIRST_PORT = 5005
"""The port on which the first executable calls, unless it is taken."""
LAST_PORT = 65535

_PROBE_SECONDS = 0.1
"""Seconds of a probe: a listener on this machine answers within microseconds, and a firewall that drops
packets never does."""

T = TypeVar("T")


class PortInUseError(UnityWorkerInUseException):  # type: ignore[misc]
    """Another listener has the port that an engine must call."""

    def __init__(self, worker_id: int, port: int, remedy: str) -> None:
        super().__init__(worker_id)
        self.port = port
        self.args: tuple[str, ...] = (f"Port {port} is held by {holder(port)}. {remedy} {self}".rstrip(),)


def claim(listen: Callable[[int], T], port: int, *, search: bool, worker_id: int = 0, remedy: str = "") -> T:
    """Listen on a port, or with `search` on the first free one from there on.

    Args:
        listen: Takes a port and listens on it; raises OSError if it is taken.
        port: The port to try first.
        search: Whether another port will do.
        worker_id: Which environment it is for, for the message.
        remedy: What the user can do about a taken port, for the message.

    Raises:
        PortInUseError: The port is taken, or with `search` every port from there on; says who holds it.
        UnityEnvironmentException: There is no such port.
        PermissionError: The user may not listen on this port; not with `search`.
        OSError: `listen` fails for another reason.
    """
    if not 0 <= port <= LAST_PORT:
        raise UnityEnvironmentException(
            f"Environment {worker_id} would have the port {port}, and ports end at {LAST_PORT}. Its port is "
            "base_port (--base-port) plus its index: choose another base_port."
        )
    for candidate in range(port, LAST_PORT + 1 if search else port + 1):
        if _has_listener(candidate):
            continue
        try:
            return listen(candidate)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            if isinstance(error, PermissionError) and not search:
                raise
    raise PortInUseError(worker_id, port, remedy)


def serve(listen: Callable[[int], T], options: EngineOptions, first: int, *, search: bool, remedy: str) -> T:
    """Like `claim`, for the environment of these options; says what the system refuses in words for the user.

    Args:
        listen: As for `claim`.
        options: The environment's options, whose address `listen` uses.
        first: The port of worker 0.
        search: As for `claim`.
        remedy: As for `claim`.

    Raises:
        UnityEnvironmentException: There is no such port or address, or this user may not use it.
        PortInUseError: The port is taken.
    """
    name, worker_id = options.name, options.worker_id
    try:
        return claim(listen, first + worker_id, search=search, worker_id=worker_id, remedy=remedy)
    except PermissionError as error:
        raise UnityEnvironmentException(
            f"{name}: this user may not listen there: {error.strerror} (base_port, --base-port)."
        ) from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            fewer = "Give fewer environments (--num-envs, --env-workers), or raise" if worker_id else "Raise"
            raise UnityEnvironmentException(
                f"{name}: no more sockets can be opened: {error.strerror}. {fewer} the limit of open files "
                "(ulimit -n)."
            ) from error
        raise UnityEnvironmentException(
            f"{name}: cannot listen on the address {options.listen!r} (listen, --listen): {error}. "
            "Give localhost, an address of this machine, or 0.0.0.0 for all of them."
        ) from error


def holder(port: int) -> str:
    """Which process listens on a port, in words; the operating system may not tell."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return "a process that this user may not see"
    listening = (
        c for c in connections if c.status == psutil.CONN_LISTEN and getattr(c.laddr, "port", None) == port
    )
    pid = next((c.pid for c in listening if c.pid), None)
    if pid is None:
        return "a process that this user may not see"
    if pid == psutil.Process().pid:
        return f"this very process, {pid}: another environment of it is still open"
    try:
        command = " ".join(" ".join(psutil.Process(pid).cmdline()).split())
    except psutil.Error:
        command = "?"
    return f"process {pid} ({command[:200]})"


def _has_listener(port: int) -> bool:
    """Whether somebody listens on the port of this machine.

    Some systems let a second process listen on 127.0.0.1 while a first one listens on every address; the
    engine would then reach either of them. A connection tells, though not of a listener that accepts none.
    """
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            if _is_bound(family, address, port):
                return True
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.settimeout(_PROBE_SECONDS)
                if probe.connect_ex((address, port)) == 0:
                    return True
        except OSError:  # this machine lacks IPv4 or IPv6: there is no listener
            continue
    return False


def _is_bound(family: socket.AddressFamily, address: str, port: int) -> bool:
    """Whether a socket cannot be bound to the port because another one is, which the system says at once."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if os.name == "posix":  # elsewhere the option takes the port from who has it
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # despite ended connections
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
