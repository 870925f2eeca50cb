"""Every fault of an engine is one error with its cause, and no engine is left behind."""

import contextlib
import errno
import os
import signal
import socket
import threading
import time
from selectors import DefaultSelector
from types import SimpleNamespace

import grpc
import psutil
import pytest
from fake_engine import Clock
from lanista.envs.unity import UnityEnvironment
from lanista.envs.unity import shutdown as leaving
from lanista.envs.unity.process import REAPER
from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from scripted_engine import (
    NOBODY,
    ScriptedEngine,
    exchange_with,
    executable,
    free_port,
    hello,
    message,
    observation,
)

LONG = 60


def children() -> set[int]:
    """Processes below this one that still run, but for the guard, which serves every engine."""
    guard = REAPER._shell.pid if REAPER._shell else None
    below = psutil.Process().children(recursive=True)
    return {p.pid for p in below if p.pid != guard and p.status() != psutil.STATUS_ZOMBIE}


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = children()
    yield
    assert children() <= before


def launch(folder, script, timeout=LONG, **options):
    return UnityEnvironment(executable(folder, script), worker_id=2, timeout_wait=timeout, **options)


def test_missing_executable(tmp_path):
    with pytest.raises(UnityEnvironmentException, match="does not match any environments"):
        UnityEnvironment(str(tmp_path / "Game"))


def test_not_executable(tmp_path):
    game = executable(tmp_path, "")
    (tmp_path / "Game.x86_64").chmod(0o644)
    with pytest.raises(UnityEnvironmentException, match=r"not executable.*chmod"):
        UnityEnvironment(game)


def test_not_a_program(tmp_path):
    (tmp_path / "Game.x86_64").write_bytes(b"\x00\x01 not a program")
    (tmp_path / "Game.x86_64").chmod(0o755)
    with pytest.raises(UnityEnvironmentException, match="cannot be started"):
        UnityEnvironment(str(tmp_path / "Game"))


def test_crash_at_once_shows_the_end_of_the_log(tmp_path):
    with pytest.raises(UnityEnvironmentException) as error:
        launch(tmp_path, "print('no display', file=log); sys.exit(7)", log_folder=tmp_path)
    assert "environment 2" in str(error.value) and "return code 7." in str(error.value)
    assert "Player-2.log" in str(error.value) and "no display" in str(error.value)


def test_crash_in_the_handshake(tmp_path):
    with pytest.raises(UnityEnvironmentException, match=r"return code -11 \(SIGSEGV\)"):
        launch(tmp_path, "ask(message(hello())); os.kill(os.getpid(), signal.SIGSEGV)")


def test_crash_between_two_steps(tmp_path):
    env = launch(tmp_path, "greet(); steps(3); raise RuntimeError('physics exploded')")
    env.reset()
    env.step()
    env.step()
    with pytest.raises(UnityEnvironmentException, match=r"return code 1\.[\s\S]*physics exploded"):
        env.step()
    env.close()


def test_killed_while_it_waits_for_an_answer(tmp_path):
    env = launch(tmp_path, "greet(); steps(10**6)")
    env.reset()
    psutil.Process(env._connection._process.pid).send_signal(signal.SIGKILL)
    with pytest.raises(UnityEnvironmentException, match=r"SIGKILL"):
        env.step()
    env.close()


def test_a_killed_engine_is_ready_to_be_asked_why(tmp_path):
    env = launch(tmp_path, "greet(); steps(1); time.sleep(600)")
    env.reset()
    env.send_step()
    assert not env.poll()
    env._connection._process._process.kill()
    assert env._connection._process.wait(20) and env.poll()
    with pytest.raises(UnityEnvironmentException, match="SIGKILL"):
        env.receive()
    env.close()


def test_never_connects(tmp_path):
    with pytest.raises(UnityTimeOutException, match=r"took too long[\s\S]*has not called yet[\s\S]*is alive"):
        launch(tmp_path, "print('waiting for a user', flush=True); time.sleep(600)", timeout=0.5)


def test_silent_after_its_greeting():
    port = free_port()
    channel, exchange = exchange_with(port)
    threading.Thread(target=exchange, args=[message(hello())], daemon=True).start()
    with channel, pytest.raises(UnityTimeOutException, match="did not complete the handshake"):
        UnityEnvironment(base_port=port, timeout_wait=1)


def test_agents_that_never_ask_for_a_decision(tmp_path):
    env = launch(tmp_path, "greet(); time.sleep(600)")
    env._connection.timeout = 0.5
    with pytest.raises(UnityTimeOutException, match=r"no agent has asked for a decision.*Decision Requester"):
        env.reset()
    env.close()


def test_hang_with_an_open_socket(tmp_path):
    env = launch(tmp_path, "greet(); steps(1); os.kill(os.getpid(), signal.SIGSTOP)")
    env.reset()
    env._connection.timeout = 0.5
    with pytest.raises(UnityTimeOutException, match=r"did not answer within 0.5 s[\s\S]*\(stopped\)"):
        env.step()
    env.close()


def test_an_engine_given_up_is_killed_without_waiting(tmp_path):
    env = launch(tmp_path, "greet(); steps(1); os.kill(os.getpid(), signal.SIGSTOP)")
    env.reset()
    env.send_step()
    process = env._connection._process
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    error = env.timed_out()
    assert isinstance(error, UnityTimeOutException) and "(stopped)" in str(error)
    env.close()
    assert process.returncode == -signal.SIGKILL


def test_an_engine_that_ignores_quit_is_killed(tmp_path, caplog):
    env = launch(tmp_path, "greet(); exchange(message(observation(1))); time.sleep(600)")
    env.reset()
    env._connection.timeout = 0.5
    env.close()
    assert "timed out shutting down" in caplog.text


def test_the_port_that_was_asked_for_is_taken(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UnityWorkerInUseException, match=rf"Port {port} is held by.*base_port"):
            launch(tmp_path, "", base_port=port - 2)
        with pytest.raises(UnityWorkerInUseException, match=r"the Unity Editor"):
            UnityEnvironment(base_port=port)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such ports")
def test_a_port_that_needs_privileges_is_not_called_taken(monkeypatch):
    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(UnityEnvironmentException, match=r"port 81 needs privileges.*--base-port") as error:
        UnityEnvironment(base_port=81)
    assert not isinstance(error.value, UnityWorkerInUseException)


def test_a_port_beyond_the_last_one(tmp_path):
    with pytest.raises(UnityEnvironmentException, match=r"Environment 2 .*65536.*base_port"):
        launch(tmp_path, "", base_port=65534)


@pytest.mark.parametrize("version", ["2.0.0", "0.15.0"])
def test_another_version_of_the_protocol(tmp_path, version):
    with pytest.raises(UnityEnvironmentException) as error:
        launch(tmp_path, f"greet({version!r}); time.sleep(600)")
    assert f"Python API: 1.5.0, Unity API: {version}." in str(error.value)
    assert "environment 2" in str(error.value)


def test_an_engine_of_another_version_may_write_its_log(tmp_path):
    script = "ask(message(hello('2.0.0'))); time.sleep(0.1); print('versions differ', file=log); sys.exit(4)"
    with pytest.raises(UnityEnvironmentException, match=r"Unity API: 2\.0\.0\."):
        launch(tmp_path, script, log_folder=tmp_path)
    assert (tmp_path / "Player-2.log").read_text() == "versions differ\n"


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 40, message(observation(1, 2))[:-7]], ids=["noise", "cut short"]
)
def test_malformed_bytes(tmp_path, garbage):
    env = launch(tmp_path, f"greet(); steps(1); ask({garbage!r}); steps(10**6)")
    env.reset()
    with pytest.raises(UnityCommunicationException, match="environment 2"):
        env.step()
    env.close()


def test_malformed_greeting(tmp_path):
    with pytest.raises(UnityCommunicationException, match="environment 2"):
        launch(tmp_path, "ask(b'\\xff\\xff\\xff'); time.sleep(600)")


def test_a_first_message_that_is_no_greeting(tmp_path):
    with pytest.raises(UnityCommunicationException, match="not the initialization"):
        launch(tmp_path, "steps(1); time.sleep(600)")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (message(hello()), r"the greeting of an engine \(AcademySingleton\)"),
        (message(None), "tells nothing of any agents"),
        (message(b""), "tells nothing of any agents"),
    ],
    ids=["greeting", "bare header", "empty output"],
)
def test_what_belongs_to_the_beginning_of_a_session_is_no_step(tmp_path, said, told):
    env = launch(tmp_path, f"greet(); steps(1); ask({said!r}); steps(10**6)")
    env.reset()
    with pytest.raises(UnityCommunicationException, match=f"environment 2: in the middle .*{told}"):
        env.step()
    env.close()


def test_agents_that_have_nothing_to_say_are_a_step(tmp_path):
    env = launch(tmp_path, f"greet(); steps(1); ask(message({NOBODY!r})); steps(10**6)")
    env.reset()
    env.step()
    assert [len(batch) for batch in env.get_steps("Ball?team=0")] == [0, 0]
    env.close()


def test_malformed_side_channel_bytes(tmp_path):
    env = launch(tmp_path, "greet(); ask(message(observation(1, side_channel=b'abc'))); time.sleep(600)")
    with pytest.raises(UnityEnvironmentException, match=r"environment 2.*SideChannel"):
        env.reset()
    env._close(timeout=0.0)


def test_an_observation_of_another_shape(tmp_path):
    env = launch(tmp_path, "greet(); steps(1); ask(message(observation(1, 2, 3))); time.sleep(600)")
    env.reset()
    # The second message brings the behaviour's parameters again, so that the shape may change with them.
    env.step()
    assert env.behavior_specs["Ball?team=0"].observation_specs[0].shape == (3,)
    env._close(timeout=0.0)


def test_the_engine_ends_the_session():
    port = free_port()
    ScriptedEngine(port, [hello(), observation(1), None])
    env = UnityEnvironment(base_port=port, timeout_wait=LONG)
    env.reset()
    with pytest.raises(UnityCommunicatorStoppedException, match="Communicator has exited"):
        env.step()
    env.close()


def test_stop_in_the_editor_is_answered_at_once():
    """Until then the Editor is frozen, and a run that ends saves first."""
    port = free_port()
    editor = ScriptedEngine(port, [hello(), observation(1), None])
    env = UnityEnvironment(base_port=port, timeout_wait=LONG)
    env.reset()
    with pytest.raises(UnityCommunicatorStoppedException):
        env.step()
    editor.join(20)
    assert editor.was_told_to_quit
    with pytest.raises(UnityCommunicatorStoppedException, match="told to quit"):
        env.step()
    env.close()


class Lingering:
    """A connection to an engine that uses up all the time it is given."""

    timeout = 60.0

    def __init__(self, clock, log):
        self.clock, self.log = clock, log

    def send_quit(self):
        self.log.append("dismissed")

    def close(self, timeout):
        self.log.append(timeout)
        self.clock.pass_(timeout)


def test_engines_that_a_script_leaves_open_share_the_time_to_end(monkeypatch):
    clock, log = Clock(), []
    monkeypatch.setattr(leaving, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(leaving, "_open", {Lingering(clock, log): None for _ in range(3)})
    leaving._close_all()
    assert log == ["dismissed"] * 3 + [leaving.SECONDS, 0.0, 0.0]


def test_the_engine_ends_the_session_in_the_handshake():
    port = free_port()
    ScriptedEngine(port, [None])
    with pytest.raises(UnityCommunicatorStoppedException, match="handshake"):
        UnityEnvironment(base_port=port, timeout_wait=LONG)


def test_the_editor_is_gone_while_it_waits():
    port = free_port()
    channel, exchange = exchange_with(port)

    def editor() -> None:
        with contextlib.suppress(grpc.RpcError):
            for said in (message(hello()), message(None), message(observation(1))):
                exchange(said)

    threading.Thread(target=editor, daemon=True).start()
    env = UnityEnvironment(base_port=port, timeout_wait=LONG)
    env.reset()
    with DefaultSelector() as selector:
        env.watch(selector)
        channel.close()
        while not env.poll():
            assert selector.select(20), "the selector has not told of it"
        env.watch(None)
    with pytest.raises(UnityCommunicatorStoppedException, match="dropped"):
        env.step()
    env.close()
