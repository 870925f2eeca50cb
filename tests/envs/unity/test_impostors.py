"""Who calls on the port of an engine that is being launched, before the engine does."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from lanista.envs.engines.options import Transport
from lanista.envs.errors import OtherEngineError, TrainerGoneError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.engine import encode_hello
from lanista.envs.protocol.handshake import UNITY_PATH, UNREAL_PATH
from lanista.envs.unity import UnityEnvironment
from lanista.envs.unity.launch import UNREAL_PLUGIN
from scripted_engine import free_port, hello, message, observation
from transcripts import FILES, messages_of

TIMEOUT = 20.0
IMPOSTOR = """
import sys
from lanista.envs.errors import TrainerGoneError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.protocol.engine import encode_hello
impostor = EngineEndpoint(int(sys.argv[1]), path=sys.argv[2].encode())
print("ready", flush=True)
while True:
    try:
        impostor.connect(1.0)
        impostor.exchange(encode_hello("Impostor", "4.0.0"))
        impostor.exchange(b"")
    except TrainerGoneError:
        pass
"""


def mid_session() -> list[bytes]:
    """What an engine has sent after its greeting."""
    return [data for _, data in messages_of(FILES[0]) if Decoder().is_mid_session(data)]


def met_while(call: Callable[[], None], port: int, transport: Transport = "lean") -> list[str]:
    """The behaviors of the Editor that is met, and steps twice, while a thread calls."""
    calling = threading.Thread(target=call)
    calling.start()
    env = UnityEnvironment(base_port=port, transport=transport)
    try:
        env.reset()
        for _ in range(2):
            env.step()
        return list(env.behavior_specs)
    finally:
        env.close()
        calling.join()


@pytest.mark.parametrize("path", [UNITY_PATH, UNREAL_PATH])
def test_a_program_that_calls_first_neither_takes_the_place_of_the_game_nor_ends_its_start(
    path, caplog
) -> None:
    """It dials as soon as the port is open, and again whenever it is turned away; a scene takes longer."""
    port = free_port()
    impostor = subprocess.Popen(
        [sys.executable, "-c", IMPOSTOR, str(port), path.decode()], stdout=subprocess.PIPE
    )
    try:
        assert impostor.stdout.readline().strip() == b"ready"
        env = UnityEnvironment("scene:basic", base_port=port)
        try:
            env.reset()
            for _ in range(5):
                env.step()
            assert list(env.behavior_specs) == ["Basic?team=0"]
        finally:
            env.close()
    finally:
        impostor.kill()
        impostor.wait()
        impostor.stdout.close()
    assert f"It is process {impostor.pid} (" in caplog.text


def test_who_greets_and_leaves_does_not_end_the_wait_for_the_editor() -> None:
    """Its greeting, and the next one's as the answer to a reset, ended the run before the Editor called."""
    port = free_port()
    impostors = [EngineEndpoint(port) for _ in range(3)]

    def call() -> None:
        for impostor in impostors:
            impostor.connect(TIMEOUT)
            leaving = threading.Timer(0.2, impostor.close)
            leaving.start()
            with suppress(TrainerGoneError):
                impostor.exchange(encode_hello("Impostor", "4.0.0"))
                impostor.close()
            leaving.join()
        command = [sys.executable, "-m", "lanista.envs.scenes", "basic", "--mlagents-port", str(port)]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)

    assert met_while(call, port) == ["Basic?team=0"]


@pytest.mark.parametrize("transport", ["lean", "grpcio"])
def test_whose_first_call_is_no_greeting_does_not_end_the_wait_for_the_editor(transport, caplog) -> None:
    """Junk, and an engine in the middle of a session that is over, ended the run."""
    port = free_port()
    left_over = mid_session()[:2]
    refused = []

    def call() -> None:
        for data in [b"junk", b"", *left_over]:
            impostor = EngineEndpoint(port)
            impostor.connect(TIMEOUT)
            try:
                impostor.exchange(data)
            except TrainerGoneError as error:
                refused.append(str(error))
            impostor.close()
        command = [sys.executable, "-m", "lanista.envs.scenes", "basic", "--mlagents-port", str(port)]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)

    assert met_while(call, port, transport) == ["Basic?team=0"]
    assert "not a message of an ML-Agents engine" in refused[0]
    assert len(refused) == 4 and all("in the middle of a session" in each for each in refused[2:])
    assert "its first call is not a message of an ML-Agents engine" in caplog.text


@pytest.mark.parametrize("transport", ["lean", "grpcio"])
def test_an_engine_that_is_left_over_does_not_break_into_a_session(transport) -> None:
    """Its steps, of a behavior that nobody has described here, ended the run with grpcio."""
    port, answered = free_port(), []
    steps = next(data for data in mid_session() if not Decoder().continues(data))

    def call() -> None:
        editor = EngineEndpoint(port)
        editor.connect(TIMEOUT)
        for said in (hello(), None, observation(1), observation(1)):
            editor.exchange(message(said))
            left_over = EngineEndpoint(port)
            left_over.connect(TIMEOUT)
            with suppress(TrainerGoneError):
                left_over.exchange(steps)
                answered.append(said)
            left_over.close()
        with suppress(TrainerGoneError):
            editor.exchange(message(observation(1)))
        editor.close()

    met_while(call, port, transport)
    assert not answered


@pytest.mark.parametrize("transport", ["lean", "grpcio"])
def test_an_engine_of_another_kind_is_named_as_that(transport) -> None:
    port, dialect = free_port(), UNREAL_PLUGIN.dialect

    def call() -> None:
        game = EngineEndpoint(port, path=dialect.path)
        game.connect(TIMEOUT)
        with suppress(TrainerGoneError):
            game.exchange(encode_hello("Game", "1.0", dialect=dialect))
        game.close()

    calling = threading.Thread(target=call)
    calling.start()
    with pytest.raises(OtherEngineError, match="unreal:PATH"):
        UnityEnvironment(base_port=port, transport=transport)
    calling.join()
