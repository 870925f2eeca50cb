"""Both ends of the connection, over real sockets."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from selectors import DefaultSelector

import grpc
import pytest
from lanista.envs.errors import AddressInUseError, TrainerGoneError
from lanista.envs.grpc import server as endpoints
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.grpcio_server import GrpcioSession
from lanista.envs.grpc.server import ServerSession
from lanista.envs.protocol.decoder import encode_quit

Server = ServerSession | GrpcioSession
both = pytest.mark.parametrize("server", [ServerSession, GrpcioSession], ids=["lean", "grpcio"])
METHOD = "/communicator_objects.UnityToExternalProto/Exchange"
PATIENCE = 20.0

ENGINE = """
import sys
from lanista.envs.grpc.client import EngineEndpoint
end = EngineEndpoint(int(sys.argv[1]))
end.connect(20)
print("calling", flush=True)
while True:
    answer = end.exchange(b"step")
"""


@pytest.fixture
def server() -> type[Server]:
    """Which server is tested; `both` tests grpcio's, too."""
    return ServerSession


@pytest.fixture
def trainer(server: type[Server]) -> Iterator[Server]:
    endpoint = server.listen(0)
    yield endpoint
    endpoint.close()


def connected(trainer: Server) -> EngineEndpoint:
    engine = EngineEndpoint(trainer.port)
    engine.connect(PATIENCE)
    return engine


def in_thread(engine: EngineEndpoint, data: bytes) -> tuple[threading.Thread, list[object]]:
    result: list[object] = []

    def call() -> None:
        try:
            result.append(engine.exchange(data))
        except TrainerGoneError as error:
            result.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, result


def exchange(trainer: Server, engine: EngineEndpoint, request: bytes, reply: bytes) -> object:
    thread, result = in_thread(engine, request)
    assert trainer.receive(PATIENCE) == request
    trainer.reply(reply)
    while thread.is_alive():
        trainer.pump()
    return result[0]


@both
def test_bytes_go_to_and_fro_unchanged(trainer: Server) -> None:
    engine = connected(trainer)
    for request, reply in ((b"", b"\x00"), (b"a", b""), (bytes(range(256)), b"b" * 1000)):
        assert exchange(trainer, engine, request, reply) == reply
    engine.close()


@both
def test_messages_beyond_grpcs_usual_limit_of_four_mebibytes_pass(trainer: Server) -> None:
    engine = connected(trainer)
    large = os.urandom(6 << 20)
    assert exchange(trainer, engine, large, large) == large
    engine.close()


@both
def test_receive_waits_no_longer_than_told(trainer: Server) -> None:
    assert trainer.receive(0) is None
    assert trainer.receive(0.01) is None
    assert not trainer.disconnected


def test_a_selector_tells_when_there_is_something_to_take_in(trainer: Server) -> None:
    with DefaultSelector() as selector:
        trainer.watch(selector, "token")
        listeners = len(selector.get_map())
        engine = connected(trainer)
        thread, result = in_thread(engine, b"x")
        while (request := trainer.receive(0)) is None:
            assert {key.data for key, _ in selector.select(PATIENCE)} == {"token"}
        assert request == b"x"
        trainer.reply(b"y")
        thread.join(PATIENCE)
        engine.close()
        while len(selector.get_map()) > listeners:
            assert selector.select(PATIENCE), "the engine's end is told, too"
            trainer.pump()
        assert selector.select(0) == [], "all was taken in"
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
    assert exchange(trainer, engine, b"x", b"y") == b"y"
    engine.close()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_only_loopback_listens_unless_told_otherwise(trainer: Server) -> None:
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


def test_another_address_listens_when_given() -> None:
    endpoint = ServerSession.listen(0, "0.0.0.0")
    engine = connected(endpoint)
    assert exchange(endpoint, engine, b"x", b"y") == b"y"
    engine.close()
    endpoint.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1", "::1", "[::1]", "another address"])
def test_engines_on_this_machine_reach_the_trainer_whatever_it_listens_on(host: str) -> None:
    """They dial `localhost`, which may be either loopback."""
    if ":" in host and not _has_ipv6():
        pytest.skip("no IPv6 on this machine")
    other = [_address()] if host == "another address" else []
    endpoint = ServerSession.listen(0, *other or [host])
    for address in ["127.0.0.1", *["::1"] * _has_ipv6(), *other]:
        socket.create_connection((address, endpoint.port), timeout=PATIENCE).close()
    endpoint.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such ports")
def test_a_port_that_needs_privileges_is_not_called_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(PermissionError, match="port 80 needs privileges"):
        ServerSession.listen(80)


@both
def test_a_taken_port_is_an_error(trainer: Server) -> None:
    with pytest.raises(AddressInUseError, match=str(trainer.port)):
        ServerSession.listen(trainer.port)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="address"):
        ServerSession.listen(0, "203.0.113.1")


def test_a_port_that_somebody_holds_on_the_other_loopback_alone_is_an_error_too() -> None:
    """An engine that dials `localhost` might reach either."""
    if not _has_ipv6():
        pytest.skip("no IPv6 on this machine")
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        with pytest.raises(AddressInUseError, match="::1"):
            ServerSession.listen(other.getsockname()[1])


@both
def test_a_closed_port_can_be_used_again_at_once(trainer: Server) -> None:
    engine = connected(trainer)
    assert exchange(trainer, engine, b"x", b"y") == b"y"
    trainer.close()
    again = ServerSession.listen(trainer.port)
    again.close()
    engine.close()


@both
def test_a_last_answer_arrives_although_the_trainer_closes(trainer: Server) -> None:
    engine = connected(trainer)
    thread, result = in_thread(engine, b"x")
    assert trainer.receive(PATIENCE) == b"x"
    trainer.reply(b"last")
    trainer.close()
    thread.join(PATIENCE)
    assert result == [b"last"]


@both
def test_an_engine_that_waits_is_told_to_quit_when_the_trainer_closes(trainer: Server) -> None:
    engine = connected(trainer)
    thread, result = in_thread(engine, b"x")
    assert trainer.receive(PATIENCE) == b"x"
    trainer.close()
    thread.join(PATIENCE)
    assert result == [encode_quit()]


@both
def test_an_engine_that_dies_while_it_waits_is_noticed(trainer: Server) -> None:
    process = subprocess.Popen([sys.executable, "-c", ENGINE, str(trainer.port)], stdout=subprocess.PIPE)
    try:
        assert trainer.receive(PATIENCE) == b"step"
        process.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        assert trainer.receive(PATIENCE) is None
        assert trainer.disconnected
        trainer.reply(b"too late, and without effect")
    finally:
        process.kill()
        process.communicate()


def test_an_engine_that_hangs_up_between_two_calls_has_gone_unless_it_comes_back(
    trainer: Server,
) -> None:
    engine = connected(trainer)
    assert exchange(trainer, engine, b"one", b"1") == b"1"
    engine.close()
    trainer.pump()
    assert not trainer.disconnected, "a channel of gRPC may reconnect"
    assert exchange(trainer, engine, b"two", b"2") == b"2"
    assert not trainer.disconnected
    engine.close()
    assert trainer.receive(PATIENCE) is None
    assert trainer.disconnected


@both
def test_another_engine_can_connect_after_one_has_died(trainer: Server) -> None:
    first = connected(trainer)
    thread, result = in_thread(first, b"one")
    assert trainer.receive(PATIENCE) == b"one"
    first.close()
    assert trainer.receive(PATIENCE) is None
    assert trainer.disconnected
    thread.join(PATIENCE)
    assert isinstance(result[0], TrainerGoneError)
    second = connected(trainer)
    thread, result = in_thread(second, b"two")
    while (request := trainer.receive(0)) is None:
        pass
    assert request == b"two"
    assert not trainer.disconnected
    trainer.reply(b"welcome")
    thread.join(PATIENCE)
    assert result == [b"welcome"]
    second.close()


def test_a_second_engine_on_the_same_port_is_turned_away(trainer: Server) -> None:
    first, second = connected(trainer), connected(trainer)
    thread, result = in_thread(first, b"one")
    assert trainer.receive(PATIENCE) == b"one"
    other, refusal = in_thread(second, b"two")
    assert trainer.receive(0.0) is None
    while other.is_alive():
        trainer.pump()
    assert "Another engine" in str(refusal[0])
    trainer.reply(b"y")
    thread.join(PATIENCE)
    assert result == [b"y"]
    first.close()
    second.close()


def test_a_second_engine_is_turned_away_also_while_the_first_computes(trainer: Server) -> None:
    first, second = connected(trainer), connected(trainer)
    assert exchange(trainer, first, b"one", b"go on") == b"go on"
    other, refusal = in_thread(second, b"two")
    while other.is_alive():
        assert trainer.receive(0) is None
    assert "Another engine" in str(refusal[0])
    assert exchange(trainer, first, b"three", b"3") == b"3"
    first.close()
    assert exchange(trainer, second, b"four", b"4") == b"4"
    second.close()


def test_an_engine_that_has_said_goodbye_may_go_on_over_another_connection(trainer: Server) -> None:
    old, new = connected(trainer), connected(trainer)
    assert exchange(trainer, old, b"one", b"1") == b"1"
    old._client.connection.send_goaway()
    old._socket.sendall(old._client.connection.out)
    assert exchange(trainer, new, b"two", b"2") == b"2"
    assert not trainer.disconnected
    old.close()
    assert exchange(trainer, new, b"three", b"3") == b"3"
    new.close()


def test_without_room_for_another_connection_the_trainer_rests(
    trainer: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def full(listener: socket.socket) -> None:
        tries.append(listener)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(endpoints, "_ACCEPT_PAUSE_SECONDS", 0.02)
    with DefaultSelector() as selector, monkeypatch.context() as patches:
        patches.setattr(endpoints, "accept", full)
        trainer.watch(selector)
        engine = connected(trainer)
        assert selector.select(PATIENCE)
        trainer.pump()
        assert len(tries) == 1
        assert not selector.select(0), "who waits is not announced again and again"
        while len(tries) < 3:
            assert trainer.receive(0.1) is None
        patches.undo()
        assert exchange(trainer, engine, b"x", b"y") == b"y"
        trainer.watch(None)
        assert not selector.get_map()
    assert caplog.text.count("Too many open files") == 1
    engine.close()


def test_no_trainer_is_an_error_in_time() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    engine = EngineEndpoint(port)
    with pytest.raises(TrainerGoneError, match=f"port {port} within 0.2 s"):
        engine.connect(0.2)
    engine.close()


def test_proxies_of_the_environment_do_not_come_between(
    trainer: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    engine = connected(trainer)
    assert exchange(trainer, engine, b"x", b"y") == b"y"
    engine.close()


@both
def test_a_plain_grpc_client_reaches_the_method_by_its_full_name(trainer: Server) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{trainer.port}") as channel:
        answer = channel.unary_unary(METHOD).future(b"x", wait_for_ready=True)
        assert trainer.receive(PATIENCE) == b"x"
        trainer.reply(b"y")
        assert answer.result(PATIENCE) == b"y"
        other = channel.unary_unary("/communicator_objects.UnityToExternalProto/Other").future(b"x")
        while not other.done():
            trainer.pump()
        assert other.code() == grpc.StatusCode.UNIMPLEMENTED
        if isinstance(trainer, ServerSession):
            assert "no method /communicator_objects.UnityToExternalProto/Other" in other.details()


def test_a_script_that_forgets_to_close_ends_all_the_same() -> None:
    script = "from lanista.envs.grpc.server import ServerSession; e = ServerSession.listen(0); print(e.port)"
    subprocess.run([sys.executable, "-c", script], timeout=PATIENCE, check=True, capture_output=True)
