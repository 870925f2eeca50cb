"""Who else connects to the port of an engine: the engine keeps its place, its time and the log."""

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from selectors import DefaultSelector

import pytest
from http2peer import HELLO
from lanista.envs.engines import listening
from lanista.envs.engines.clients import ClientRules
from lanista.envs.grpc.calls import UnaryClient
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.frames import frame
from lanista.envs.grpc.grpcio_server import GrpcioSession
from lanista.envs.grpc.server import GREETING_BYTES, ServerSession
from lanista.envs.protocol.handshake import UNITY_PATH
from waiting_calls import PATIENCE, Server, call, exchange


@pytest.fixture
def dial(trainer: Server) -> Iterator:
    """Opens connections, and closes them after the test."""
    with ExitStack() as stack:

        def dial(data: bytes = b"") -> socket.socket:
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", trainer.port), PATIENCE))
            stranger.sendall(data)
            return stranger

        yield dial


@pytest.fixture
def engine(trainer: Server) -> Iterator[EngineEndpoint]:
    """An engine that is served."""
    endpoint = EngineEndpoint(trainer.port)
    endpoint.connect(PATIENCE)
    exchange(trainer, endpoint, b"greeting", b"")
    yield endpoint
    endpoint.close()


def ends(stranger: socket.socket) -> bool:
    """Whether the trainer hangs up."""
    with suppress(ConnectionResetError):
        while stranger.recv(1 << 16):
            pass
    return True


def test_browsers_beside_the_engine_take_one_line_of_the_log(
    trainer, engine, dial, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(listening, "_OCCUPIED_PAUSE_SECONDS", 0.0)
    for _ in range(5):
        stranger = dial(b"GET / HTTP/1.1\r\n\r\n")
        hung_up = threading.Thread(target=ends, args=[stranger])
        hung_up.start()
        while hung_up.is_alive():
            trainer.pump()
    exchange(trainer, engine, b"x", b"y")
    trainer.close()
    first, last = [record.getMessage() for record in caplog.records]
    assert "not HTTP/2" in first
    assert last.startswith(f"4 more connections were turned away from port {trainer.port}")


def test_beside_the_engine_strangers_are_accepted_one_at_a_time_with_pauses(
    trainer, engine, dial, monkeypatch
) -> None:
    """In a pause no selector reports that more of them wait."""
    monkeypatch.setattr(listening, "_OCCUPIED_PAUSE_SECONDS", 3600.0)
    with DefaultSelector() as selector:
        trainer.watch(selector, "token")
        watched = len(selector.get_map())
        strangers = [dial() for _ in range(3)]
        assert selector.select(PATIENCE)
        trainer.pump()
        assert len(selector.get_map()) == watched - len(trainer._listeners) + 1
        exchange(trainer, engine, b"x", b"y")
        monkeypatch.setattr(trainer._clients, "_paused_until", 0.0)
        trainer._clients.resume()
        assert selector.select(PATIENCE), "the others come later"
        trainer.watch(None)
    assert all(stranger.fileno() >= 0 for stranger in strangers)


def test_an_engine_that_returns_may_send_a_whole_step(trainer, engine) -> None:
    """Its first call on a new connection is no greeting."""
    step = os.urandom(64 * GREETING_BYTES)
    exchange(trainer, engine, step, b"y")
    engine.close()
    trainer.pump()
    exchange(trainer, engine, step * 2, b"z")


def test_a_first_call_is_no_longer_than_a_greeting(trainer: Server, caplog) -> None:
    stranger = EngineEndpoint(trainer.port)
    stranger.connect(PATIENCE)
    thread, result = call(stranger, bytes(2 * GREETING_BYTES))
    while thread.is_alive():
        assert trainer.receive(0.01) is None
    assert isinstance(result[0], Exception)
    assert "more than an engine's greeting" in caplog.text


def test_who_has_left_before_its_owner_is_looked_up_does_not_take_the_place_of_the_engine(
    trainer, dial
) -> None:
    """Of a connection that is gone the system tells nothing, which was taken for a system that never does."""
    trainer.client_rules = ClientRules(pid=os.getpid())
    endpoint = UnaryClient("localhost", UNITY_PATH)
    stranger = dial(bytes(endpoint.connection.out))
    while not any(not peer.is_admitted for peer in trainer._clients.connected):
        trainer.pump()
    endpoint.connection.out.clear()
    endpoint.call(b"greeting")
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stranger.sendall(endpoint.connection.out)
    stranger.close()
    while trainer._clients.connected:
        assert trainer.receive(0.01) is None
    assert not trainer.disconnected, "the engine is still to come"


def test_who_calls_when_the_engine_has_hung_up_must_go_on_with_its_session(trainer, engine) -> None:
    """A stranger's greeting would be taken for the engine's answer, and end the run."""
    trainer.objection = lambda request: "it greets" if request == b"greeting" else ""
    engine.close()
    trainer.pump()
    _be_refused(trainer)
    returned = EngineEndpoint(trainer.port)
    returned.connect(PATIENCE)
    exchange(trainer, returned, b"x", b"y")
    returned.close()


def test_grpcio_lets_nobody_greet_while_the_engine_makes_its_step() -> None:
    """Between two calls of an engine whoever called had its place."""
    trainer = GrpcioSession.listen(0)
    engine = EngineEndpoint(trainer.port)
    engine.connect(PATIENCE)
    exchange(trainer, engine, b"greeting", b"")
    trainer.objection = lambda request: "it greets" if request == b"greeting" else ""
    _be_refused(trainer)
    exchange(trainer, engine, b"x", b"y")
    engine.close()
    trainer.close()


def _be_refused(trainer: Server) -> None:
    impostor = EngineEndpoint(trainer.port)
    impostor.connect(PATIENCE)
    thread, result = call(impostor, b"greeting")
    while thread.is_alive():
        assert trainer.receive(0.01) is None
    assert isinstance(result[0], Exception)
    impostor.close()


@pytest.mark.parametrize("server", [ServerSession, GrpcioSession], ids=["lean", "grpcio"])
def test_a_program_that_was_not_started_does_not_take_the_engines_place(trainer, caplog) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        trainer.client_rules = ClientRules(pid=started.pid)
        _be_refused(trainer)
        started.stdin.close()
    assert "not the engine that was started" in caplog.text
    trainer.client_rules = ClientRules(pid=os.getpid())
    engine = EngineEndpoint(trainer.port)
    engine.connect(PATIENCE)
    exchange(trainer, engine, b"greeting", b"y")
    engine.close()


@pytest.mark.parametrize("server", [ServerSession, GrpcioSession], ids=["lean", "grpcio"])
def test_who_calls_before_the_engine_has_been_started_is_turned_away_too(trainer, caplog) -> None:
    """The port is listened to before the engine that may call there is started, and so known."""
    early = EngineEndpoint(trainer.port)
    early.connect(PATIENCE)
    thread, result = call(early, b"greeting")
    thread.join(0.5)  # time in which it was admitted
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        trainer.client_rules = ClientRules(pid=started.pid)
        while thread.is_alive():
            assert trainer.receive(0.01) is None
        started.stdin.close()
    assert isinstance(result[0], Exception)
    early.close()
    assert "not the engine that was started" in caplog.text


@pytest.mark.parametrize("server", [ServerSession, GrpcioSession], ids=["lean", "grpcio"])
def test_who_has_called_and_left_is_not_taken_for_the_engine(trainer) -> None:
    """Of a connection that is gone no system tells whose it was."""
    trainer.client_rules = ClientRules(pid=os.getpid())
    hasty = EngineEndpoint(trainer.port)
    hasty.connect(PATIENCE)
    thread, _ = call(hasty, b"greeting")
    thread.join(0.5)  # time in which it is sent
    hasty.close()
    thread.join()
    for _ in range(10):
        assert trainer.receive(0.05) is None
        assert not trainer.disconnected
    engine = EngineEndpoint(trainer.port)
    engine.connect(PATIENCE)
    exchange(trainer, engine, b"greeting", b"y")
    engine.close()


def test_beside_an_engine_that_was_started_others_are_not_even_read(trainer: Server, dial, caplog) -> None:
    trainer.client_rules = ClientRules(pid=os.getpid())
    engine = EngineEndpoint(trainer.port)
    engine.connect(PATIENCE)
    exchange(trainer, engine, b"greeting", b"")
    stranger = dial(HELLO + frame(0x77, 0, 0) * 100)
    hung_up = threading.Thread(target=ends, args=[stranger])
    hung_up.start()
    while hung_up.is_alive():
        trainer.pump()
    assert "is connected already" in caplog.text
    exchange(trainer, engine, b"x", b"y")
    engine.close()


@pytest.mark.parametrize("hangs_up", [True, False], ids=["closed", "still open"])
def test_looking_for_a_free_port_is_not_logged(trainer: Server, dial, caplog, hangs_up: bool) -> None:
    """Another run on this machine connects to each port, sends nothing, and hangs up soon."""
    trainer.client_rules = ClientRules(pid=os.getpid())
    engine = EngineEndpoint(trainer.port)
    engine.connect(PATIENCE)
    exchange(trainer, engine, b"greeting", b"")
    probe = dial()
    if hangs_up:
        probe.close()
    while trainer._clients.pause_left is None:
        trainer.pump()
    trainer.close()
    engine.close()
    assert not caplog.records
