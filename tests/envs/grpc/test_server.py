"""Both ends of the connection, over real sockets."""

import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from selectors import DefaultSelector
from types import SimpleNamespace

import pytest
from lanista.envs.engines import listening
from lanista.envs.errors import AddressInUseError, OtherEngineError, TrainerGoneError
from lanista.envs.grpc import grpcio_server
from lanista.envs.grpc.calls import FAILED_PRECONDITION
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.grpcio_server import GrpcioSession
from lanista.envs.grpc.server import ServerSession
from lanista.envs.protocol.encoder import encode_quit
from lanista.envs.protocol.handshake import PATHS, UNITY_PATH, UNREAL_PATH
from waiting_calls import PATIENCE, call, exchange, waiting_call

Server = ServerSession | GrpcioSession
both = pytest.mark.parametrize("server", [ServerSession, GrpcioSession], ids=["lean", "grpcio"])


@pytest.fixture
def connect(trainer: Server) -> Iterator[Callable[[], EngineEndpoint]]:
    """Connects engines, and closes them after the test."""
    with ExitStack() as stack:

        def connect() -> EngineEndpoint:
            engine = EngineEndpoint(trainer.port)
            stack.callback(engine.close)
            engine.connect(PATIENCE)
            return engine

        yield connect


@both
@pytest.mark.parametrize(
    ("path", "remedy"), [(UNREAL_PATH, "Unity was expected.*unreal:PATH"), (UNITY_PATH, "without 'unreal:'")]
)
def test_a_game_of_another_engine_is_refused_with_the_name_to_give(server, path: bytes, remedy: str) -> None:
    """At once, to the trainer as well as to the game, which may write it into its log."""
    trainer = server.listen(0, path=next(other for other in PATHS if other != path))
    engine = EngineEndpoint(trainer.port, path=path)
    try:
        engine.connect(PATIENCE)
        thread, result = call(engine, b"x")
        with pytest.raises(OtherEngineError, match=remedy):
            trainer.receive(PATIENCE)
        while thread.is_alive():
            trainer.pump()
        assert re.search(remedy, str(result[0]))
    finally:
        engine.close()
        trainer.close()


@both
def test_an_engine_of_unreal_is_served_on_its_own_method(server) -> None:
    trainer = server.listen(0, path=UNREAL_PATH)
    engine = EngineEndpoint(trainer.port, path=UNREAL_PATH)
    try:
        engine.connect(PATIENCE)
        exchange(trainer, engine, b"x", b"y")
    finally:
        engine.close()
        trainer.close()


@both
def test_bytes_pass_both_ways_unchanged_however_many(trainer: Server, connect) -> None:
    """gRPC's usual limit is 4 MiB."""
    engine, large = connect(), os.urandom(6 << 20)
    for request, reply in ((b"", b"\x00"), (b"a", b""), (bytes(range(256)), b"b" * 1000), (large, large)):
        exchange(trainer, engine, request, reply)


@both
def test_receive_returns_after_its_timeout(trainer: Server) -> None:
    assert trainer.receive(0) is None
    assert trainer.receive(0.01) is None
    assert not trainer.disconnected


def test_a_selector_reports_when_there_is_something_to_receive(trainer: Server, connect) -> None:
    with DefaultSelector() as selector:
        trainer.watch(selector, "token")
        listeners = len(selector.get_map())
        engine = connect()
        thread, result = call(engine, b"x")
        while (request := trainer.receive(0)) is None:
            assert {key.data for key, _ in selector.select(PATIENCE)} == {"token"}
        assert request == b"x"
        trainer.reply(b"y")
        thread.join(PATIENCE)
        engine.close()
        while len(selector.get_map()) > listeners:
            assert selector.select(PATIENCE), "that the engine hangs up is reported, too"
            trainer.pump()
        assert selector.select(0) == [], "everything was received"
        trainer.watch(None)
        assert not selector.get_map()
    assert result == [b"y"]


@both
@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_the_trainer_listens_on_both_loopbacks(trainer: Server, address: str) -> None:
    if address == "[::1]" and not _has_ipv6():
        pytest.skip("no IPv6 on this machine")
    engine = EngineEndpoint(trainer.port, address)
    engine.connect(PATIENCE)
    exchange(trainer, engine, b"x", b"y")
    engine.close()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_only_loopback_listens_by_default(trainer: Server) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.2" if sys.platform == "linux" else "127.0.0.1", 0))
        with pytest.raises(OSError), socket.create_connection((_address(), trainer.port), timeout=1):
            pass


def _address() -> str:
    """An address of this machine that is none of the two loopbacks."""
    if sys.platform == "linux":
        return "127.0.0.2"
    address = socket.gethostbyname(socket.gethostname())
    if address.startswith("127."):
        pytest.skip("this machine has no other address")
    return address


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1", "::1", "[::1]", "another address"])
def test_engines_on_this_machine_reach_the_trainer_on_any_address(host: str) -> None:
    """They dial `localhost`, which may be either loopback."""
    if ":" in host and not _has_ipv6():
        pytest.skip("no IPv6 on this machine")
    other = [_address()] if host == "another address" else []
    endpoint = ServerSession.listen(0, *other or [host])
    for address in ["127.0.0.1", *["::1"] * _has_ipv6(), *other]:
        socket.create_connection((address, endpoint.port), timeout=PATIENCE).close()
    endpoint.close()


@both
def test_a_taken_port_is_an_error(trainer: Server) -> None:
    with pytest.raises(AddressInUseError, match=str(trainer.port)):
        ServerSession.listen(trainer.port)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="address"):
        ServerSession.listen(0, "203.0.113.1")


def test_a_port_that_is_taken_on_the_other_loopback_alone_is_an_error_too() -> None:
    """An engine that dials `localhost` might reach either."""
    if not _has_ipv6():
        pytest.skip("no IPv6 on this machine")
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        with pytest.raises(AddressInUseError, match="::1"):
            ServerSession.listen(other.getsockname()[1])


def test_a_port_that_another_process_takes_before_grpcio_does_is_an_error(monkeypatch) -> None:
    free, taken = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
    address = free.getsockname()
    lost = SimpleNamespace(getsockname=taken.getsockname, close=lambda: None)
    monkeypatch.setattr(grpcio_server, "listen", lambda host, port: [free, lost])
    with taken, pytest.raises(AddressInUseError, match="another process has taken it") as error:
        GrpcioSession.listen(0)
    assert error.value.errno == errno.EADDRINUSE
    socket.create_server(address).close()


@both
def test_a_closed_port_can_be_used_again_at_once(trainer: Server, connect) -> None:
    exchange(trainer, connect(), b"x", b"y")
    trainer.close()
    ServerSession.listen(trainer.port).close()


@both
@pytest.mark.parametrize("reply", [b"last", None])
def test_closing_delivers_the_last_reply_or_tells_the_waiting_engine_to_quit(trainer, connect, reply) -> None:
    thread, result = waiting_call(trainer, connect(), b"x")
    if reply is not None:
        trainer.reply(reply)
    trainer.close()
    thread.join(PATIENCE)
    assert result == [encode_quit() if reply is None else reply]


def test_an_engine_that_hangs_up_between_two_calls_may_come_back(trainer: Server, connect) -> None:
    engine = connect()
    exchange(trainer, engine, b"one", b"1")
    engine.close()
    trainer.pump()
    assert not trainer.disconnected, "a channel of gRPC may reconnect"
    exchange(trainer, engine, b"two", b"2")
    assert not trainer.disconnected
    engine.close()
    assert trainer.receive(PATIENCE) is None
    assert trainer.disconnected


@both
def test_another_engine_can_connect_after_one_has_died(trainer: Server, connect) -> None:
    first = connect()
    thread, result = waiting_call(trainer, first, b"one")
    first.close()
    assert trainer.receive(PATIENCE) is None
    assert trainer.disconnected
    thread.join(PATIENCE)
    assert isinstance(result[0], TrainerGoneError)
    thread, result = call(connect(), b"two")
    while (request := trainer.receive(0)) is None:
        pass
    assert request == b"two"
    assert not trainer.disconnected
    trainer.reply(b"welcome")
    thread.join(PATIENCE)
    assert result == [b"welcome"]


def test_a_second_engine_is_rejected_while_the_first_waits_and_while_it_computes(trainer, connect) -> None:
    first, second = connect(), connect()
    thread, result = waiting_call(trainer, first, b"one")
    other, refusal = call(second, b"two")
    assert trainer.receive(0.0) is None
    while other.is_alive():
        trainer.pump()
    assert "Another engine" in str(refusal[0])
    assert refusal[0].__cause__.status == FAILED_PRECONDITION
    trainer.reply(b"y")
    thread.join(PATIENCE)
    assert result == [b"y"]
    other, refusal = call(second, b"three")
    while other.is_alive():
        assert trainer.receive(0) is None
    assert "Another engine" in str(refusal[0])
    exchange(trainer, first, b"four", b"4")
    first.close()
    exchange(trainer, second, b"five", b"5")


def test_an_engine_that_has_sent_goaway_may_continue_on_another_connection(trainer: Server, connect) -> None:
    old, new = connect(), connect()
    exchange(trainer, old, b"one", b"1")
    old._client.connection.send_goaway()
    old._socket.sendall(old._client.connection.out)
    exchange(trainer, new, b"two", b"2")
    assert not trainer.disconnected
    old.close()
    exchange(trainer, new, b"three", b"3")


def test_out_of_file_descriptors_accepting_pauses(trainer: Server, connect, monkeypatch, caplog) -> None:
    tries = []

    def full(listener: socket.socket) -> None:
        tries.append(listener)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(listening, "_RESOURCES_PAUSE_SECONDS", 0.02)
    with DefaultSelector() as selector, monkeypatch.context() as patches:
        patches.setattr(listening, "accept", full)
        trainer.watch(selector)
        engine = connect()
        assert selector.select(PATIENCE)
        trainer.pump()
        assert len(tries) == 1
        assert not selector.select(0), "the waiting client is not reported again and again"
        while len(tries) < 3:
            assert trainer.receive(0.1) is None
        patches.undo()
        exchange(trainer, engine, b"x", b"y")
        trainer.watch(None)
        assert not selector.get_map()
    assert caplog.text.count("Too many open files") == 1


def test_connecting_without_a_trainer_is_an_error_after_the_timeout() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    engine = EngineEndpoint(port)
    with pytest.raises(TrainerGoneError, match=f"port {port} within 0.2 s"):
        engine.connect(0.2)
    engine.close()


def test_proxies_of_the_environment_are_not_used(trainer: Server, connect, monkeypatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    exchange(trainer, connect(), b"x", b"y")


def test_a_script_that_does_not_close_its_session_still_exits() -> None:
    script = "from lanista.envs.grpc.server import ServerSession; e = ServerSession.listen(0); print(e.port)"
    subprocess.run([sys.executable, "-c", script], timeout=PATIENCE, check=True, capture_output=True)
