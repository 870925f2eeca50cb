"""How an engine's connection ends: what is said of it, and that nobody else waits until that is known."""

import re
import socket

import pytest
from lanista.envs.engines import connection as engine_connection
from lanista.envs.engines.connection import EngineConnection
from lanista.envs.engines.interfaces import EngineKind
from lanista.envs.engines.terms import UNITY
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.server import ServerSession
from mlagents_envs.exception import UnityCommunicationException, UnityEnvironmentException

KIND = EngineKind(UNITY, b"quit")


class Clock:
    """The time of the module, which passes only as the test says."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


class DroppedSession:
    """A session whose engine has gone."""

    fault = rejection = ""
    disconnected = True

    def receive(self, timeout):
        return None


class Process:
    """An engine's process that notes how long it was waited for."""

    def __init__(self):
        self.returncode, self.waited = None, 0.0

    def wait(self, timeout):
        self.waited += timeout
        return self.returncode is not None

    def is_diagnosed(self):
        return True

    def external_error(self):
        return None

    def describe(self, called):
        return "Its process is described."


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(engine_connection, "time", clock)
    return clock


def dropped():
    process = Process()
    return EngineConnection(DroppedSession(), process, 60.0, "environment 0", KIND), process


def test_nobody_waits_for_the_end_of_a_process_that_has_hung_up(clock):
    connection, process = dropped()
    assert not connection.gone(), "it may still end, which would tell more"
    clock.now += 5.0
    assert connection.gone()
    with pytest.raises(UnityEnvironmentException, match="The engine has dropped its connection"):
        connection.receive()
    assert process.waited == 0.0, "what steps other engines is blocked as long as it waits"


def test_the_end_of_a_process_that_has_hung_up_is_known_at_once(clock):
    connection, process = dropped()
    assert not connection.gone()
    process.returncode = -11
    assert connection.gone()
    with pytest.raises(UnityEnvironmentException) as raised:
        connection.receive()
    assert "dropped" not in str(raised.value)


def test_bytes_that_are_no_http2_are_named_as_the_cause():
    session = ServerSession.listen(0, "localhost")
    connection = EngineConnection(session, None, 10.0, "environment 0", KIND)
    engine = EngineEndpoint(session.port)
    opened = socket.create_connection(("127.0.0.1", session.port))
    engine._socket = opened
    engine._client.call(b"hello")
    opened.sendall(engine._client.connection.out)
    assert connection.receive() == b"hello"
    connection.reply(b"go on")
    opened.sendall(b"\xff" * 1000)
    with pytest.raises(UnityCommunicationException, match=re.escape("since a frame of 16777215 bytes")):
        connection.receive()
    opened.close()
    session.close()
