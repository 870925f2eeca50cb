"""Callers at a port before they have begun: one deadline, however they drip, and a bound on their number."""

import socket
from types import SimpleNamespace

import pytest
from lanista.envs.engines import callers as module
from lanista.envs.engines.callers import Caller, Callers, UnwantedError
from lanista.envs.engines.listening import listen

SECONDS, MOST = 10.0, 100
TIMEOUT = 30.0


class Port:
    """A port whose callers begin with a line of lower-case letters, and a clock that stands still."""

    def __init__(self, monkeypatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.reasons: list[str] = []
        self.callers = Callers(listen("localhost", 0), SECONDS, MOST, self.is_begun, self.turned_away)
        self.clients: list[socket.socket] = []

    def is_begun(self, data: bytearray) -> bool:
        if b"A" in data:
            raise UnwantedError("it shouts")
        return b"\n" in data

    def turned_away(self, caller: Caller, reason: str) -> None:
        self.reasons.append(reason)

    def call(self, data: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.callers.port), TIMEOUT)
        client.sendall(data)
        self.clients.append(client)
        return client

    def wait(self) -> list[bytes]:
        """What those who have begun have sent, after the next event."""
        self.callers.wake()
        return [bytes(caller.data) for caller in self.callers.wait()]

    def wait_for(self, holds) -> None:
        while not holds():
            self.wait()

    @property
    def connected(self) -> list[Caller]:
        return list(self.callers._clients.connected)

    def close(self) -> None:
        self.callers.close()
        self.callers.close()
        for client in self.clients:
            client.close()


@pytest.fixture
def port(monkeypatch):
    port = Port(monkeypatch)
    yield port
    port.close()


def test_who_has_begun_is_handed_over_with_what_arrived(port):
    quiet, client = port.call(), port.call(b"he")
    port.wait_for(lambda: len(port.connected) == 2 and port.connected[1].data == b"he")
    client.sendall(b"llo\nmore")
    begun = []
    while not begun:
        begun = port.wait()
    assert begun == [b"hello\nmore"] and len(port.connected) == 1 and not port.reasons
    port.callers.close()
    assert quiet.recv(1) == b"", "who has not begun is let go"


def test_a_caller_that_drips_has_one_deadline(port):
    client = port.call(b"a")
    port.wait_for(lambda: port.connected)
    for second in range(1, 10):
        port.now = 1000.0 + second
        client.sendall(b"a")
        port.wait_for(lambda size=second + 1: len(port.connected[0].data) == size)
    assert not port.reasons
    port.now = 1000.0 + SECONDS
    port.wait()
    assert port.reasons == ["it did not begin within 10 s"]
    assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"AB", "it shouts"), (b"x" * (MOST + 1), "its beginning is longer than 100 bytes")],
)
def test_what_is_no_beginning_is_turned_away_at_once(port, data, reason):
    client = port.call(data)
    port.wait_for(lambda: port.reasons)
    assert port.reasons == [reason] and not port.connected
    assert client.recv(1) == b""


def test_who_hangs_up_is_forgotten(port):
    port.call(b"a").close()
    port.wait_for(lambda: port.reasons or not port.connected)
    client = port.call(b"a")
    port.wait_for(lambda: port.connected)
    client.close()
    port.wait_for(lambda: not port.connected)
    assert set(port.reasons) == {"it disconnected before it had begun"}


def test_of_too_many_the_oldest_are_turned_away_and_one_that_begins_is_served(port, monkeypatch):
    monkeypatch.setattr(module, "MAX_CALLERS", 5)
    oldest = port.call()
    for _ in range(20):
        port.call()
        port.wait()
    port.wait_for(lambda: len(port.reasons) >= 16)
    assert len(port.connected) == 5
    assert set(port.reasons) == {"too many others call, and it was the slowest"} and oldest.recv(1) == b""
    port.call(b"hello\n")
    begun = []
    while not begun:
        begun = port.wait()
    assert begun == [b"hello\n"]
