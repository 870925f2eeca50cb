"""The socket of a game: whole messages in and out, and callers that are no games."""

import os
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.engines.clients import ClientRules
from lanista.envs.engines.connection import EngineConnection
from lanista.envs.godot.launch import KIND
from lanista.envs.godot.session import LENGTH, GodotClient, GodotSession, frame
from lanista.envs.manager.restarts import HostLostError
from lanista.envs.remote.tls import TlsStream, client_context, self_signed
from scripted_engine import free_port

GREETING = frame(b'{"type":"hello"}')


@pytest.fixture
def session():
    one = GodotSession.listen(0, "localhost", GREETING)
    yield one
    one.close()


def call(session):
    caller = socket.create_connection(("127.0.0.1", session.port), 10)
    session.receive(0.01)
    assert caller.recv(len(GREETING)) == GREETING
    return caller


@pytest.fixture
def relayed():
    """A session of one encrypted connection, as a relay's, and the game's end of it."""
    pytest.importorskip("cryptography")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname(), 10)
        mine, _ = listener.accept()
    context, _ = self_signed("localhost")
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(context.wrap_socket, mine, server_side=True)
        game = client_context(pinned=True).wrap_socket(theirs)
        encrypted = accepted.result(10)
    encrypted.setblocking(False)
    session = GodotSession.of_stream(TlsStream(encrypted), "a relay", GREETING)
    game.settimeout(10)
    assert game.recv(len(GREETING)) == GREETING
    yield session, game
    session.close()
    game.close()


def test_long_messages_arrive_whole_over_an_encrypted_connection(relayed):
    """Whose bytes no selector reports once they have been decrypted."""
    session, game = relayed
    read = 1 << 18
    for size in (2, read - 4, read, 2 * read - 4, 3_000_001):
        message = b"{" + b" " * (size - 2) + b"}"
        sending = threading.Thread(target=game.sendall, args=(frame(message),))
        sending.start()
        assert receive(session) == message
        sending.join(10)
        session.reply(b"{}")
        assert game.recv(100) == frame(b"{}")


class Endless:
    """A connection on which four gigabytes are announced, and arrive as fast as they are read."""

    def __init__(self):
        self.read = 0

    def recv(self, size):
        self.read += size
        return LENGTH.pack(2**32 - 1) + bytes(size - LENGTH.size)


def test_little_of_what_a_stranger_announces_is_read():
    """Its first message describes spaces."""
    caller = GodotClient(Endless(), "a stranger", b"")
    caller.read()
    assert caller.stream.read < 1 << 20


def test_who_was_not_started_is_no_game(session, caplog):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        session.client_rules = ClientRules(pid=started.pid)
        impostor = call(session)
        impostor.sendall(frame(b"{}"))
        while "not the engine that was started" not in caplog.text:
            assert session.receive(0.01) is None
        assert impostor.recv(100) == b""
        started.stdin.close()
    session.client_rules = ClientRules(pid=os.getpid())
    game = call(session)
    game.sendall(frame(b"{}"))
    assert receive(session) == b"{}"
    impostor.close()
    game.close()


def test_who_leaves_while_it_is_looked_up_whose_connection_it_was_is_no_game(session, monkeypatch):
    """No system tells that any more; the game would lose its place to one that is gone."""
    session.client_rules = ClientRules(pid=os.getpid())
    hasty = call(session)
    hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    look = session._acceptor.rejection_reason

    def look_late(*arguments):
        hasty.close()  # by a reset, after which not even our end is there
        return look(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(session._acceptor, "rejection_reason", look_late)
        hasty.sendall(frame(b"{}"))
        for _ in range(10):
            assert session.receive(0.05) is None
        assert not session.disconnected and hasty.fileno() < 0
    game = call(session)
    game.sendall(frame(b"{}"))
    assert receive(session) == b"{}"
    game.close()


@pytest.mark.parametrize(
    ("sent", "fault"), [(b"", ""), (b"\x01", "it ended within a message, after 1 bytes of it")]
)
def test_a_session_of_one_connection_is_over_with_it(relayed, sent, fault):
    session, game = relayed
    game.sendall(sent)
    game.close()
    assert receive(session) is None
    assert session.disconnected and session.fault == fault


class LostEngine:
    """A game on a node that is gone."""

    returncode = None

    def is_diagnosed(self):
        return True

    def wait(self, timeout):
        return False

    def external_error(self):
        return HostLostError("its node cannot be reached any more")


def test_a_message_that_was_cut_with_its_node_is_not_the_games_fault(relayed):
    session, game = relayed
    game.sendall(frame(b"{}")[:-1])
    game.close()
    with pytest.raises(HostLostError):
        EngineConnection(session, LostEngine(), 10.0, "environment 0", KIND).receive()


def receive(session):
    """What comes within ten seconds; more would be a hang."""
    return session.receive(10.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(min_size=0, max_size=300_000), min_size=1, max_size=3), st.integers(1, 5000))
def test_messages_arrive_whole_however_they_are_cut(bodies, size):
    session = GodotSession.listen(0, "localhost", GREETING)
    caller = call(session)

    def play():
        for body in bodies:
            data = frame(b"{" + body)
            for start in range(0, min(len(data), 20 * size), size):
                caller.sendall(data[start : start + size])
            caller.sendall(data[20 * size :])
            (length,) = LENGTH.unpack(caller.recv(4))
            assert caller.recv(length) == b'{"type":"go on"}'

    thread = threading.Thread(target=play)
    thread.start()
    for body in bodies:
        assert receive(session) == b"{" + body
        session.reply(b'{"type":"go on"}')
    thread.join(10)
    assert not thread.is_alive()
    session.close()
    caller.close()


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        (struct.pack("<I", 1 << 30) + b"{", "announces a message of 1,073,741,824 bytes"),
        (frame(b"{}")[:-1], "ended within a message, after 5 bytes"),
        (b"\x00\x00\x00\x00", "does not speak the protocol"),
        (frame(b"GET / HTTP/1.1"), "does not speak the protocol"),
        (frame(b"{}", b"{}"), "a message that it was not asked for"),
    ],
    ids=["too long", "cut", "empty", "no object", "unasked"],
)
def test_what_a_game_sends_that_is_no_message_ends_its_connection(session, sent, fault):
    game = call(session)
    game.sendall(frame(b"{}"))
    assert receive(session) == b"{}"
    game.sendall(sent)
    game.shutdown(socket.SHUT_WR)
    while not session.disconnected:
        session.pump()
    assert fault in session.fault


def test_a_game_that_goes_in_good_order_has_no_fault(session):
    game = call(session)
    game.sendall(frame(b"{}"))
    assert receive(session) == b"{}"
    game.close()
    assert receive(session) is None
    assert session.disconnected and not session.fault


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", frame(b"PING"), b"\xff" * 100, b"", b"\x01"])
def test_a_stranger_does_not_take_the_place_of_the_game(session, noise):
    strangers = [socket.create_connection(("127.0.0.1", session.port)) for _ in range(3)]
    for stranger in strangers:
        stranger.sendall(noise)
    session.receive(0.05)
    game = call(session)
    game.sendall(frame(b'{"is":"game"}'))
    assert receive(session) == b'{"is":"game"}'
    session.reply(b"{}")
    assert game.recv(100) == frame(b"{}")
    assert not session.disconnected
    for stranger in strangers:
        stranger.close()


def test_a_second_game_is_turned_away(session, caplog):
    game = call(session)
    game.sendall(frame(b"{}"))
    assert receive(session) == b"{}"
    second = socket.create_connection(("127.0.0.1", session.port), 10)
    session.pump()
    assert second.recv(100) == b""
    assert "another game is connected" in caplog.text
    session.reply(b"{}")
    assert game.recv(100) == frame(b"{}")


def test_callers_that_say_nothing_are_bounded(session):
    callers = []
    for _ in range(30):
        callers.append(socket.create_connection(("127.0.0.1", session.port), 10))
        session.receive(0.01)
    assert len(session._clients.connected) <= 8
    for caller in callers:
        caller.close()


def test_a_port_that_is_taken_is_refused():
    port = free_port()
    first = GodotSession.listen(port, "localhost", GREETING)
    with pytest.raises(OSError, match=str(port)):
        GodotSession.listen(port, "localhost", GREETING)
    first.close()
