"""The commands in the last lines of a run can be typed as printed."""

import shlex
import subprocess

import pytest
from lanista.trainers.runner import banner as farewell
from lanista.trainers.settings import RunOptions
from lanista.trainers.utils import text


class OfWindows:
    name = "nt"


def last_command(folder):
    """The command of the last line, and its expected words."""
    folder.mkdir()
    brain = folder / "3D Ball.onnx"
    brain.write_bytes(b"")
    env = "env_settings: {env_path: Builds/My Game, env_args: [--level, 'a b']}"
    options = RunOptions.from_text(f"{env}\nengine_settings: {{no_graphics: true}}")
    (line,) = farewell.next_steps(options, folder, ["3D Ball"], unfinished=False)
    words = ["lanista", "play", str(brain), "--env", "Builds/My Game", "--no-graphics"]
    words += ["--env-args", "--level", "a b"]
    return line.partition("See it act: ")[2], words


def test_a_posix_shell_parses_the_printed_command(tmp_path):
    command, words = last_command(tmp_path / "my run")
    assert shlex.split(command) == words


def test_windows_parses_the_printed_command(tmp_path, monkeypatch):
    """Its shell does not interpret single quotes."""
    monkeypatch.setattr(text, "os", OfWindows)
    command, words = last_command(tmp_path / "my run")
    assert command == subprocess.list2cmdline(words)
    assert "'" not in command and '"Builds/My Game"' in command


@pytest.mark.parametrize(
    ("env", "words", "then"),
    [
        (
            "{listen: '0.0.0.0:5004', allow: [10.0.0.0/8]}",
            ["0.0.0.0:5004", "--allow", "10.0.0.0/8"],
            "port 5004",
        ),
        ("{listen: 'localhost:0'}", ["localhost:0"], "the port that is then logged"),
    ],
)
def test_a_run_whose_engines_connect_by_themselves_is_seen_at_its_port(tmp_path, env, words, then):
    """It told to press Play in an Editor, of which there need be none."""
    (tmp_path / "Ball.onnx").write_bytes(b"")
    options = RunOptions.from_text(f"env_settings: {env}")
    (line,) = farewell.next_steps(options, tmp_path, ["Ball"], unfinished=False)
    command, _, hint = line.partition("See it act: ")[2].partition("  (")
    assert shlex.split(command) == ["lanista", "play", str(tmp_path / "Ball.onnx"), "--listen", *words]
    assert hint == f"then start an engine that calls {then})"


def test_several_behaviors_are_seen_together(tmp_path):
    options = RunOptions.from_text("env_settings: {env_path: 'scene:wall-jump', env_args: [--areas, '2']}")
    for name in ("Big", "Small"):
        (tmp_path / f"{name}.onnx").write_bytes(b"")
    *brains, act = farewell.next_steps(options, tmp_path, ["Big", "Small"], unfinished=False)
    assert brains == [f"The brain of {name} is {tmp_path / name}.onnx." for name in ("Big", "Small")]
    # Without --env in the run's environment, where each seat of a board game has the behavior that it had.
    assert act == f"See them act: lanista play {tmp_path}"


def test_models_by_slot_are_seen_together(tmp_path):
    options = RunOptions.from_text("env_settings: {env_path: 'scene:baton-pass'}")
    for slot in range(2):
        (tmp_path / f"Team-place{slot}.onnx").write_bytes(b"")
    brains, act = farewell.next_steps(options, tmp_path, ["Team"], unfinished=False)
    assert brains == f"The brain of Team is {tmp_path / 'Team-place'}*.onnx."
    assert act == f"See them act: lanista play {tmp_path}"
