"""The attach server: which clients are admitted or rejected, and that none can block it."""

import logging
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from unittest.mock import Mock

import pytest
from attach_servers import TIMEOUT, CollectingServer, endpoint, environment, greet_in_vain
from console_runs import until
from lanista.envs.errors import TrainerGoneError
from lanista.envs.remote import server as server_module
from lanista.envs.remote.server import AttachServer
from lanista.envs.remote.source import AttachSource
from scripted_engine import NOBODY, ScriptedEngine, hello, message, observation
from transcripts import FILES, messages_of


@pytest.fixture
def listen() -> Iterator:
    servers = []

    def listen(**options) -> CollectingServer:
        servers.append(CollectingServer(**options))
        return servers[-1]

    yield listen
    for server in servers:
        server.close()


def answer_to(port: int, data: bytes) -> bytes:
    """What the server answers to these bytes until it disconnects."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as client:
        client.sendall(data)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    client.settimeout(TIMEOUT)
    data = b""
    with suppress(ConnectionResetError):
        while more := client.recv(4096):
            data += more
    return data


def logged(caplog) -> str:
    """The log once there is anything in it."""
    until(lambda: bool(caplog.records), TIMEOUT)
    return "\n".join(record.getMessage() for record in caplog.records)


def test_every_connection_is_a_separate_engine(listen):
    server = listen()
    engines = [ScriptedEngine(server.port, [hello(), observation(k, 0.0)]) for k in range(3)]
    seen = []
    for _ in engines:
        env = environment(server.next())
        env.reset()
        seen.append(env.get_steps("Ball?team=0")[0].obs[0][0, 0])
        env.close()
    assert sorted(seen) == [0.0, 1.0, 2.0]
    for engine in engines:
        engine.join(TIMEOUT)
        assert engine.was_told_to_quit


def test_a_scene_attaches(listen):
    server = listen()
    command = [sys.executable, "-m", "lanista.envs.scenes", "basic", "--mlagents-port", str(server.port)]
    scene = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    env = environment(server.next())
    env.reset()
    for _ in range(5):
        env.step()
    env.close()
    assert scene.wait(TIMEOUT) == 0


def test_the_end_of_a_connection_is_noticed(listen):
    server = listen()
    end = endpoint(server.port)
    thread = threading.Thread(target=greet_in_vain, args=(end,))
    thread.start()
    connection = server.next().connection("environment 0", TIMEOUT)
    end.close()
    while not connection.gone():
        connection.poll()
    connection.close()
    thread.join(TIMEOUT)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: trainer\r\n\r\n", "it speaks HTTP/1, as browsers do"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it does not speak gRPC as engines do; not HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01", "it speaks TLS, as relays do, and relays are not admitted"),
        (bytes(range(1, 255)), "it does not speak gRPC as engines do"),
    ],
)
def test_a_client_that_is_not_an_engine_is_rejected_with_the_reason(listen, caplog, data, reason):
    server = listen()
    with caplog.at_level(logging.WARNING):
        answer_to(server.port, data)
    assert logged(caplog).startswith("Turned away 127.0.0.1:")
    assert reason in logged(caplog)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (message(NOBODY), "it is in the middle of a session that is over here"),
        (message(None), "it is in the middle of a session that is over here"),
        (message(hello(), 400), "its first call is not the greeting of an ML-Agents engine"),
        (b"", "its first call is not the greeting of an ML-Agents engine"),
        (b"\xff\xff", "its first call is not a message of an ML-Agents engine"),
        (message(observation(1.0, 2.0)), "it is in the middle of a session that is over here"),
    ],
)
def test_a_first_call_that_is_not_a_greeting_is_rejected(listen, caplog, call, reason):
    server = listen()
    end = endpoint(server.port)
    with caplog.at_level(logging.WARNING):
        answer = end.exchange(call)
    assert answer == message(None, 400), "it is asked to quit"
    assert reason in logged(caplog)
    assert server.arrived.empty()
    end.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_real_engine_in_mid_session_is_told_to_restart(listen, caplog, path):
    """A real engine describes a behavior once, so that later calls cannot be decoded by themselves."""
    server = listen()
    calls = dict(messages_of(path))
    for number in (1, 2, 4, max(calls)):
        caplog.clear()
        end = endpoint(server.port)
        with caplog.at_level(logging.DEBUG, "lanista.envs"):
            assert end.exchange(calls[number]) == message(None, 400), "it is asked to quit"
        assert "it is in the middle of a session that is over here; restart the engine" in logged(caplog)
        end.close()
    assert server.arrived.empty()


def test_a_silent_client_times_out_and_does_not_block_others(listen, caplog):
    server = listen(timeout=0.5)
    with caplog.at_level(logging.WARNING), socket.create_connection(("127.0.0.1", server.port)) as silent:
        ScriptedEngine(server.port, [hello(), observation(1.0, 2.0)])
        environment(server.next()).close()
        assert read_all(silent) == b""
    assert "it sent nothing within 0.5 s" in logged(caplog)


def test_the_size_of_a_greeting_is_limited(listen, caplog):
    server = listen()
    end = endpoint(server.port)
    with caplog.at_level(logging.WARNING), pytest.raises(TrainerGoneError):
        end.exchange(bytes(1 << 20))
    assert "it sends more than an engine's greeting has" in logged(caplog)


def test_many_silent_clients_do_not_keep_an_engine_out(listen):
    server = listen()
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    ScriptedEngine(server.port, [hello(), observation(1.0, 2.0)])
    environment(server.next()).close()
    for client in clients:
        client.close()


def test_an_engine_that_greets_and_leaves_is_dropped_before_anything_is_started_for_it(caplog):
    """A thread, a handshake and an environment would take milliseconds each time."""
    made = []
    source = AttachSource(
        lambda on_engine: AttachServer("localhost", 0, on_engine=on_engine), lambda *args: made.append(args)
    )
    arrived = threading.Semaphore(0)
    source.open(arrived.release)
    ends = [endpoint(source.server.port) for _ in range(5)]
    engines = [threading.Thread(target=greet_in_vain, args=(end,)) for end in ends[:4]]
    engines.append(threading.Thread(target=ends[4].exchange, args=(message(hello()),)))
    for engine in engines:
        engine.start()
        assert arrived.acquire(timeout=TIMEOUT)
    for end, engine in zip(ends[:4], engines[:4], strict=True):
        end.close()
        engine.join(TIMEOUT)
    with caplog.at_level(logging.WARNING):
        pending = source.next()
        assert pending is not None and not pending.engine.has_left()
        assert source.next() is None
        source.close()
    first, last = [record.getMessage() for record in caplog.records]
    assert first.endswith("it left before it could take part.")
    assert last.startswith("3 more connections were turned away")
    pending.engine.reject()
    engines[4].join(TIMEOUT)
    ends[4].close()


def test_connections_beyond_a_burst_wait_their_turn(listen, monkeypatch):
    """Each takes processor time of the run; engines among them are served all the same."""
    monkeypatch.setattr(server_module, "_ACCEPTS", 2)
    waits = []
    server = listen()
    pause = server.server._clients.pause
    monkeypatch.setattr(server.server._clients, "pause", lambda wait: waits.append(wait) or pause(wait))
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
    ScriptedEngine(server.port, [hello(), observation(1.0, 2.0)])
    environment(server.next()).close()
    assert waits
    for client in clients:
        client.close()


def test_callers_that_come_to_nothing_wait_once_they_have_taken_their_share(listen, monkeypatch):
    """Who floods the port gets no more of the run's processor time by that; an engine joins all the same."""
    server = listen()
    pauses = []
    pause = server.server._clients.pause
    monkeypatch.setattr(server.server._clients, "pause", lambda wait: pauses.append(wait) or pause(wait))
    monkeypatch.setattr(server_module.RateLimit, "wait", 0.0)
    server.server._budget.spend(0.04)  # of many before
    for _ in range(100):
        if pauses:
            break
        answer_to(server.port, b"GET / HTTP/1.1\r\n\r\n")
    assert pauses
    ScriptedEngine(server.port, [hello(), observation(1.0, 2.0)])
    environment(server.next()).close()


def test_engines_that_take_part_take_nothing_of_the_share_of_those_that_come_to_nothing(listen, monkeypatch):
    server = listen()
    spent = []
    monkeypatch.setattr(server.server._budget, "spend", spent.append)
    ends = [endpoint(server.port) for _ in range(2)]
    threads = [threading.Thread(target=end.exchange, args=(message(hello()),)) for end in ends]
    engines = []
    for thread in threads:
        thread.start()
        engines.append(server.next())
    assert not spent
    engines[0].on_rejected()
    assert len(spent) == 1 and spent[0] > 0
    for engine, thread in zip(engines, threads, strict=True):
        engine.reject()
        thread.join(TIMEOUT)
    assert len(spent) == 1
    for end in ends:
        end.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell before all is read")
def test_who_has_hung_up_before_it_is_accepted_is_not_served(listen, monkeypatch, caplog):
    """A crowd's connections wait until they are given up; an engine behind them need not wait as long."""
    monkeypatch.setattr(server_module, "_ACCEPTS", 1)
    taken, arrived = [], queue.SimpleQueue()
    server = AttachServer("localhost", 0, on_engine=arrived.put)
    monkeypatch.setattr(server._accepts, "take", lambda: taken.append(1))
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        server.start()
        ScriptedEngine(server.port, [hello(), observation(1.0, 2.0)])
        environment(arrived.get(timeout=TIMEOUT)).close()
        server.close()
    assert len(taken) == 1
    assert "it disconnected before its greeting" in logged(caplog)


def test_each_reason_is_logged_once_per_machine(listen, caplog):
    server = listen()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            answer_to(server.port, b"GET / HTTP/1.1\r\n\r\n")
        server.close()
    first, last = (record.getMessage() for record in caplog.records)
    assert "HTTP/1" in first
    assert last.startswith("4 more connections were turned away")


def test_a_fault_of_the_servers_thread_is_said_and_callers_are_refused(listen, caplog, monkeypatch):
    """They would wait at a port at which nobody answers."""
    server = listen()
    monkeypatch.setattr(server.server, "_time_to_wait", Mock(side_effect=KeyError("a fault")))
    with suppress(OSError):
        answer_to(server.port, b"")
    assert "No more engines can connect at" in logged(caplog) and "a fault" in caplog.text

    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", server.port)).close()
        except ConnectionRefusedError:
            return True
        return False

    assert until(is_refused)


def test_closing_leaves_no_thread_or_socket(listen):
    before = threading.active_count()
    server = listen()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        server.close()
        assert read_all(client) == b""
    assert until(lambda: threading.active_count() <= before)
