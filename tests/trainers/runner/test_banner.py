"""The commands in the last lines of a run can be typed as printed."""

import shlex
import subprocess

from lanista.trainers.runner import banner as farewell
from lanista.trainers.settings import RunOptions


class OfWindows:
    name = "nt"


def last_command(folder):
    """The command of the last line, and its expected words."""
    folder.mkdir()
    brain = folder / "3D Ball.onnx"
    brain.write_bytes(b"")
    options = RunOptions.from_text("env_settings: {env_path: Builds/My Game, env_args: [--level, 'a b']}")
    (line,) = farewell.next_steps(options, folder, ["3D Ball"], unfinished=False)
    words = ["lanista", "play", str(brain), "--env", "Builds/My Game", "--env-args", "--level", "a b"]
    return line.partition("See it act: ")[2], words


def test_a_posix_shell_parses_the_printed_command(tmp_path):
    command, words = last_command(tmp_path / "my run")
    assert shlex.split(command) == words


def test_windows_parses_the_printed_command(tmp_path, monkeypatch):
    """Its shell does not interpret single quotes."""
    monkeypatch.setattr(farewell, "os", OfWindows)
    command, words = last_command(tmp_path / "my run")
    assert command == subprocess.list2cmdline(words)
    assert "'" not in command and '"Builds/My Game"' in command
