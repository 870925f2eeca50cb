"""Both of our ends against grpcio, and the trainer's end against strangers that connect."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc
import pytest
from http2peer import HELLO, Caller
from lanista.envs.errors import TrainerGoneError
from lanista.envs.grpc import calls as unary
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.grpcio_server import GrpcioSession
from lanista.envs.grpc.server import ServerSession

Server = ServerSession | GrpcioSession
both = pytest.mark.parametrize("server", [ServerSession, GrpcioSession], ids=["lean", "grpcio"])
METHOD = "/communicator_objects.UnityToExternalProto/Exchange"
PATIENCE = 30.0
MEBIBYTE = 1 << 20


@pytest.fixture
def engines(trainer: Server) -> Iterator[Callable[..., Callable[[bytes], grpc.Future]]]:
    """Makes engines on grpcio."""
    channels = []

    def make(**options: int | str) -> Callable[[bytes], grpc.Future]:
        arguments = [(f"grpc.{name}", value) for name, value in options.items()]
        channel = grpc.insecure_channel(
            f"localhost:{trainer.port}", [("grpc.enable_http_proxy", 0), *arguments]
        )
        channels.append(channel)
        return partial(channel.unary_unary(METHOD).future, wait_for_ready=True)

    yield make
    for channel in channels:
        channel.close()


def until_done(trainer: Server, call: grpc.Future) -> grpc.Future:
    while not call.done():
        trainer.pump()
    return call


def exchange(trainer: Server, engine, request: bytes, reply: bytes, **keywords: object) -> None:
    """The engine calls and gets the reply."""
    call = engine(request, **keywords)
    assert trainer.receive(PATIENCE) == request
    trainer.reply(reply)
    assert until_done(trainer, call).result() == reply


# Engines on grpcio ----------------------------------------------------------------------------------------


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"primary_user_agent": "grpc-csharp/1.10.0", "http2.hpack_table_size.encoder": 0},
        {"http2.bdp_probe": 0},
    ],
    ids=["plain", "without a table", "without probes"],
)
def test_thousands_of_exchanges(trainer: Server, engines, options: dict) -> None:
    engine = engines(**options)
    for number in range(1500):
        request = b"%d" % number * (number % 50)
        exchange(trainer, engine, request, request[::-1])
    assert not trainer.disconnected


SMALL_FRAMES = {"http2.lookahead_bytes": 1024, "http2.max_frame_size": 16384, "http2.bdp_probe": 0}


@both
@pytest.mark.parametrize(
    ("options", "sizes"),
    [({}, (20 * MEBIBYTE, 2 * MEBIBYTE)), (SMALL_FRAMES, (300_000, 300_000))],
    ids=["default frames", "small frames"],
)
def test_large_messages_pass_both_ways(trainer: Server, engines, options: dict, sizes) -> None:
    engine = engines(**options)
    request, reply = map(os.urandom, sizes)
    exchange(trainer, engine, b"greeting", b"")
    for _ in range(2):
        exchange(trainer, engine, request, reply)


@both
def test_keepalive_pings_are_answered_while_the_trainer_waits(trainer: Server, engines) -> None:
    call = engines(keepalive_time_ms=50, keepalive_timeout_ms=2000)(b"x")
    assert trainer.receive(PATIENCE) == b"x"
    assert trainer.receive(0.5) is None
    assert not trainer.disconnected
    trainer.reply(b"y")
    assert until_done(trainer, call).result() == b"y"


@pytest.mark.parametrize("server", [GrpcioSession])
def test_grpcio_accepts_compressed_messages(trainer: Server, engines) -> None:
    exchange(trainer, engines(), bytes(1000), b"y", compression=grpc.Compression.Gzip)


@both
def test_metadata_and_deadlines_are_accepted(trainer: Server, engines) -> None:
    engine = engines()
    for number in range(3):
        metadata = [("x-number", str(number)), ("x-blob-bin", bytes(9000))]
        exchange(trainer, engine, b"x", b"y", timeout=PATIENCE, metadata=metadata)


@both
def test_a_cancelled_call_is_noticed_and_another_is_served(trainer: Server, engines) -> None:
    engine = engines()
    call = engine(b"x")
    assert trainer.receive(PATIENCE) == b"x"
    call.cancel()
    assert trainer.receive(PATIENCE) is None
    assert trainer.disconnected
    trainer.reply(b"without effect")
    call = engine(b"again")
    while (request := trainer.receive(0)) is None:
        pass
    assert request == b"again"
    assert not trainer.disconnected
    trainer.reply(b"y")
    assert until_done(trainer, call).result() == b"y"


# Strangers ------------------------------------------------------------------------------------------------


def stranger(trainer: Server, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", trainer.port), timeout=PATIENCE)
    connection.sendall(data)
    trainer.pump()
    return connection


def hung_up(connection: socket.socket) -> bool:
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)), HELLO + b"\xff" * 100],
    ids=["GET", "noise", "late"],
)
def test_a_stranger_is_disconnected_and_the_engine_unaffected(trainer: Server, caplog, noise: bytes) -> None:
    engine = EngineEndpoint(trainer.port)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(engine.exchange, b"x")
        assert trainer.receive(PATIENCE) == b"x"
        with stranger(trainer, noise) as connection:
            while not caplog.records:
                trainer.pump()
            assert hung_up(connection)
        assert not trainer.disconnected
        trainer.reply(b"y")
        assert call.result() == b"y"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"port {trainer.port}" in caplog.text
    engine.close()


def test_silent_connections_do_not_disturb_the_engine(trainer: Server, caplog) -> None:
    silent = [stranger(trainer) for _ in range(40)]
    half = stranger(trainer, HELLO + Caller().begin(1))
    with ThreadPoolExecutor(1) as pool:
        engine = EngineEndpoint(trainer.port)
        call = pool.submit(engine.exchange, b"x")
        assert trainer.receive(PATIENCE) == b"x"
        for connection in silent[20:]:
            connection.close()
        trainer.pump()
        trainer.reply(b"y")
        assert call.result() == b"y"
        engine.close()
    assert hung_up(silent[0]), "many connections make room for new ones"
    for connection in (*silent, half):
        connection.close()
    trainer.pump()
    assert not caplog.records


# Trainers on grpcio ---------------------------------------------------------------------------------------


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Starts servers as ML-Agents' trainer starts its own; returns their ports."""
    servers = []

    def start(answer: Callable[[bytes, grpc.ServicerContext], bytes], *options: tuple[str, int]) -> int:
        server = grpc.server(ThreadPoolExecutor(10), options=[("grpc.so_reuseport", 1), *options])
        handlers = {"Exchange": grpc.unary_unary_rpc_method_handler(answer)}
        service = METHOD.split("/")[1]
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        port = server.add_insecure_port("[::]:0")
        server.start()
        servers.append(server)
        return port

    yield start
    for server in servers:
        server.stop(0).wait()


def test_our_engine_calls_a_trainer_on_grpcio(serve) -> None:
    engine = EngineEndpoint(serve(lambda request, context: request[::-1]))
    engine.connect(PATIENCE)
    for number in range(1000):
        request = b"%d" % number * (number % 50)
        assert engine.exchange(request) == request[::-1]
    large = os.urandom(3 * MEBIBYTE)
    assert engine.exchange(large) == large[::-1]
    engine.close()


def test_our_engine_respects_the_windows_of_a_trainer_on_grpcio(serve) -> None:
    """20 MiB, where such a server first allows 64 KiB."""
    options = ("grpc.max_receive_message_length", -1), ("grpc.http2.bdp_probe", 0)
    engine = EngineEndpoint(serve(lambda request, context: request, *options))
    large = os.urandom(20 * MEBIBYTE)
    assert engine.exchange(large) == large
    engine.close()


def test_a_trainer_on_grpcio_that_rejects_a_call_is_an_error(serve) -> None:
    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.ABORTED, "not today, señor")
        raise AssertionError

    with pytest.raises(TrainerGoneError, match="not today, señor"):
        EngineEndpoint(serve(answer)).exchange(b"x")
    engine = EngineEndpoint(serve(lambda request, context: request))
    with pytest.raises(TrainerGoneError, match="larger than max"):
        engine.exchange(bytes(5 * MEBIBYTE))
    assert engine.exchange(b"x") == b"x", "it may call again"


def test_a_trainer_on_grpcio_that_stops_is_gone() -> None:
    called, holding = threading.Event(), threading.Event()

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        called.set()
        holding.wait(PATIENCE)
        return request

    server = grpc.server(ThreadPoolExecutor(1))
    handlers = {"Exchange": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(METHOD.split("/")[1], handlers),))
    engine = EngineEndpoint(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(engine.exchange, b"x")
        assert called.wait(PATIENCE)
        stopped = server.stop(0)
        with pytest.raises(TrainerGoneError, match="is gone"):
            call.result()
        holding.set()
        stopped.wait()


def test_a_server_that_is_no_trainer_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        engine = EngineEndpoint(other.getsockname()[1])
        call = pool.submit(engine.exchange, b"x")
        connection, _ = other.accept()
        connection.sendall(b"220 mail.example.org ESMTP ready for whatever you have\r\n")
        with pytest.raises(TrainerGoneError, match="is gone"):
            call.result()
        connection.close()


# Stream identifiers ---------------------------------------------------------------------------------------


def test_an_engine_reconnects_when_its_stream_identifiers_run_out(trainer: Server, monkeypatch) -> None:
    monkeypatch.setattr(unary, "MAX_STREAM_ID", 9)
    engine = EngineEndpoint(trainer.port)
    with ThreadPoolExecutor(1) as pool:
        for number in range(23):
            call = pool.submit(engine.exchange, b"%d" % number)
            assert trainer.receive(PATIENCE) == b"%d" % number
            trainer.reply(b"!")
            assert call.result() == b"!"
            assert not trainer.disconnected
    trainer.pump()
    assert len(trainer._clients.connected) == 1, "the old connections are gone"
    engine.close()
