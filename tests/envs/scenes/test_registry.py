"""Finding scenes and writing them as executables."""

import os
import subprocess
import sys
import zipfile
from contextlib import closing

import pytest
from lanista.envs.scenes.registry import UnknownSceneError, export, find
from lanista.envs.unity import UnityEnvironment


def test_an_unknown_scene_is_named_with_the_nearest():
    with pytest.raises(UnknownSceneError, match=r"no scene 'Basics'\. Did you mean 'basic'"):
        find("Basics")


@pytest.mark.parametrize("platform, suffix", [("linux", ".x86_64"), ("win32", ".exe")])
@pytest.mark.parametrize(
    ("given", "written"),
    [("Balls", "Balls"), ("Balls{}", "Balls"), ("deep/Balls", "deep/Balls"), ("", "ball3d")],
)
def test_an_export_is_an_executable_with_unitys_suffix(given, written, platform, suffix, tmp_path):
    path = export("ball3d", tmp_path / given.format(suffix), platform)
    assert path == tmp_path / f"{written}{suffix}"
    assert platform == "win32" or os.access(path, os.X_OK)


def test_an_export_for_windows_is_a_launcher_its_interpreter_and_the_scene(tmp_path):
    path = export("ball3d", tmp_path / "Ball", "win32")
    assert path.read_bytes().startswith(b"MZ")
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["__main__.py"]
    assert f'#!"{sys.executable}" -E\r\n'.encode() in path.read_bytes()
    done = subprocess.run([sys.executable, "-E", path, "--help"], capture_output=True, text=True, check=True)
    assert "--areas" in done.stdout


def test_an_exported_scene_runs_wherever_it_is_started_from(tmp_path, monkeypatch):
    path = export("ball3d", tmp_path / "a folder" / "Ball's")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("PATH", os.defpath)
    done = subprocess.run([path, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--areas" in done.stdout


def test_an_exported_scene_is_an_environment(tmp_path):
    with closing(UnityEnvironment(str(export("basic", tmp_path / "Basic")), seed=1)) as env:
        env.reset()
        assert list(env.behavior_specs) == ["Basic?team=0"]
