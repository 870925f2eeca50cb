"""Who calls on the port of an engine that is being launched, before the engine does."""

import subprocess
import sys

from lanista.envs.unity import UnityEnvironment
from scripted_engine import free_port

IMPOSTOR = """
import sys
from lanista.envs.errors import TrainerGoneError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.protocol.engine import encode_hello
impostor = EngineEndpoint(int(sys.argv[1]))
print("ready", flush=True)
while True:
    try:
        impostor.connect(1.0)
        impostor.exchange(encode_hello("1.5.0", "4.0.0", "Impostor"))
        impostor.exchange(b"")
    except TrainerGoneError:
        pass
"""


def test_a_program_that_greets_first_does_not_take_the_place_of_the_game(caplog) -> None:
    """It dials as soon as the port is open, and again whenever it is turned away; a scene takes longer."""
    port = free_port()
    impostor = subprocess.Popen([sys.executable, "-c", IMPOSTOR, str(port)], stdout=subprocess.PIPE)
    try:
        assert impostor.stdout.readline() == b"ready\n"
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
