"""The engine's end of the connection: it calls the trainer and waits in the call for the answer."""

import contextlib
import math
import socket
import time
from functools import partial

from ..engines.selector import SpinWait
from ..errors import TrainerGoneError
from ..protocol.handshake import UNITY_PATH
from .calls import StatusError, UnaryClient
from .frames import Http2Error

_READ = 1 << 16
_DONT_WAIT: int | None = getattr(socket, "MSG_DONTWAIT", None)
"""Windows has no such flag."""
_RETRY_SECONDS = 0.05


class EngineEndpoint:
    """Calls the trainer, over gRPC without gRPC's threads: the caller's thread sends, waits and receives.

    Args:
        port: Where the trainer listens.
        host: On which address; an IPv6 address may stand in brackets.
        path: The method to call, of those in `PATHS`.
    """

    def __init__(self, port: int, host: str = "127.0.0.1", path: bytes = UNITY_PATH) -> None:
        self.port = port
        self._path = path
        self._host = host.strip("[]")
        self._authority = f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"
        self._socket: socket.socket | None = None
        self._client = UnaryClient(self._authority, path)
        self._spin_wait = SpinWait(spin=_DONT_WAIT is not None)

    def connect(self, timeout: float) -> None:
        """Wait until a trainer listens; raises TrainerGoneError if none does within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self._socket is None:
            remaining = deadline - time.monotonic()
            try:
                self._open(max(remaining, 0.001))
            except OSError as error:
                if remaining <= _RETRY_SECONDS:
                    raise TrainerGoneError(
                        f"No trainer listened on port {self.port} within {timeout:g} s."
                    ) from error
                time.sleep(_RETRY_SECONDS)

    def exchange(self, data: bytes) -> bytes:
        """Send a message and wait, as long as it takes, for the answer.

        Raises:
            TrainerGoneError: The connection broke or was refused.
        """
        try:
            return self._exchange(data)
        except (OSError, StatusError, Http2Error) as error:
            self.close()
            raise TrainerGoneError(f"The trainer on port {self.port} is gone: {error}") from error

    def close(self) -> None:
        """Hang up; may be called from another thread, and a pending call then fails."""
        endpoint, self._socket = self._socket, None
        if endpoint is not None:
            with contextlib.suppress(OSError):  # the trainer may have hung up before
                endpoint.shutdown(socket.SHUT_RDWR)
            endpoint.close()

    def _open(self, timeout: float | None) -> socket.socket:
        opened = socket.create_connection((self._host, self.port), timeout)
        if opened.getsockname() == opened.getpeername():
            # There is no listener, and the system chose that very port as ours: we would answer ourselves.
            opened.close()
            raise ConnectionRefusedError("there is no listener")
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.settimeout(None)
        self._socket, self._client = opened, UnaryClient(self._authority, self._path)
        return opened

    def _exchange(self, data: bytes) -> bytes:
        connection = self._socket or self._open(None)
        before: socket.socket | None = None
        if self._client.exhausted:
            # The old connection is closed once the new one serves: the trainer must not take it for the end.
            before, connection = connection, self._open(None)
        client = self._client
        client.call(data)
        out = client.connection.out
        while client.response is None:
            if out:
                connection.sendall(out)
                out.clear()
            received = self._spin_wait.wait(partial(_receive, connection), math.inf)
            if not received:
                raise ConnectionError("it has closed the connection")
            client.receive_data(received)
        if out:  # the trainer may wait for our receipt of its settings
            connection.sendall(out)
            out.clear()
        if before is not None:
            before.close()
        return client.response


def _receive(connection: socket.socket, seconds: float) -> bytes | None:
    """What has come, or comes if it may wait; None for nothing yet, b"" when the other end has hung up."""
    if seconds:
        return connection.recv(_READ)
    if _DONT_WAIT is None:
        return None
    try:
        return connection.recv(_READ, _DONT_WAIT)
    except BlockingIOError:
        return None
