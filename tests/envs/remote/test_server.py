"""The attach server: which clients are admitted or rejected, and that none can block it."""

import logging
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from lanista.envs.errors import TrainerGoneError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.remote.handshake import AccessRules, AttachedEngine
from lanista.envs.remote.server import AttachServer
from lanista.envs.unity import UnityEnvironment
from scripted_engine import NOBODY, ScriptedEngine, hello, message, observation

TIMEOUT = 20.0


class Hall:
    """A server, and the engines that it has admitted."""

    def __init__(
        self, *, rules: AccessRules | None = None, timeout: float = TIMEOUT, token: str | None = None
    ):
        self.arrived: queue.SimpleQueue[AttachedEngine] = queue.SimpleQueue()
        self.server = AttachServer(
            "localhost", 0, rules, token=token, on_engine=self.arrived.put, timeout=timeout
        )
        self.port = self.server.port
        self.server.start()

    def next(self) -> AttachedEngine:
        return self.arrived.get(timeout=TIMEOUT)


@pytest.fixture
def open_hall() -> Iterator:
    halls = []

    def open_hall(**options) -> Hall:
        halls.append(Hall(**options))
        return halls[-1]

    yield open_hall
    for hall in halls:
        hall.server.close()


def said(port: int, words: bytes) -> bytes:
    """What the gate says to somebody who says this, until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as caller:
        caller.sendall(words)
        return to_the_end(caller)


def told(caplog) -> str:
    """What the log says, once it says anything."""
    deadline = time.monotonic() + TIMEOUT
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    return "\n".join(record.getMessage() for record in caplog.records)


def to_the_end(caller: socket.socket) -> bytes:
    caller.settimeout(TIMEOUT)
    heard = b""
    with suppress(ConnectionResetError):
        while more := caller.recv(4096):
            heard += more
    return heard


def environment(engine: AttachedEngine, timeout: float = TIMEOUT) -> UnityEnvironment:
    return UnityEnvironment(worker_id=7, connect=lambda _: engine.connection("environment 7", timeout))


def test_every_connection_is_an_engine_of_its_own(open_hall):
    hall = open_hall()
    engines = [ScriptedEngine(hall.port, [hello(), observation(k, 0.0)]) for k in range(3)]
    seen = []
    for _ in engines:
        env = environment(hall.next())
        env.reset()
        seen.append(env.get_steps("Ball?team=0")[0].obs[0][0, 0])
        env.close()
    assert sorted(seen) == [0.0, 1.0, 2.0]
    for engine in engines:
        engine.join(TIMEOUT)
        assert engine.was_told_to_quit


def test_a_scene_attaches(open_hall):
    hall = open_hall()
    command = [sys.executable, "-m", "lanista.envs.scenes", "basic", "--mlagents-port", str(hall.port)]
    scene = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    env = environment(hall.next())
    env.reset()
    for _ in range(5):
        env.step()
    env.close()
    assert scene.wait(TIMEOUT) == 0


def test_an_engine_that_hangs_up_is_gone(open_hall):
    hall = open_hall()
    end = EngineEndpoint(hall.port)
    end.connect(TIMEOUT)
    thread = threading.Thread(target=_call, args=(end,))
    thread.start()
    connection = hall.next().connection("environment 0", TIMEOUT)
    end.close()
    while not connection.gone():
        connection.poll()
    connection.close()
    thread.join(TIMEOUT)


def _call(end: EngineEndpoint) -> None:
    with pytest.raises(TrainerGoneError):
        end.exchange(message(hello()))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: trainer\r\n\r\n", "it speaks HTTP/1, as browsers do"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it does not speak gRPC as engines do; not HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01", "it speaks TLS, as relays do, and relays are not admitted"),
        (bytes(range(1, 255)), "it does not speak gRPC as engines do"),
    ],
)
def test_who_is_no_engine_is_turned_away_with_the_reason(open_hall, caplog, words, reason):
    hall = open_hall()
    with caplog.at_level(logging.WARNING):
        said(hall.port, words)
    assert told(caplog).startswith("Turned away 127.0.0.1:")
    assert reason in told(caplog)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (message(NOBODY), "it is in the middle of a session that is over here"),
        (message(None), "its first call is not the greeting of an ML-Agents engine"),
        (message(hello(), 400), "its first call is not the greeting of an ML-Agents engine"),
        (b"", "its first call is not the greeting of an ML-Agents engine"),
        (b"\xff\xff", "its first call is not a message of an ML-Agents engine"),
        (message(observation(1.0, 2.0)), "it is in the middle of a session that is over here"),
    ],
)
def test_a_first_call_that_is_no_greeting_is_turned_away(open_hall, caplog, call, reason):
    hall = open_hall()
    end = EngineEndpoint(hall.port)
    end.connect(TIMEOUT)
    with caplog.at_level(logging.WARNING):
        answer = end.exchange(call)
    assert answer == message(None, 400), "it is told to quit"
    assert reason in told(caplog)
    assert hall.arrived.empty()
    end.close()


def test_who_says_nothing_has_some_time_and_holds_nobody_up(open_hall, caplog):
    hall = open_hall(timeout=0.5)
    with caplog.at_level(logging.WARNING), socket.create_connection(("127.0.0.1", hall.port)) as silent:
        ScriptedEngine(hall.port, [hello(), observation(1.0, 2.0)])
        environment(hall.next()).close()
        assert to_the_end(silent) == b""
    assert "it sent nothing within 0.5 s" in told(caplog)


def test_a_greeting_may_not_be_of_any_length(open_hall, caplog):
    hall = open_hall()
    end = EngineEndpoint(hall.port)
    end.connect(TIMEOUT)
    with caplog.at_level(logging.WARNING), pytest.raises(TrainerGoneError):
        end.exchange(bytes(1 << 20))
    assert "it sends more than an engine's greeting has" in told(caplog)


def test_many_who_wait_make_room_for_an_engine(open_hall):
    hall = open_hall()
    crowd = [socket.create_connection(("127.0.0.1", hall.port)) for _ in range(200)]
    ScriptedEngine(hall.port, [hello(), observation(1.0, 2.0)])
    environment(hall.next()).close()
    for one in crowd:
        one.close()


def test_each_reason_is_told_once_for_each_machine(open_hall, caplog):
    hall = open_hall()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            said(hall.port, b"GET / HTTP/1.1\r\n\r\n")
        hall.server.close()
    first, last = (record.getMessage() for record in caplog.records)
    assert "HTTP/1" in first
    assert last.startswith("4 more connections were turned away")


def test_no_thread_or_socket_stays(open_hall):
    before = threading.active_count()
    hall = open_hall()
    with socket.create_connection(("127.0.0.1", hall.port)) as caller:
        hall.server.close()
        assert to_the_end(caller) == b""
    assert threading.active_count() == before
