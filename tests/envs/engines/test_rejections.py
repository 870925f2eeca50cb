"""Why an engine has not begun: that its call was turned away is told in place of any guess."""

import socket
import threading
import time
from contextlib import suppress

import grpc
import pytest
from lanista.envs.engines.options import EngineOptions
from lanista.envs.godot.session import frame
from lanista.envs.opening import open_environment
from lanista.envs.protocol.dialect import UNITY, UNREAL, Dialect
from lanista.envs.protocol.handshake import OLD_UNITY, OLD_UNITY_PATH, OLDEST_UNITY
from lanista.envs.remote.server import AttachServer
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.exception import UnityEnvironmentException, UnityTimeOutException
from script_programs import write_program
from scripted_engine import exchange_with, first_free_port, hello, message

WAITING = "import os, time\nwhile not os.path.exists({gone!r}):\n    time.sleep(0.05)\n"
"""Has its game started elsewhere, as `docker run` has."""
KINDS = [("", "lean"), ("", "grpcio"), ("unreal:", "lean"), ("godot:", "lean")]


def call_as_engine(port, dialect):
    channel, exchange = exchange_with(port, dialect)
    with channel, suppress(grpc.RpcError):
        exchange(message(hello()))


def call_as_game(port):
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as game:
            game.sendall(frame(b"{}"))
            while game.recv(1024):
                pass
            return


@pytest.mark.parametrize("ends", [False, True], ids=["waits", "ends"])
@pytest.mark.parametrize(("prefix", "transport"), KINDS)
def test_a_caller_that_was_turned_away_is_the_reason(prefix, transport, ends, tmp_path):
    gone, port = tmp_path / "gone", first_free_port(1)
    program = write_program(tmp_path / "Game", WAITING.format(gone=str(gone)))

    def call():
        if prefix == "godot:":
            call_as_game(port)
        else:
            call_as_engine(port, UNREAL if prefix else UNITY)
        if ends:
            gone.touch()

    options = EngineOptions(
        path=f"{prefix}{program}",
        base_port=port,
        transport=transport,
        timeout_wait=60 if ends else 3,
        additional_args=("--level", "2"),
    )
    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    with pytest.raises(UnityEnvironmentException if ends else UnityTimeOutException) as raised:
        open_environment(options)
    gone.touch()
    caller.join(60)
    said = str(raised.value)
    assert "A program called, and was turned away: it is not the engine that was started" in said
    assert "--allow 127.0.0.1 admits it. " in said
    assert not any(guess in said for guess in ("did not start", "Make sure that", "what it wrote may tell"))


ACADEMY = b'{\r\n  "AcademyName": "Ball3DAcademy",\r\n  "apiNumber": "API-2",\r\n  "logPath": "/l"\r\n}'
"""How a game with ML-Agents of 2017 begins."""


def call_as_of_2017(port):
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as game:
            game.sendall(ACADEMY)
            while game.recv(1024):
                pass
            return


def call_as_of_2018(port):
    channel, exchange = exchange_with(port, Dialect(OLD_UNITY_PATH, "0.8", "0.8"))
    with channel, pytest.raises(grpc.RpcError, match="2018 and 2019"):
        exchange(message(hello()))


@pytest.mark.parametrize(
    ("call", "transport", "told"),
    [
        (call_as_of_2017, "lean", OLDEST_UNITY),
        (call_as_of_2018, "lean", OLD_UNITY),
        (call_as_of_2018, "grpcio", OLD_UNITY),
    ],
)
def test_a_game_with_an_old_ml_agents_is_to_be_updated(call, transport, told, caplog):
    port = first_free_port(1)
    caller = threading.Thread(target=call, args=[port], daemon=True)
    caller.start()
    with pytest.raises(UnityTimeOutException) as raised:
        UnityEnvironment(base_port=port, transport=transport, timeout_wait=3)
    caller.join(60)
    assert f"A program called, and was turned away: {told}." in str(raised.value)
    assert "com.unity.ml-agents" in told and f": {told}" in caplog.text, "it is said at once"


@pytest.mark.parametrize(("call", "told"), [(call_as_of_2017, OLDEST_UNITY), (call_as_of_2018, OLD_UNITY)])
def test_an_old_game_that_connects_by_itself_is_to_be_updated(call, told, caplog):
    server = AttachServer("localhost", 0)
    server.start()
    call(server.port)
    server.close()
    assert f": {told}" in caplog.text


def test_without_a_caller_it_is_told_what_may_be_wrong(tmp_path):
    gone = tmp_path / "gone"
    program = write_program(tmp_path / "Game", WAITING.format(gone=str(gone)))
    with pytest.raises(UnityTimeOutException, match="It has not called yet: it did not start, or") as raised:
        open_environment(EngineOptions(path=str(program), timeout_wait=1))
    gone.touch()
    assert "Make sure that" in str(raised.value)
