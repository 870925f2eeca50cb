"""Where Unity logs if it is told nothing else, and that errors there are told."""

from pathlib import Path

import pytest
from console_runs import until
from lanista.envs.unity import UnityEnvironment
from lanista.envs.unity.logs import editor_log, player_log
from scripted_engine import executable


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", ".config/unity3d/Editor.log"),
        ("darwin", "Library/Logs/Unity/Editor.log"),
        ("win32", "AppData/Local/Unity/Editor/Editor.log"),
    ],
)
def test_where_the_editor_logs(platform, place, monkeypatch):
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert editor_log(platform) == Path.home() / place


@pytest.mark.parametrize(
    ("platform", "program", "data", "place"),
    [
        ("linux", "Game.x86_64", "Game_Data", ".config/unity3d/Some One/Roller/Player.log"),
        ("win32", "Game.exe", "Game_Data", "AppData/LocalLow/Some One/Roller/Player.log"),
        (
            "darwin",
            "Game.app/Contents/MacOS/Game",
            "Game.app/Contents/Resources/Data",
            "Library/Logs/Some One/Roller/Player.log",
        ),
    ],
)
def test_where_a_player_logs(platform, program, data, place, tmp_path):
    assert player_log(tmp_path / program, platform) is None
    (tmp_path / data).mkdir(parents=True)
    (tmp_path / data / "app.info").write_text("Some One\nRoller\n")
    assert player_log(tmp_path / program, platform) == Path.home() / place
    (tmp_path / data / "app.info").write_text("Some One")
    assert player_log(tmp_path / program, platform) is None


def test_errors_in_the_log_that_a_player_writes_by_itself_are_told(tmp_path, monkeypatch, caplog):
    """As in `lanista play`, and where a script opens an executable without a folder for logs."""
    monkeypatch.setattr("lanista.envs.unity.launch.player_log", lambda program: log)
    log = tmp_path / "Player.log"
    env = UnityEnvironment(executable(tmp_path, "greet(); steps(600)"), timeout_wait=60)
    env.reset()
    log.write_text("KeyNotFoundException: oops\n  at Ball.Act () [0x00001] in /game/Assets/Ball.cs:7 \n\n")
    assert until(lambda: "KeyNotFoundException: oops (Assets/Ball.cs:7)" in caplog.text)
    env._close(timeout=0.0)
