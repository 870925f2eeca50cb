"""Games of Unreal: their names and arguments, and every sentence about one that does not answer."""

import logging
from pathlib import Path

import pytest
from lanista.envs.errors import OtherEngineError
from lanista.envs.protocol.dialect import UNREAL
from lanista.envs.scenes.registry import export
from lanista.envs.unity import UnityEnvironment
from lanista.envs.unity.launch import resolve
from lanista.envs.unity.names import is_unreal, is_unreal_editor
from lanista.envs.unity.plugin import unreal_arguments
from mlagents_envs.exception import UnityEnvironmentException, UnityTimeOutException
from script_programs import CRASH, CRASH_MESSAGE
from scripted_engine import ScriptedEngine, executable, free_port, hello, observation

BALL = "Ball?team=0"
LONG = 60


@pytest.mark.parametrize(
    ("platform", "name", "there", "expected"),
    [
        ("linux", "Linux/Game.sh", ["Linux/Game.sh"], "Linux/Game.sh"),
        ("linux", "Linux/Game", ["Linux/Game.sh"], "Linux/Game.sh"),
        ("linux", "Linux", ["Linux/Game.sh", "Linux/Game/Binaries/Linux/Game"], "Linux/Game.sh"),
        ("linux", "Game-Linux-Test", ["Game-Linux-Test"], "Game-Linux-Test"),
        ("linux", "Game", ["Game.x86_64"], "Game.x86_64"),
        ("darwin", "Game", ["Game.app/Contents/MacOS/Game"], "Game.app/Contents/MacOS/Game"),
        ("win32", "Windows", ["Windows/Game.exe"], "Windows/Game.exe"),
    ],
)
def test_finds_a_packaged_game(tmp_path, monkeypatch, platform, name, there, expected):
    for path in there:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    assert resolve(f"unreal:{name}", platform) == [str(tmp_path / expected)]


def test_a_missing_game_is_one_sentence_about_what_is_there(tmp_path):
    (tmp_path / "Game.sh").touch()
    with pytest.raises(UnityEnvironmentException, match=r"Couldn't launch the Gmae .*There is Game\.sh\."):
        resolve(f"unreal:{tmp_path}/Gmae", "linux")
    with pytest.raises(UnityEnvironmentException, match="make one for Windows in Unreal's menu Platforms"):
        (tmp_path / "Game.app").mkdir()
        resolve(f"unreal:{tmp_path}/Game.app", "win32")


@pytest.mark.parametrize(
    ("name", "unreal", "editor"),
    [(None, False, False), ("unreal:", True, True), (" unreal: ", True, True), ("unreal:Game", True, False)],
)
def test_names_of_games_and_of_the_editor(name, unreal, editor):
    assert (is_unreal(name), is_unreal_editor(name)) == (unreal, editor)


def test_arguments_come_after_the_users_and_tell_the_port_in_both_forms(tmp_path):
    """A map is only read from the first argument, and the plug-in 1.0 reads only the port's second form."""
    log = tmp_path / "Player-0.log"
    assert unreal_arguments(5005, True, log, ["/Game/Maps/Train", "-fps=60"]) == (
        [
            *("/Game/Maps/Train", "-fps=60", "-nullrhi"),
            *("-mlAgentPort", "5005", "-mlAgentPort=5005", f"-abslog={log}"),
        ],
        log,
    )
    assert unreal_arguments(5006, False, None, []) == (["-mlAgentPort", "5006", "-mlAgentPort=5006"], None)


def test_the_users_own_log_file_wins():
    command, log = unreal_arguments(5005, False, Path("Player-0.log"), ["-AbsLog=/tmp/my.log"])
    assert command == ["-AbsLog=/tmp/my.log", "-mlAgentPort", "5005", "-mlAgentPort=5005"]
    assert log == Path("/tmp/my.log")
    command, log = unreal_arguments(5005, False, Path("Player-0.log"), ["-abslog=/dev/stdout"])
    assert command[0] == "-abslog=/dev/stdout" and log is None


@pytest.fixture
def play():
    """Plays a game in Unreal's editor, which sends these outputs; closes what a test leaves open."""
    open_ones = []

    def play(outputs, **options):
        port = free_port()
        engine = ScriptedEngine(port, [hello("1.0.0", "1.0.0"), *outputs], UNREAL)
        env = UnityEnvironment("unreal:", base_port=port, timeout_wait=20, **options)
        open_ones.append(env)
        return env, engine

    yield play
    for env in open_ones:
        env._close(timeout=0.0)


@pytest.mark.parametrize("transport", ["lean", "grpcio"])
def test_the_editor_is_awaited_and_a_reset_in_mid_session_names_its_behaviors(play, caplog, transport):
    """The plug-in reads the command of an answer only if that has entries of actions."""
    with caplog.at_level(logging.INFO):
        env, engine = play([observation(1), observation(2), observation(3)], transport=transport)
    assert "pressing the Play button in Unreal's editor" in caplog.text
    assert "Connected to Unreal environment with package version 1.0.0" in caplog.text
    env.reset()
    env.step()
    env.reset()
    assert env.get_steps(BALL)[0].obs[0].tolist() == [[3]]
    env.close()
    engine.join(20)
    first, step, again = [reply.unity_input.rl_input for reply in engine.replies[1:4]]
    assert (first.command, list(first.agent_actions)) == (1, [])
    assert (step.command, len(step.agent_actions[BALL].value)) == (0, 1)
    assert (again.command, dict(again.agent_actions)) == (1, {BALL: type(again).ListAgentActionProto()})
    assert engine.was_told_to_quit


def test_stop_in_the_editor_ends_the_session(play):
    env, engine = play([observation(1), None])
    env.reset()
    with pytest.raises(Exception, match="Communicator has exited"):
        env.step()
    engine.join(20)
    assert engine.was_told_to_quit


def launch(folder, script, timeout=LONG, **options):
    game = executable(folder, script)
    return UnityEnvironment(f"unreal:{game}", worker_id=2, timeout_wait=timeout, **options)


def test_a_game_that_never_calls(tmp_path):
    with pytest.raises(UnityTimeOutException) as error:
        launch(tmp_path, "time.sleep(600)", timeout=0.5)
    said = str(error.value)
    assert "The Unreal environment took too long to respond" in said
    assert "its level has no agent" in said
    assert "Heuristic Only" in said
    assert "Unity" not in said


def test_a_game_whose_agents_never_request_a_decision(tmp_path):
    env = launch(tmp_path, "greet('1.0.0'); time.sleep(600)")
    env._connection.timeout = 0.5
    with pytest.raises(
        UnityTimeOutException, match=r"no agent has asked for a decision.*Behavior Type is Default"
    ):
        env.reset()
    env.close()


def test_a_game_of_another_version(tmp_path):
    with pytest.raises(UnityEnvironmentException) as error:
        launch(tmp_path, "ask(message(hello('2.0.0'))); time.sleep(600)")
    said = str(error.value)
    assert "not compatible between Unreal and python. Python API: 1.0.0, Unreal API: 2.0.0." in said
    assert "UnrealMLAgents" in said


def test_a_crash_shows_the_end_of_the_games_log(tmp_path):
    script = f"print('LogMLAgents: no level', file=log); {CRASH}"
    with pytest.raises(UnityEnvironmentException, match=rf"{CRASH_MESSAGE}[\s\S]*LogMLAgents: no level"):
        launch(tmp_path, script, log_folder=tmp_path)


def test_a_game_of_unity_in_the_editor_of_unreal_is_told_from_it():
    port = free_port()
    ScriptedEngine(port, [hello()])
    with pytest.raises(OtherEngineError, match="one of Unity, where one of Unreal was expected"):
        UnityEnvironment("unreal:", base_port=port, timeout_wait=LONG)


def test_an_exported_scene_is_a_game_of_unreal(tmp_path):
    game = export("dungeon-escape", tmp_path / "dungeon-escape")
    env = UnityEnvironment(
        f"unreal:{game}", timeout_wait=LONG, log_folder=tmp_path, additional_args=["--areas=2"]
    )
    env.reset()
    for _ in range(3):
        env.step()
    (name,) = env.behavior_specs
    decisions, _ = env.get_steps(name)
    assert len(decisions) == 6
    assert set(decisions.group_id) == {1, 2}
    assert decisions.action_mask is not None
    env.close()
    assert "said goodbye" in (tmp_path / "Player-0.log").read_text()
