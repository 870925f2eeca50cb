"""Both ends of the connection: the trainer serves, the engine calls."""

import errno
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import grpc

from .errors import PortInUseError, TrainerGoneError

_SERVICE = "communicator_objects.UnityToExternalProto"
_METHOD = f"/{_SERVICE}/Exchange"
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_QUIT = bytes.fromhex("0a03089003")  # a header of status 400
_PARTING_SECONDS = 1.0


def _has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _addresses(host: str) -> list[str]:
    """The addresses that a host name of a listener stands for; `localhost` is both loopbacks."""
    if host == "localhost":
        return ["127.0.0.1", "::1"] if _has_ipv6_loopback() else ["127.0.0.1"]
    return [host.strip("[]")]


def _claim(address: str, port: int) -> None:
    """Raises PortInUseError when a server could not listen there; grpc itself would only write to stderr."""
    family, _, _, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":  # there the option would let two listeners share the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind(target)
            probe.listen()
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise PortInUseError(
                    error.errno, f"Port {port} of {address} cannot be used: {error.strerror}"
                ) from error
            raise


class _DaemonThreads(Executor):
    """Threads for the server's calls that the interpreter does not wait for when it ends.

    A call waits for its answer as long as it takes. A script that ends without closing its environment
    would hang for ever with ThreadPoolExecutor, whose threads are joined before `atexit` closes anything.
    """

    def __init__(self, count: int) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._count = count
        for _ in range(count):
            threading.Thread(target=self._work, name="lanista-wire", daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def task() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        self._tasks.put(task)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for _ in range(self._count):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


class TrainerEndpoint:
    """The trainer's end: a server at which one engine calls and waits in the call for its answer.

    Any thread may use it. The engine's bytes are passed on as they are.
    """

    def __init__(
        self, port: int, host: str = "localhost", on_arrival: Callable[[], None] | None = None
    ) -> None:
        """Listens at once.

        Args:
            port: TCP port; 0 takes a free one (see `port`).
            host: `localhost` is 127.0.0.1 and, where the machine has it, ::1; else an address of this
                machine.
            on_arrival: Called from a thread of the server when a request has arrived, and when the engine
                has gone while it waited for its answer.

        Raises:
            PortInUseError: Somebody else listens there.
            OSError: The address is none of this machine's.
        """
        self._on_arrival = on_arrival
        self._changed = threading.Condition()
        self._request: bytes | None = None
        self._answer: bytes | None = None
        self._call = 0
        self._waiting = False
        self._gone = False
        self._closed = False
        self._parting = threading.Event()
        self._parting.set()
        # More than one thread, so that a second engine can be told at once that it is not awaited.
        self._server = grpc.server(
            _DaemonThreads(2),  # type: ignore[arg-type]
            options=[*_UNLIMITED, ("grpc.so_reuseport", 0)],
        )
        handler = grpc.unary_unary_rpc_method_handler(self._exchange)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {"Exchange": handler}),)
        )
        self.port = self._listen(_addresses(host), port)
        self._server.start()

    def _listen(self, addresses: list[str], port: int) -> int:
        for address in addresses:
            _claim(address, port)
            target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            try:
                bound = self._server.add_insecure_port(target)
            except RuntimeError as error:
                raise PortInUseError(
                    errno.EADDRINUSE, f"Port {port} of {address} cannot be used: {error}"
                ) from error
            if bound == 0:
                raise PortInUseError(errno.EADDRINUSE, f"Port {port} of {address} cannot be used.")
            port = bound
        return port

    def _exchange(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """One call of the engine, in a thread of the server: hands the request over, waits for the answer."""
        with self._changed:
            # A call that has its answer does not count: the engine's next one may come before grpc tells
            # that the last one is over.
            if (self._waiting and self._answer is None) or self._closed:
                context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION, "Another engine is connected to this port."
                )
            self._waiting, self._gone, self._answer, self._request = True, False, None, request
            self._call = call = self._call + 1
            self._parting.clear()
        if not context.add_callback(lambda: self._ended(call)):
            self._ended(call)
        self._tell()
        with self._changed:
            while self._answer is None and not self._gone and self._call == call:
                self._changed.wait()
            return self._answer or b""

    def _ended(self, call: int) -> None:
        """The call is over: it was answered, or the engine has gone."""
        with self._changed:
            if call != self._call:
                return
            self._gone = self._answer is None
            self._waiting = False
            self._parting.set()
            self._changed.notify_all()
            gone = self._gone
        if gone:
            self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
        if self._on_arrival is not None:
            self._on_arrival()

    @property
    def arrived(self) -> bool:
        """Whether `receive` would return a request at once."""
        return self._request is not None

    @property
    def disconnected(self) -> bool:
        """Whether the engine's call ended (its process died, say) before it had an answer."""
        return self._gone

    def receive(self, timeout: float) -> bytes | None:
        """The engine's next request; None when none came within `timeout` seconds or the engine has gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._request is not None or self._gone or self._closed, timeout)
            request, self._request = self._request, None
            return request

    def reply(self, data: bytes) -> None:
        """Answers the request received last. Without effect when the engine has gone meanwhile."""
        with self._changed:
            self._answer = data
            self._changed.notify_all()

    def close(self) -> None:
        """Stops listening. An answer just given is still delivered; an engine that waits is told to quit."""
        with self._changed:
            self._closed = True
            if self._waiting and self._answer is None:
                self._answer = _QUIT
            self._changed.notify_all()
        self._parting.wait(_PARTING_SECONDS)
        self._server.stop(0).wait()


class EngineEndpoint:
    """The engine's end: calls the trainer and waits in the call for what to do."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.port = port
        # A proxy of the user's environment must not come between two processes of one machine.
        self._channel = grpc.insecure_channel(
            f"{host}:{port}", options=[*_UNLIMITED, ("grpc.enable_http_proxy", 0)]
        )
        self._call = self._channel.unary_unary(_METHOD, request_serializer=None, response_deserializer=None)

    def connect(self, timeout: float) -> None:
        """Waits until a trainer listens. Raises TrainerGoneError when none does within `timeout` seconds."""
        try:
            grpc.channel_ready_future(self._channel).result(timeout)
        except grpc.FutureTimeoutError as error:
            raise TrainerGoneError(
                f"No trainer listened on port {self.port} within {timeout:g} s."
            ) from error

    def exchange(self, data: bytes) -> bytes:
        """Sends a message and waits, as long as it takes, for the answer.

        Raises:
            TrainerGoneError: The connection broke or was refused.
        """
        try:
            return bytes(self._call(data))
        except grpc.RpcError as error:
            raise TrainerGoneError(f"The trainer on port {self.port} is gone: {error.details()}") from error

    def close(self) -> None:
        """Hangs up."""
        with suppress(ValueError):
            self._channel.close()
