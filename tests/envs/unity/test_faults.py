"""Every fault of an engine is one error with its cause, and no engine is left running."""

import contextlib
import errno
import signal
import socket
import threading
import time
from selectors import DefaultSelector

import grpc
import psutil
import pytest
from console_runs import until
from lanista.envs.engines import shutdown
from lanista.envs.engines.reaper import REAPER
from lanista.envs.manager.manager import EnvManager
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.exception import (
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from script_programs import CRASH, CRASH_MESSAGE, KILL, KILLED, KILLED_MESSAGE, SUFFIX, WINDOWS
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
    """Processes below this one that still run, except the reaper, which serves every engine."""
    reaper = getattr(REAPER, "_shell", None)  # Windows has none
    below = psutil.Process().children(recursive=True)
    return {
        p.pid for p in below if not (reaper and p.pid == reaper.pid) and p.status() != psutil.STATUS_ZOMBIE
    }


@pytest.fixture(autouse=True)
def nothing_left_behind():
    before = children()
    yield
    assert until(lambda: children() <= before)


def launch(folder, script, timeout=LONG, **options):
    return UnityEnvironment(executable(folder, script), worker_id=2, timeout_wait=timeout, **options)


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        pytest.param(
            b"#!/bin/sh\n", 0o644, r"not executable.*chmod", marks=pytest.mark.posix("modes of files")
        ),
        (b"\x00\x01 not a program", 0o755, "cannot be started"),
        (b"MZ\x00\x01 not a program", 0o755, "cannot be started.*Is it.* a program for this"),
    ],
)
def test_a_file_that_cannot_be_run(tmp_path, content, mode, message):
    game = tmp_path / f"Game{SUFFIX}"
    game.write_bytes(content)
    game.chmod(mode)
    with pytest.raises(UnityEnvironmentException, match=message):
        UnityEnvironment(str(game))


WAIT = "time.sleep(600)"
FAILED_LAUNCHES = {
    "a crash in the handshake": (
        f"ask(message(hello())); {CRASH}",
        (UnityEnvironmentException, CRASH_MESSAGE),
    ),
    "an older protocol": (
        f"greet('0.15.0'); {WAIT}",
        (UnityEnvironmentException, r"Python API: 1\.5\.0, Unity API: 0\.15\.0\. .environment 2"),
    ),
    "a newer protocol": (
        f"greet('2.0.0'); {WAIT}",
        (UnityEnvironmentException, r"Python API: 1\.5\.0, Unity API: 2\.0\.0\. .environment 2"),
    ),
    "a malformed greeting": (
        f"ask(b'\\xff\\xff\\xff'); {WAIT}",
        (UnityCommunicationException, "environment 2"),
    ),
    "no greeting": (f"steps(1); {WAIT}", (UnityCommunicationException, "belongs to a session that is over")),
}


@pytest.mark.parametrize("case", FAILED_LAUNCHES)
def test_a_failed_launch_is_an_error(tmp_path, case):
    script, (error, message) = FAILED_LAUNCHES[case]
    with pytest.raises(error, match=message):
        launch(tmp_path, script)


def test_a_crash_at_once_shows_the_end_of_the_log(tmp_path):
    with pytest.raises(UnityEnvironmentException) as error:
        launch(tmp_path, "print('no display', file=log); sys.exit(7)", log_folder=tmp_path)
    assert "environment 2" in str(error.value) and "return code 7." in str(error.value)
    assert "Player-2.log" in str(error.value) and "no display" in str(error.value)


def test_what_a_game_has_started_ends_with_it(tmp_path):
    script = f"""
        import subprocess
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        child = subprocess.Popen(command, stdin=-3, stdout=-3, stderr=-3)
        open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
        sys.exit(3)
    """
    with pytest.raises(UnityEnvironmentException, match=r"return code 3\."):
        launch(tmp_path, script)
    child = int((tmp_path / "child").read_text())

    def has_ended() -> bool:
        try:
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    assert until(has_ended)


@pytest.mark.parametrize("windowless", [False, True], ids=["with a window", "--no-graphics"])
@pytest.mark.parametrize(("script", "seconds"), [("sys.exit(7)", LONG), (WAIT, 0.5)], ids=["crash", "hang"])
def test_no_graphics_is_suggested_to_those_who_did_not_use_it(tmp_path, script, seconds, windowless):
    with pytest.raises((UnityEnvironmentException, UnityTimeOutException)) as error:
        launch(tmp_path, script, seconds, no_graphics=windowless)
    assert ("--no-graphics" in str(error.value)) is not windowless


def in_the_middle(part: str) -> tuple[type[Exception], str]:
    return UnityCommunicationException, f"environment 2: in the middle .*{part}"


FAILED_STEPS = {
    "a crash": (
        "raise RuntimeError('physics exploded')",
        (UnityEnvironmentException, r"return code 1\.[\s\S]*physics exploded"),
    ),
    "a kill": (f"os.kill(os.getpid(), {int(KILL)})", (UnityEnvironmentException, KILLED_MESSAGE)),
    "a hang": (
        "time.sleep(600)" if WINDOWS else "os.kill(os.getpid(), signal.SIGSTOP)",
        (
            UnityTimeOutException,
            rf"did not answer within 1 s[\s\S]*\({'running' if WINDOWS else 'stopped'}\)",
        ),
    ),
    "noise": (f"ask({bytes([255] * 40)!r})", (UnityCommunicationException, "environment 2")),
    "a message cut short": (
        f"ask({message(observation(1, 2))[:-7]!r})",
        (UnityCommunicationException, "environment 2"),
    ),
    "a greeting": (
        f"ask({message(hello())!r})",
        in_the_middle(r"the greeting of an engine \(AcademySingleton\)"),
    ),
    "a bare header": (f"ask({message(None)!r})", in_the_middle("tells nothing of any agents")),
    "an empty output": (f"ask({message(b'')!r})", in_the_middle("tells nothing of any agents")),
    "a malformed side channel": (
        "ask(message(observation(1, side_channel=b'abc')))",
        (UnityEnvironmentException, r"environment 2.*SideChannel"),
    ),
}


@pytest.mark.parametrize("case", FAILED_STEPS)
def test_a_failed_step_is_an_error(tmp_path, case):
    script, (error, message) = FAILED_STEPS[case]
    env = launch(tmp_path, f"greet(); steps(3); {script}; steps(10**6)")
    for step in (env.reset, env.step, env.step):
        step()
    if case == "a hang":
        env._connection.timeout = 1
    with pytest.raises(error, match=message):
        env.step()
    env._close(timeout=0.0)


def test_killed_while_it_waits_for_an_action(tmp_path):
    env = launch(tmp_path, "greet(); steps(10**6)")
    env.reset()
    psutil.Process(env._connection._process.pid).kill()
    with pytest.raises(UnityEnvironmentException, match=KILLED_MESSAGE):
        env.step()
    env.close()


def test_a_killed_engine_reports_why_when_polled(tmp_path):
    env = launch(tmp_path, "greet(); steps(1); time.sleep(600)")
    env.reset()
    env.send_step()
    assert not env.poll()
    psutil.Process(env._connection._process.pid).kill()
    assert env._connection._process.wait(20) and env.poll()
    with pytest.raises(UnityEnvironmentException, match=KILLED_MESSAGE):
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


def test_agents_that_never_request_a_decision(tmp_path):
    env = launch(tmp_path, "greet(); time.sleep(600)")
    env._connection.timeout = 0.5
    with pytest.raises(UnityTimeOutException, match=r"no agent has asked for a decision.*Decision Requester"):
        env.reset()
    env.close()


@pytest.mark.posix("signals")
def test_an_engine_that_timed_out_is_killed_without_waiting(tmp_path):
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


def waits_of(env, monkeypatch):
    """The seconds for which the end of an environment's process is waited for."""
    process, waits = env._connection._process, []
    waited = process.wait
    monkeypatch.setattr(process, "wait", lambda seconds: waits.append(seconds) or waited(seconds))
    return waits


@pytest.mark.parametrize(
    "end", [UnityEnvironment.close, lambda env: shutdown._close_all()], ids=["close", "the script ends"]
)
def test_a_player_that_is_closed_before_its_first_reset_is_not_waited_for(tmp_path, monkeypatch, caplog, end):
    """It goes on without a trainer when it is told to quit then; for a minute each engine was waited for."""
    env = launch(tmp_path, "greet_as_player(); steps(10**6)")
    waits = waits_of(env, monkeypatch)
    end(env)
    assert max(waits) <= 1.0
    assert env._connection._process.returncode == KILLED
    assert "timed out" not in caplog.text, "nothing else was to be expected"


def test_when_another_launch_fails_a_player_is_not_waited_for(tmp_path, monkeypatch):
    launched = []

    def make_env(index):
        if index:
            raise UnityEnvironmentException("no such level")
        env = launch(tmp_path, "greet_as_player(); steps(10**6)")
        launched.append((env, waits_of(env, monkeypatch)))
        return env

    with pytest.raises(UnityEnvironmentException, match="no such level"):
        EnvManager(make_env, 2, in_threads=False).start()
    ((env, waits),) = launched
    assert env._connection._process.returncode == KILLED and max(waits) <= 1.0


@pytest.mark.parametrize("script", ["greet()", "greet_as_player()"])
def test_an_engine_that_heeds_the_message_to_quit_is_waited_for(tmp_path, script):
    env = launch(tmp_path, f"{script}; time.sleep(0.2); steps(10**6)")
    env.send_reset()
    env.close()
    assert env._connection._process.returncode == 0


def test_a_scene_heeds_the_message_to_quit_before_its_first_reset():
    env = UnityEnvironment("scene:basic", timeout_wait=LONG)
    env.close()
    assert env._connection._process.returncode == 0


@pytest.mark.parametrize(
    ("fault", "error"),
    [("sys.exit(3)", UnityEnvironmentException), ("time.sleep(600)", UnityTimeOutException)],
    ids=["a crash", "a time-out"],
)
@pytest.mark.parametrize("after", [0, 2], ids=["in the first reset", "in a step"])
def test_after_an_engine_is_lost_every_call_tells_why(tmp_path, fault, error, after):
    """A script that caught the error got one of another type from the next call."""
    env = launch(tmp_path, f"greet(); steps({after}); {fault}")
    for _ in range(after):
        env.step()
    env._connection.timeout = 0.5 if error is UnityTimeOutException else LONG
    with pytest.raises(error) as first:
        env.step()
    for call in (env.step, env.reset, env.receive, env.send_step):
        with pytest.raises(error) as again:
            call()
        assert str(again.value) == str(first.value)
    assert env.poll()
    env.close()


def test_the_requested_port_is_taken(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UnityWorkerInUseException, match=rf"Port {port} is held by.*base_port"):
            launch(tmp_path, "", base_port=port - 2)
        with pytest.raises(UnityWorkerInUseException, match=r"the Unity Editor"):
            UnityEnvironment(base_port=port)


@pytest.mark.posix("Windows has no such ports")
def test_a_port_that_needs_privileges_is_not_reported_as_taken(monkeypatch):
    def refuse(*args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(UnityEnvironmentException, match=r"port 81 needs privileges.*--base-port") as error:
        UnityEnvironment(base_port=81)
    assert not isinstance(error.value, UnityWorkerInUseException)


def test_an_engine_of_another_version_can_still_write_its_log(tmp_path):
    script = "ask(message(hello('2.0.0'))); time.sleep(0.1); print('versions differ', file=log); sys.exit(4)"
    with pytest.raises(UnityEnvironmentException, match=r"Unity API: 2\.0\.0\."):
        launch(tmp_path, script, log_folder=tmp_path)
    assert (tmp_path / "Player-2.log").read_text() == "versions differ\n"


def test_agents_that_report_nothing_are_a_step(tmp_path):
    env = launch(tmp_path, f"greet(); steps(1); ask(message({NOBODY!r})); steps(10**6)")
    env.reset()
    env.step()
    assert [len(batch) for batch in env.get_steps("Ball?team=0")] == [0, 0]
    env.close()


def test_an_observation_may_change_its_shape_with_its_description(tmp_path):
    env = launch(tmp_path, "greet(); steps(1); ask(message(observation(1, 2, 3))); time.sleep(600)")
    env.reset()
    env.step()
    assert env.behavior_specs["Ball?team=0"].observation_specs[0].shape == (3,)
    env._close(timeout=0.0)


def test_stop_in_the_editor_is_answered_at_once():
    """Until then the Editor is frozen, and a run that ends saves first."""
    port = free_port()
    editor = ScriptedEngine(port, [hello(), observation(1), None])
    env = UnityEnvironment(base_port=port, timeout_wait=LONG)
    env.reset()
    with pytest.raises(UnityCommunicatorStoppedException, match="Communicator has exited"):
        env.step()
    editor.join(20)
    assert editor.was_told_to_quit
    with pytest.raises(UnityCommunicatorStoppedException, match="told to quit"):
        env.step()
    env.close()


def test_what_the_editor_logs_while_it_is_attached_is_told(tmp_path, monkeypatch, caplog):
    """Its Console may be hidden; of what it has logged before, nothing is told."""
    monkeypatch.setattr("lanista.envs.unity.launch.editor_log", lambda: log)
    log = tmp_path / "Editor.log"
    thrown = "{}Exception: oops\n  at Ball.Act () [0x00001] in /game/Assets/Ball.cs:{} \n\n"
    log.write_text(thrown.format("Old", 3))
    port = free_port()
    editor = ScriptedEngine(port, [hello(), observation(1)])
    env = UnityEnvironment(base_port=port, timeout_wait=LONG)
    env.reset()
    with log.open("a") as file:
        file.write(thrown.format("New", 7))
    assert until(lambda: "NewException: oops (Assets/Ball.cs:7)" in caplog.text)
    assert "Old" not in caplog.text
    assert "NewException" in str(env.timed_out())
    env.close()
    editor.join(20)
    assert "has printed 1 error" in caplog.text


def test_the_engine_ends_the_session_in_the_handshake():
    port = free_port()
    channel, exchange = exchange_with(port)

    def editor() -> None:
        exchange(message(hello()))
        with contextlib.suppress(grpc.RpcError):
            exchange(message(None, 400))

    threading.Thread(target=editor, daemon=True).start()
    with pytest.raises(UnityCommunicatorStoppedException, match="handshake"):
        UnityEnvironment(base_port=port, timeout_wait=LONG)
    channel.close()


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
            assert selector.select(20), "the selector has not reported it"
        env.watch(None)
    for call in (env.step, env.reset):
        with pytest.raises(UnityCommunicatorStoppedException, match="dropped"):
            call()
    env.close()
