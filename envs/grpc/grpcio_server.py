"""The trainer's end of an engine's connection on grpcio's server, for what the lean one does not speak.

It accepts all that a full gRPC server does: compressed messages, calls that a proxy spreads over several
connections, keepalive pings while the trainer learns. The price is grpcio's threads, which answer: an
exchange takes about 200 microseconds where `server.ServerSession` takes 15 to 30.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from selectors import EVENT_READ, BaseSelector
from typing import Any
from urllib.parse import unquote

import grpc

from ..engines.clients import ClientRules, owner
from ..engines.limits import RejectionLog
from ..engines.listening import listen
from ..errors import AddressInUseError, OtherEngineError
from ..protocol.handshake import OLD_UNITY, OLD_UNITY_PATH, PATHS, UNITY_PATH
from .server import FLUSH_SECONDS, QUIT

_THREADS = 4
"""One serves the engine's call; the others reject calls beside it."""
_STOP_SECONDS = 10.0
"""Seconds that its threads may take to end."""
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # two trainers on one port would each get some of the engine's calls
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 16),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 0),
)


class _DaemonThreads(Executor):
    """Threads that Python does not await when it ends: those of its own pool are, before engines are closed.

    A call waits for its answer in one of them, so that a script that left an engine open would never end.
    """

    def __init__(self, number: int) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._number = number
        for each in range(number):
            threading.Thread(target=self._run, name=f"grpcio {each}", daemon=True).start()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Call the function in one of the threads."""
        future: Future[Any] = Future()

        def job() -> None:
            try:
                future.set_result(function(*arguments, **keywords))
            except BaseException as error:
                future.set_exception(error)

        self._jobs.put(job)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end after the jobs that they have; nothing is waited for."""
        for _ in range(self._number):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class _Call:
    """An engine's call: its request, and the reply that a thread of grpcio waits for."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.reply: bytes | None = None
        self.ended = threading.Event()


class GrpcioSession:
    """A server for one engine; to be used as `server.ServerSession`.

    Calls are accepted from any connection, one at a time: between two calls grpcio does not report whether a
    connection is still open, so that only an engine that goes away while it waits is noticed.
    """

    def __init__(self, port: int, host: str, path: bytes) -> None:
        self.closing_reason = ""
        """Not sent: engines on the same network need none, and relays do not use this server."""
        self.fault = ""
        """None: grpcio rejects what is not HTTP/2 itself."""
        self.client_rules = ClientRules()
        """Who may call."""
        self.objection: Callable[[bytes], str] | None = None
        """Why a first call of another client is not the engine's, empty if it may be; None: any may."""
        self._awaited = threading.Event()
        """Whether an engine is awaited: before, it is not known yet who may call, and callers wait."""
        self._admitted = ""
        """The address that called last and may."""
        self._path = path
        self._other: OtherEngineError | None = None
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._lock = threading.Lock()
        self._call: _Call | None = None
        self._gone = False
        self._closed = False
        self._watcher: BaseSelector | None = None
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        listeners = listen(host, port)  # finds the port, and says what is wrong with it better than grpcio
        addresses = [listener.getsockname()[:2] for listener in listeners]
        for listener in listeners:
            listener.close()
        self._threads = _DaemonThreads(_THREADS)
        self._server = grpc.server(self._threads, options=_OPTIONS)
        self._server.add_generic_rpc_handlers(tuple(map(self._handler, (*PATHS, OLD_UNITY_PATH))))
        self.port: int = addresses[0][1]
        """The port on which the engine calls."""
        self._rejections = RejectionLog(f" from port {self.port}")
        self._start(addresses)

    @classmethod
    def listen(cls, port: int, host: str = "localhost", path: bytes = UNITY_PATH) -> GrpcioSession:
        """Listen for an engine; arguments and errors are those of `ServerSession.listen`."""
        return cls(port, host, path)

    @property
    def rejection(self) -> str:
        """Why the last client was turned away; empty if none was."""
        return self._rejections.last

    @property
    def disconnected(self) -> bool:
        """Whether the engine has gone while it waited for an answer."""
        return self._gone

    @property
    def has_client(self) -> bool:
        """Whether the engine has called: grpcio does not tell who is connected."""
        return bool(self._admitted)

    def watch(self, selector: BaseSelector | None, token: object = None) -> None:
        """Register a socket with a selector, so that it reports when to call `pump` or `receive`."""
        if self._watcher is not None:
            self._watcher.unregister(self._wakeup_reader)
        self._watcher = selector
        if selector is not None:
            self._awaited.set()
            selector.register(self._wakeup_reader, EVENT_READ, token)

    def pump(self) -> None:
        """Take note of what was reported to the selector; grpcio's threads do the rest."""
        with suppress(BlockingIOError):
            while len(self._wakeup_reader.recv(4096)) == 4096:
                pass

    def receive(self, timeout: float) -> bytes | None:
        """The engine's next request; None if none arrived within `timeout` seconds or the engine has gone.

        Raises:
            OtherEngineError: An engine of another kind calls.
        """
        if self._closed:
            return None
        self._awaited.set()
        self.pump()
        deadline = time.monotonic() + timeout
        while True:
            with suppress(Empty):
                # In slices, since nothing is put when the engine goes.
                remaining = 0.0 if self._gone else max(0.0, deadline - time.monotonic())
                call = self._calls.get(remaining > 0, min(remaining, 0.1))
                if not call.ended.is_set():
                    self._gone = False
                    return call.request
            if self._other is not None:
                raise self._other
            if self._gone or time.monotonic() >= deadline:
                return None

    def reply(self, data: bytes) -> None:
        """Respond to the request received last. Has no effect when the engine has gone meanwhile."""
        with self._lock:
            call, self._call = self._call, None
        if call is not None:
            call.reply = data
            call.ended.set()

    def wait_for_reconnect(self) -> bool:
        """Forget the engine, which has gone, so that another one may begin; whether one can call."""
        self._gone, self._admitted = False, ""
        return not self._closed

    def close(self, wait: bool = True) -> None:
        """Stop serving. An engine that waits for an answer is told to quit.

        Args:
            wait: For the last answer to leave.
        """
        if self._closed:
            return
        self._closed = True
        self._awaited.set()
        self.watch(None)
        self.reply(QUIT)
        self._server.stop(FLUSH_SECONDS if wait else 0.0).wait(_STOP_SECONDS)
        self._threads.shutdown()
        self._rejections.finish_period()
        self._wakeup_reader.close()
        self._wakeup_writer.close()

    def _start(self, addresses: list[tuple[str, int]]) -> None:
        """Serve on these addresses, which are free unless another process has taken one just now."""
        try:
            for address, number in addresses:
                self._server.add_insecure_port(
                    f"[{address}]:{number}" if ":" in address else f"{address}:{number}"
                )
        except RuntimeError as error:
            self._server.start()  # only then does `stop` release the ports bound so far
            self.close(wait=False)
            raise AddressInUseError(
                errno.EADDRINUSE, f"Port {number} of {address} cannot be used: another process has taken it"
            ) from error
        self._server.start()

    def _handler(self, path: bytes) -> grpc.GenericRpcHandler:
        """The handler of one method."""
        service, method = path.decode().strip("/").split("/")
        handler = grpc.unary_unary_rpc_method_handler(partial(self._exchange, path))
        return grpc.method_handlers_generic_handler(service, {method: handler})

    def _exchange(self, path: bytes, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Serve a call, in a thread of grpcio."""
        call = _Call(request)
        self._awaited.wait()
        refusal = self._rejection_reason(context.peer(), path, request)
        if refusal:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, refusal)
        with self._lock:
            if self._call is not None or self._closed:
                refusal = "The call before this one has not been answered yet."
            elif path != self._path:
                self._other = OtherEngineError(self.port, PATHS[path], PATHS[self._path])
                refusal = str(self._other)
            else:
                self._call = call
        if refusal:
            self._wake()
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal)
        if not context.add_callback(lambda: self._end(call)):
            self._end(call)
        self._calls.put(call)
        self._wake()
        call.ended.wait()
        if call.reply is None:
            context.abort(grpc.StatusCode.CANCELLED, "The call was cancelled.")
        return call.reply or b""

    def _rejection_reason(self, peer: str, path: bytes, request: bytes) -> str:
        """Why a client may not call, by grpcio's name of its address; empty if it may.

        An engine of another kind is named as that, and not by what it sends.
        """
        if peer == self._admitted:
            return ""
        host, _, port = unquote(peer).partition(":")[2].rpartition(":")
        client = host.strip("[]"), int(port)
        refusal = self.client_rules.rejection_reason(client, self.port)
        if not refusal and path == OLD_UNITY_PATH:
            refusal = OLD_UNITY
        if not refusal and path == self._path and self.objection is not None:
            refusal = self.objection(request)
        if refusal:
            self._rejections.log(host, f"{host}:{port}", refusal, lambda: owner(client, self.port))
        else:
            self._admitted = peer
        return refusal

    def _end(self, call: _Call) -> None:
        """The call has ended; without a reply, its engine has gone."""
        with self._lock:
            if self._call is not call:
                return
            self._call = None
            self._gone = True
        call.ended.set()
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # full: the reader is woken anyway; closed: there is no reader
            self._wakeup_writer.send(b"!")
